"""The hot frames of the protocol, written and read without copies: Fetch version 12 and Produce version 8.

kafka-python has classes for every request, but they copy records several times; a mirror moves hundreds of megabytes a
second through these two. Layouts are those of Kafka's protocol guide.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from mirror.kafka.problems import RequestFailed
from mirror.kafka.versions import FETCH, PRODUCE
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition

FETCH_KEY, FETCH_VERSION = FETCH.key, FETCH.newest
PRODUCE_KEY, PRODUCE_VERSION = PRODUCE.key, PRODUCE.newest

# Session id and epoch of a fetch that belongs to no session and wants none.
NO_SESSION = (0, -1)

Content = TypeVar("Content")

_CLIENT_ID = b"mirror"
_PING_KEY = 18
_OFFERED = struct.Struct(">hhh")
_PARTITION_HEAD = struct.Struct(">ihqqq")
_PARTITION_REQUEST = struct.Struct(">iiqiqi")
_PRODUCE_ANSWER = struct.Struct(">ihqqq")
_FETCH_HEAD = struct.Struct(">ihi")
_THROTTLE = struct.Struct(">i")
_REPLICA = struct.Struct(">i")
_DIVERGING_TAG, _DIVERGING = 0, struct.Struct(">iq")


class Aborted(NamedTuple):
    """An aborted transaction in the fetched range: the producer, and the first offset it wrote in it."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """One partition's part of a fetch answer; its batches lie at ``start`` to ``stop`` of the answer's buffer.

    ``diverging`` is the newest leader epoch up to which the log can be the one that was read before, with its end;
    None if it is that log. ``preferred_replica`` is the broker to read from instead, -1 if it is this one (KIP-392);
    a leader that names another sends no batches.
    """

    partition: TopicPartition
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[Aborted, ...]
    start: int
    stop: int
    diverging: EpochEnd | None = None
    preferred_replica: int = -1


class FetchFrom(NamedTuple):
    """Where a partition is read on, and how many bytes of it one answer may bring.

    ``leader_epoch`` is the leader's as far as it is known, ``read_epoch`` that of the last batch read. A leader of
    another epoch refuses the fetch; one whose log is not the one that was read says where they part.
    """

    position: int
    most_bytes: int = 1 << 20
    leader_epoch: int = NOT_KNOWN
    read_epoch: int = NOT_KNOWN


class FetchHead(NamedTuple):
    """What an answer says of the whole fetch: for how long nothing is to be sent, what failed, and the session."""

    throttle_ms: int
    error: int
    session_id: int


#: In a produce answer: the records keep the times of their producers.
NO_APPEND_TIME = -1


class ProducedPartition(NamedTuple):
    """One partition's part of a produce answer.

    ``appended_at`` is the log append time, in ms since the epoch: -1 where records keep the times of their producers,
    unless the leader has had the batch before; then it is the time of that.
    """

    partition: TopicPartition
    error: int
    base_offset: int
    message: str
    appended_at: int


class FetchFailed(RequestFailed):
    """A fetch answered with an error for the whole request; ``code`` is the protocol's error code."""

    def __init__(self, code: int) -> None:
        """Keep the protocol's error code."""
        super().__init__(f"the broker answered a fetch with error {code}")
        self.code = code


def ping_request(correlation: int) -> bytes:
    """Return the frame of a request that asks nearly nothing (ApiVersions version 0): brokers answer it at once."""
    body = struct.pack(">hhih", _PING_KEY, 0, correlation, len(_CLIENT_ID)) + _CLIENT_ID
    return struct.pack(">i", len(body)) + body


def parse_ping(frame: memoryview) -> dict[int, tuple[int, int]]:
    """Return the oldest and newest version that a broker offers of each request, by key; ``frame`` answers a ping."""
    (count,) = struct.unpack_from(">i", frame, 6)
    offered = _OFFERED.iter_unpack(frame[10 : 10 + count * _OFFERED.size])
    return {key: (oldest, newest) for key, oldest, newest in offered}


