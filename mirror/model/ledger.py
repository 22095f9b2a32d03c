"""The ledger: what is written down of every send and every read, and how one record is told from another.

The ledger is kept outside all clusters by the applications (load generators and readers) and judged afterwards. A
record is known by its **id**, ``(producer, sequence)``, which travels with it in the header ``ledger``; its **digest**
says whether its content is still what was sent. The timestamp is not part of the digest: it is kept, and compared, on
its own.

Invariants:

(a) The ledger's id travels in a header, so it survives every lane; the digest covers key, value and headers, the
    timestamp is compared by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Literal, NamedTuple

LEDGER_HEADER = "ledger"
"""Name of the header that carries ``producer:sequence``."""

DIGEST_BYTES = 16

Headers = Sequence[tuple[str, bytes | None]]


class SendStatus(StrEnum):
    """Outcome of a send. An indeterminate one may or may not be in the log; only the log can tell."""

    ACKED = "acked"
    FAILED = "failed"
    INDETERMINATE = "indeterminate"


class RecordId(NamedTuple):
    """Who sent a record, and its number among those of that producer, from 0."""

    producer: str
    sequence: int

    def header(self) -> tuple[str, bytes]:
        """Return the header that carries this id."""
        return LEDGER_HEADER, f"{self.producer}:{self.sequence}".encode()


def record_id(headers: Iterable[tuple[str, bytes | None]]) -> RecordId | None:
    """Return the id a record carries, or None for a record of somebody who keeps no ledger.

    A header of that name that is not ``producer:sequence`` is somebody else's, and counts as none.
    """
    for name, value in headers:
        if name == LEDGER_HEADER and value is not None:
            producer, colon, sequence = value.decode("utf-8", "replace").rpartition(":")
            if colon and producer and sequence.isascii() and sequence.isdigit():
                return RecordId(producer, int(sequence))
    return None


def _varint(number: int) -> bytes:
    """Return Kafka's zigzag varint."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SHORT = tuple(_varint(number) for number in range(4096))
_NULL = _varint(-1)


def _length(number: int) -> bytes:
    return _SHORT[number] if number < 4096 else _varint(number)


def encode_content(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Return key, value and headers in the encoding they have inside a Kafka record (magic 2).

    Lengths are zigzag varints and -1 stands for null, so null and empty differ, and so do records whose bytes are
    merely cut at other places.
    """
    parts = []
    for field in (key, value):
        if field is None:
            parts.append(_NULL)
        else:
            parts += (_length(len(field)), field)
    parts.append(_length(len(headers)))
    for name, content in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (_length(len(encoded)), encoded)
        if content is None:
            parts.append(_NULL)
        else:
            parts += (_length(len(content)), content)
    return b"".join(parts)


def digest(encoded: bytes) -> bytes:
    """Return the 16 bytes that stand for a record's content, given `encode_content` of it."""
    return blake2b(encoded, digest_size=DIGEST_BYTES).digest()


ColumnType = Literal["string", "int", "long", "binary", "boolean"]


class Column(NamedTuple):
    """One column of a table of the ledger: ``int`` has 32 bits, ``long`` 64; ``_ms`` is milliseconds since 1970 UTC."""

    name: str
    type: ColumnType
    nullable: bool = False


SENDS = (
    Column("producer", "string"),
    Column("sequence", "long"),
    Column("cluster", "string"),
    Column("topic", "string"),
    Column("partition", "int"),  # -1: not known
    Column("offset", "long"),  # -1: not known, as the send was not acked
    Column("status", "string"),  # a SendStatus
    Column("digest", "binary"),
    Column("size_bytes", "int"),  # of key, value and headers as encoded in a record
    Column("timestamp_ms", "long"),  # of the record
    Column("sent_at_ms", "long"),
    Column("acked_at_ms", "long", nullable=True),
)
"""A row per send, written when its outcome is known."""

READS = (
    Column("group", "string"),
    Column("consumer", "string"),
    Column("read_number", "long"),  # the number of the read among those of this consumer, from 0
    Column("cluster", "string"),
    Column("topic", "string"),
    Column("partition", "int"),
    Column("offset", "long"),
    Column("producer", "string", nullable=True),
    Column("sequence", "long", nullable=True),
    Column("digest", "binary"),
    Column("timestamp_ms", "long"),
    Column("read_at_ms", "long"),
)
"""A row per record handed to a consumer of a group, in the order of reading."""

COMMITS = (
    Column("group", "string"),
    Column("consumer", "string"),
    Column("cluster", "string"),
    Column("topic", "string"),
    Column("partition", "int"),
    Column("position", "long"),
    Column("committed_at_ms", "long"),  # when the answer was there: no earlier than the coordinator had it
)
"""A row per position that a consumer committed and the coordinator acknowledged."""

LOGS = (
    Column("cluster", "string"),
    Column("topic", "string"),
    Column("partition", "int"),
    Column("offset", "long"),
    Column("timestamp_ms", "long"),
    Column("producer", "string", nullable=True),
    Column("sequence", "long", nullable=True),
    Column("digest", "binary"),
    Column("size_bytes", "int"),
    Column("producer_id", "long"),  # of the batch, given by the broker; -1: written without idempotence
)
"""A row per data record found in a log when it was read to its end."""
