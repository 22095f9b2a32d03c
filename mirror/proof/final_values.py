"""Final values: what compaction promises to keep. The newest value of every key, compared between a log and its copy.

Which older records are still there depends on when each side's cleaner came by, and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirror.kafka.batch import Record
from mirror.model.ledger import digest, encode_content


@dataclass(frozen=True, slots=True)
class FinalValues:
    """How many keys have a value in the end, and how many of them have another one in the copy, or none, or too many.

    A deleted key (a tombstone, or nothing any more) has no value.
    """

    keys: int = 0
    stale: int = 0

    def __add__(self, other: FinalValues) -> FinalValues:
        """Return both together."""
        return FinalValues(self.keys + other.keys, self.stale + other.stale)


def compare_final_values(source: Iterable[Record], copy: Iterable[Record]) -> FinalValues:
    """Compare the newest values of two partitions, given all their records in the order of their offsets."""
    wanted, found = _final(source), _final(copy)
    stale = sum(found.get(key) != value for key, value in wanted.items()) + len(found.keys() - wanted.keys())
    return FinalValues(len(wanted), stale)


def _final(records: Iterable[Record]) -> dict[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None:
            continue
        key = bytes(record.key)
        values.pop(key, None)
        if record.value is not None:
            values[key] = digest(encode_content(record.key, record.value, record.headers))
    return values