def fetch_request(
    correlation: int,
    wanted: Mapping[TopicPartition, FetchFrom],
    *,
    wait_ms: int,
    read_committed: bool = False,
    least_bytes: int = 1,
    total_bytes: int = 50_000_000,
    session: tuple[int, int] = NO_SESSION,
    forgotten: Iterable[TopicPartition] = (),
    rack: str = "",
) -> bytes:
    """Return the frame of a fetch, to be answered when ``least_bytes`` are there or after ``wait_ms``.

    Parameters
    ----------
    wanted
        all that is to be read, or in a session what of it has changed.
    session, forgotten
        id and epoch of the session, and what is not to be read in it any more; see ``mirror.kafka.fetch_session``.
    rack
        where the reader is (``client.rack``): a leader may then name a closer replica. Empty: it sends what it has.
    """
    head = struct.pack(">hhih", FETCH_KEY, FETCH_VERSION, correlation, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
    body = bytearray(head)
    body += struct.pack(">iiiibii", -1, wait_ms, least_bytes, total_bytes, int(read_committed), *session)
    by_topic = _by_topic(wanted.items())
    body += _unsigned(len(by_topic) + 1)
    for topic, entries in by_topic.items():
        name = topic.encode()
        body += _unsigned(len(name) + 1) + name + _unsigned(len(entries) + 1)
        for partition, (position, most_bytes, leader_epoch, read_epoch) in entries:
            body += _PARTITION_REQUEST.pack(partition, leader_epoch, position, read_epoch, -1, most_bytes) + b"\0"
        body += b"\0"
    left = _by_topic((partition, None) for partition in forgotten)
    body += _unsigned(len(left) + 1)
    for topic, numbers in left.items():
        name = topic.encode()
        body += _unsigned(len(name) + 1) + name + _unsigned(len(numbers) + 1)
        body += struct.pack(f">{len(numbers)}i", *(number for number, _ in numbers)) + b"\0"
    place = rack.encode()
    body += _unsigned(len(place) + 1) + place + b"\0"
    return struct.pack(">i", len(body)) + body


def fetch_head(frame: memoryview) -> FetchHead:
    """Return what a fetch answer says of the whole; ``frame`` is as for :func:`parse_fetch`."""
    return FetchHead._make(_FETCH_HEAD.unpack_from(frame, _skip_tags(frame, 4)))


def parse_fetch(frame: memoryview) -> Iterator[FetchedPartition]:
    """Yield each partition of a fetch answer; ``frame`` is the answer without its length, correlation id first.

    Raises
    ------
    FetchFailed
        if the answer as a whole is an error.
    """
    head = fetch_head(frame)
    if head.error:
        raise FetchFailed(head.error)
    topics, position = _read_unsigned(frame, _skip_tags(frame, 4) + _FETCH_HEAD.size)
    for _ in range(topics - 1):
        length, position = _read_unsigned(frame, position)
        topic = str(frame[position : position + length - 1], "utf-8")
        partitions, position = _read_unsigned(frame, position + length - 1)
        for _ in range(partitions - 1):
            index, error, high, stable, start_offset = _PARTITION_HEAD.unpack_from(frame, position)
            count, position = _read_unsigned(frame, position + _PARTITION_HEAD.size)
            aborted = []
            for _ in range(max(0, count - 1)):
                aborted.append(Aborted._make(struct.unpack_from(">qq", frame, position)))
                position = _skip_tags(frame, position + 16)
            (preferred,) = _REPLICA.unpack_from(frame, position)
            size, position = _read_unsigned(frame, position + _REPLICA.size)
            stop = position + max(0, size - 1)
            address = TopicPartition(topic, index)
            diverging = _read_diverging(frame, stop) if frame[stop] else None
            yield FetchedPartition(
                address, error, high, stable, start_offset, tuple(aborted), position, stop, diverging, preferred
            )
            position = _skip_tags(frame, stop)
        position = _skip_tags(frame, position)


def produce_request(
    correlation: int,
    contents: Sequence[tuple[TopicPartition, memoryview]],
    *,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
) -> list[bytes | bytearray | memoryview]:
    """Return the pieces of a produce frame with acks=all; each partition stands in ``contents`` at most once.

    Transactional batches need the ``transactional_id`` of their producer; a request carries those of one only.
    """
    head = struct.pack(">hhih", PRODUCE_KEY, PRODUCE_VERSION, correlation, len(_CLIENT_ID)) + _CLIENT_ID
    by_topic = _by_topic(contents)
    current = bytearray(head + _nullable_string(transactional_id) + struct.pack(">hii", -1, timeout_ms, len(by_topic)))
    pieces: list[bytes | bytearray | memoryview] = []
    for topic, entries in by_topic.items():
        name = topic.encode()
        current += struct.pack(">h", len(name)) + name + struct.pack(">i", len(entries))
        for partition, batch in entries:
            current += struct.pack(">ii", partition, len(batch))
            pieces += (current, batch)
            current = bytearray()
    total = sum(len(piece) for piece in pieces)
    return [struct.pack(">i", total), *pieces]


def parse_produce(frame: memoryview) -> Iterator[ProducedPartition]:
    """Yield each partition of a produce answer; ``frame`` is the answer without its length, correlation id first."""
    (topics,) = struct.unpack_from(">i", frame, 4)
    position = 8
    for _ in range(topics):
        topic, position = _read_string(frame, position)
        (partitions,) = struct.unpack_from(">i", frame, position)
        position += 4
        for _ in range(partitions):
            index, error, base_offset, appended_at, _ = _PRODUCE_ANSWER.unpack_from(frame, position)
            (record_errors,) = struct.unpack_from(">i", frame, position + _PRODUCE_ANSWER.size)
            position += _PRODUCE_ANSWER.size + 4
            reasons = []
            for _ in range(record_errors):
                reason, position = _read_string(frame, position + 4)
                reasons.append(reason)
            message, position = _read_string(frame, position)
            text = "; ".join(filter(None, (message, *reasons)))
            yield ProducedPartition(TopicPartition(topic or "", index), error, base_offset, text, appended_at)


def produce_throttle_ms(frame: memoryview) -> int:
    """Return for how long nothing is to be sent after a produce answer; its last four bytes."""
    (throttle_ms,) = _THROTTLE.unpack_from(frame, len(frame) - _THROTTLE.size)
    return int(throttle_ms)


def _by_topic(entries: Iterable[tuple[TopicPartition, Content]]) -> dict[str, list[tuple[int, Content]]]:
    grouped: dict[str, list[tuple[int, Content]]] = {}
    for (topic, partition), content in entries:
        grouped.setdefault(topic, []).append((partition, content))
    return grouped


def _read_string(frame: memoryview, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", frame, position)
    position += 2
    if length < 0:
        return "", position
    return str(frame[position : position + length], "utf-8"), position + length


def _nullable_string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    content = text.encode()
    return struct.pack(">h", len(content)) + content


def _unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_unsigned(frame: memoryview, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _read_diverging(frame: memoryview, position: int) -> EpochEnd | None:
    """Return what the tagged fields of a partition say of a divergence."""
    count, position = _read_unsigned(frame, position)
    for _ in range(count):
        tag, position = _read_unsigned(frame, position)
        size, position = _read_unsigned(frame, position)
        if tag == _DIVERGING_TAG:
            return EpochEnd._make(_DIVERGING.unpack_from(frame, position))
        position += size
    return None


def _skip_tags(frame: memoryview, position: int) -> int:
    count, position = _read_unsigned(frame, position)
    for _ in range(count):
        _, position = _read_unsigned(frame, position)
        size, position = _read_unsigned(frame, position)
        position += size
    return position
