"""Reading and writing logs: batches from a position on, what is verified stretch by stretch, read ahead; appending."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TypeAlias

from mirror.kafka import batch, codes, wire
from mirror.kafka.aborted_transactions import AbortedTransactions
from mirror.kafka.appending import Appender
from mirror.kafka.batch import NO_PRODUCER, PLAIN, CorruptBatch, Header, Producer, Record, UnsupportedMagic
from mirror.kafka.channel import EARLIEST, Channel
from mirror.kafka.connection import Connection
from mirror.kafka.problems import BrokerRefused, ConnectionFailed
from mirror.kafka.versions import FETCH
from mirror.model.cliff import duration_words
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition
from mirror.model.stretches import Stretch

_WAIT_MS = 500
_FETCH_BYTES = 4 << 20
_AHEAD_BYTES = 8 << 20
_LEAST_AHEAD_BYTES = 64 << 10
_MARGIN = 1.5
_LARGEST_WRITE = 900_000
_LONGEST_STANDSTILL_SECONDS = 30.0
_WRONG_CLOCK = (
    "this machine's clock is further from the cluster's than that takes (message.timestamp.after.max.ms, an hour by "
    "default since Kafka 4.0, or message.timestamp.before.max.ms): set it right"
)


# A record to append: key, value, headers, timestamp in ms.
NewRecord: TypeAlias = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


class LogTruncated(BrokerRefused):
    """A log is not the one any more that was read: its leader has less of the leader epoch that was read last.

    As after an unclean leader election, however long it has grown since (KIP-320, KIP-595).
    """

    def __init__(self, alias: str, read: TopicPartition, until: EpochEnd, diverging: EpochEnd) -> None:
        """Say up to where it was read, and at which offset at the latest it is another log."""
        self.partition = read
        super().__init__(
            f"{alias}: {read} was read up to offset {until.end}, in leader epoch {until.epoch}, and is no longer that "
            f"log: it was truncated at offset {min(until.end, diverging.end)} at the latest",
            LogTruncated,
        )


class LogReader:
    """Reads one partition batch by batch from a position on; all readers of a channel share its connections.

    Attributes
    ----------
    position
        the offset to read from next.
    read_up_to
        up to where it was read last, and the leader epoch there: whoever reads on from there is told where the log was
        truncated meanwhile.
    """

    def __init__(self, channel: Channel, partition: TopicPartition, position: int) -> None:
        """Begin at ``position``."""
        self._channel = channel
        self._partition = partition
        self.position = position
        self.read_up_to = EpochEnd(NOT_KNOWN, position)
        self.high_watermark = -1
        # For how long the last answer asks for silence.
        self._throttle_ms = 0
        # The connection, whether only what is committed is wanted, and how many bytes.
        self._asked: tuple[Connection, bool, int] | None = None

    @property
    def address(self) -> TopicPartition:
        """The partition that is read."""
        return self._partition

    def fetch(
        self,
        wait_ms: int = _WAIT_MS,
        *,
        read_committed: bool = False,
        most_bytes: int = _FETCH_BYTES,
        with_markers: bool = False,
    ) -> list[tuple[memoryview, Header]]:
        """Return the data batches of one fetch and move the position behind all it held.

        Markers are passed over if they are not wanted, and with ``read_committed`` the batches of aborted transactions
        too. However few ``most_bytes`` are, a broker sends the first batch whole.

        Raises
        ------
        LogTruncated
            if the log is not the one any more that was read up to here; whoever fetches again reads the one there is.
        BrokerRefused
            if the broker refuses the fetch (offset out of range, not authorised...), or what it sends cannot be read.
        ConnectionFailed, LeaderUnknown
            if the leader cannot be reached.
        """
        self.ask(wait_ms, read_committed=read_committed, most_bytes=most_bytes)
        return self.answer(with_markers=with_markers)

    def ask(self, wait_ms: int = _WAIT_MS, *, read_committed: bool = False, most_bytes: int = _FETCH_BYTES) -> None:
        """Send a fetch; until :meth:`answer` or :meth:`give_up` nobody else may read through the channel.

        Raises
        ------
        ConnectionFailed, LeaderUnknown
            if the leader cannot be reached.
        """
        connection = self._channel.kept(self._channel.leader(self._partition), FETCH)
        most_bytes = connection.sizes.allowed(most_bytes)
        read_epoch = self.read_up_to.epoch if self.read_up_to.end == self.position else NOT_KNOWN
        request = wire.fetch_request(
            connection.next_correlation(),
            {self._partition: wire.FetchFrom(self.position, most_bytes, read_epoch=read_epoch)},
            wait_ms=wait_ms,
            read_committed=read_committed,
        )
        self._asked = connection, read_committed, most_bytes
        try:
            connection.send([request])
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Forget a fetch that was sent: whoever reads next must not get its answer."""
        if self._asked is not None:
            self._channel.give_up(self._asked[0])
            self._channel.forget_leaders([self._partition.topic])
            self._asked = None

    def answer(self, *, with_markers: bool = False) -> list[tuple[memoryview, Header]]:
        """Return what :meth:`fetch` returns, of the fetch that was sent; the markers too if they are wanted.

        Raises
        ------
        LogTruncated, BrokerRefused, ConnectionFailed
            as :meth:`fetch`.
        """
        if self._asked is None:
            raise ValueError("nothing was asked")
        connection, read_committed, most_bytes = self._asked
        found = []
        try:
            frame = connection.answer()
        except BaseException:
            self.give_up()
            raise
        self._asked = None
        self._throttle_ms = wire.fetch_head(frame).throttle_ms
        if self._throttle_ms:
            connection.sizes.throttled(most_bytes)
        else:
            connection.sizes.brought(len(frame))
        try:
            for part in wire.parse_fetch(frame):
                if part.error:
                    raise self._refusal(part.error)
                if part.diverging is not None:
                    raise self._truncated(part.diverging)
                self.high_watermark = part.high_watermark
                aborted = AbortedTransactions(part.aborted if read_committed else ())
                for content, header in batch.batches(frame, part.start, part.stop):
                    is_aborted = read_committed and aborted.covers(content, header)
                    self.position = header.next_offset
                    self.read_up_to = EpochEnd(header.leader_epoch, header.next_offset)
                    if (with_markers or not header.is_control) and not is_aborted:
                        found.append((content, header))
        except BrokerRefused:
            self._channel.forget_leaders([self._partition.topic])
            raise
        except wire.FetchFailed as failure:
            raise self._refusal(failure.code) from failure
        except (CorruptBatch, UnsupportedMagic) as problem:
            raise BrokerRefused(f"{self._channel.alias}: {self._partition}: {problem}", type(problem)) from problem
        return found

    def read_to(
        self, end: int, *, read_committed: bool = False, with_markers: bool = False
    ) -> Iterator[tuple[memoryview, Header]]:
        """Yield the data batches up to the one that holds the last offset before ``end``, and what came with it.

        The markers between them too if they are wanted.

        Raises
        ------
        KafkaProblem
            as :meth:`fetch`, and when nothing comes although the end is not reached.
        """
        moved_at, position = time.monotonic(), self.position
        while self.position < end:
            yield from self.fetch(read_committed=read_committed, with_markers=with_markers)
            if self.position > position:
                moved_at, position = time.monotonic(), self.position
            elif time.monotonic() > moved_at + _LONGEST_STANDSTILL_SECONDS:
                raise self.standstill(end)

    def standstill(self, end: int) -> ConnectionFailed:
        """Return what is wrong when nothing comes although ``end`` is not reached."""
        # Who is over a quota gets answers without records.
        throttled = (
            f"; the broker throttles this client for {duration_words(math.ceil(self._throttle_ms / 1000))}: "
            "a quota of that cluster, for requests or for bytes read, is exceeded"
        )
        return ConnectionFailed(
            f"{self._channel.alias}: {self._partition} ends at {end}, but nothing from {self.position} on came "
            f"for {_LONGEST_STANDSTILL_SECONDS:.0f} s{throttled if self._throttle_ms else ''}"
        )

    def _truncated(self, diverging: EpochEnd) -> LogTruncated:
        read, self.read_up_to = self.read_up_to, EpochEnd(NOT_KNOWN, self.position)
        return LogTruncated(self._channel.alias, self._partition, read, diverging)

    def _refusal(self, code: int) -> BrokerRefused:
        if code == codes.OFFSET_OUT_OF_RANGE:
            # Said also by a leader that knows nothing of the epoch: whoever fetches again goes by the offset alone.
            self.read_up_to = EpochEnd(NOT_KNOWN, self.position)
        what = f"{self._channel.alias}: fetch of {self._partition} at {self.position}"
        return BrokerRefused(what, code, "Read on the topic")


def read_batches(
    channel: Channel,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    read_committed: bool = False,
    with_markers: bool = False,
) -> Iterator[tuple[memoryview, Header]]:
    """Yield the data batches that hold offsets from ``start`` up to, not including, ``end``; markers if wanted.

    The first and the last batch may reach beyond the range.

    Raises
    ------
    KafkaProblem
        if the range cannot be read whole.
    """
    reader = LogReader(channel, partition, start)
    for found, header in reader.read_to(end, read_committed=read_committed, with_markers=with_markers):
        if header.base_offset < end:
            yield found, header


def batch_at(channel: Channel, partition: TopicPartition, offset: int) -> Header | None:
    """Return what lies at an offset that the log has, be it a marker; None if compaction has removed that.

    Raises
    ------
    KafkaProblem
        if it cannot be read.
    """
    reader = LogReader(channel, partition, offset)
    reader.ask(most_bytes=1)
    found = reader.answer(with_markers=True)
    return next((header for _, header in found if header.base_offset <= offset < header.next_offset), None)


def is_aborted_at(channel: Channel, partition: TopicPartition, offset: int) -> bool:
    """Tell whether the batch at an offset was written in a transaction that came to nothing.

    False also while an earlier one is open, whoever has written that: it is not told then.

    Raises
    ------
    KafkaProblem
        if it cannot be read.
    """
    reader = LogReader(channel, partition, offset)
    reader.ask(read_committed=True, most_bytes=1)
    found = reader.answer()
    return reader.position > offset and not any(each.base_offset <= offset < each.next_offset for _, each in found)


def decoded(channel: Channel, partition: TopicPartition, content: memoryview) -> list[Record]:
    """Return the records of a batch that was read of ``partition``.

    Raises
    ------
    BrokerRefused
        if it cannot be decoded; names cluster and partition.
    """
    try:
        return batch.records(content)
    except CorruptBatch as problem:
        raise BrokerRefused(f"{channel.alias}: {partition}: {problem}", CorruptBatch) from problem


def holds_record(
    channel: Channel,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    read_committed: bool = False,
    but_for: Collection[int] = (),
) -> bool:
    """Tell whether a log holds a record, and not only markers, from ``start`` up to, not including, ``end``.

    What the producer ids ``but_for`` have written does not count.

    Also if nothing is handed out although the end is not reached: behind a transaction that is open, or what is not
    replicated yet, there may be one. What lies before the start of the log is gone.

    Raises
    ------
    KafkaProblem
        if it cannot be read.
    """
    first = channel.offsets([partition], EARLIEST)[partition]
    reader = LogReader(channel, partition, max(start, first))
    while reader.position < end:
        before = reader.position
        for content, header in reader.fetch(read_committed=read_committed):
            if header.base_offset >= end or header.next_offset <= start:
                continue
            if header.producer_id in but_for and header.producer_id != NO_PRODUCER:
                continue
            if start <= header.base_offset and header.next_offset <= end and header.record_count > 0:
                return True
            # Of a batch across an edge, or thinned out by compaction, the records that are left may lie outside.
            if any(start <= record.offset < end for record in decoded(channel, partition, content)):
                return True
        if reader.position == before:
            return True
    return False


def read_stretches(
    channel: Channel, partition: TopicPartition, stretches: Sequence[Stretch], *, read_committed: bool = False
) -> Generator[tuple[memoryview, Header], None, None]:
    """Yield the data batches that hold offsets of any of the stretches; the next are fetched while these are looked at.

    The stretches ascend and do not overlap. Until the last batch was yielded nobody else may read through the channel.

    Raises
    ------
    KafkaProblem
        if the stretches cannot be read whole.
    """
    wanted = deque(stretch for stretch in stretches if stretch[1] > stretch[0])
    unasked = deque(wanted)
    reader = LogReader(channel, partition, 0)
    bytes_an_offset = 0.0

    def ask() -> None:
        start, end = unasked[0]
        reader.position = max(reader.position, start)
        # Of a few records between many that are not wanted no more than them.
        expected = int(_MARGIN * bytes_an_offset * (end - reader.position)) or _AHEAD_BYTES
        most_bytes = min(_AHEAD_BYTES, max(_LEAST_AHEAD_BYTES, expected))
        reader.ask(read_committed=read_committed, most_bytes=most_bytes)

    moved_at = time.monotonic()
    try:
        if unasked:
            ask()
        while unasked:
            position = reader.position
            found = reader.answer()
            if reader.position > position:
                moved_at = time.monotonic()
                bytes_an_offset = sum(len(content) for content, _ in found) / (reader.position - position)
            elif time.monotonic() > moved_at + _LONGEST_STANDSTILL_SECONDS:
                raise reader.standstill(unasked[-1][1])
            while unasked and unasked[0][1] <= reader.position:
                unasked.popleft()
            if unasked:
                ask()
            if found and wanted[0][0] <= found[0][1].base_offset and found[-1][1].next_offset <= wanted[0][1]:
                yield from found
                continue
            for content, header in found:
                while wanted and wanted[0][1] <= header.base_offset:
                    wanted.popleft()
                if wanted and wanted[0][0] < header.next_offset:
                    yield content, header
    finally:
        reader.give_up()


def read_records(
    client: Mapping[str, str],
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    alias: str = "cluster",
    read_committed: bool = False,
) -> Generator[Record]:
    """Yield the data records of ``partition`` with offsets from ``start`` up to, not including, ``end``.

    With ``read_committed`` those of aborted transactions are left out, and ``end`` may not lie behind one still open.
    Opens and closes its own connections, so that it may run inside a Spark task.

    Raises
    ------
    KafkaProblem
        if the range cannot be read whole, or a batch of it not decoded.
    """
    with closing(Channel(alias, client)) as channel:
        for found, _ in read_batches(channel, partition, start, end, read_committed=read_committed):
            for record in decoded(channel, partition, found):
                if start <= record.offset < end:
                    yield record


class LogWriter:
    """Appends records to partitions with acks=all, one request at a time; for side topics, not for data."""

    def __init__(
        self, client: Mapping[str, str], *, alias: str = "cluster", before: Callable[[], None] = lambda: None
    ) -> None:
        """Write to the cluster called ``alias``; nothing is connected before the first record.

        ``before`` is called right before each request is sent; what it raises keeps that from being sent.
        """
        self._alias = alias
        self._appender = Appender(alias, client, before=before)

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        """Append records (key, value, headers, timestamp in ms) and return the offset of the first.

        Raises
        ------
        BrokerRefused
            if the broker refuses them.
        ConnectionFailed
            if the leader cannot be reached; whether they were appended is then not known.
        LeaderUnknown
            if the partition has no leader.
        """
        address = TopicPartition(topic, partition)
        first = -1
        for content in side_batches(records):
            answer = self._appender.append(address, content)
            if answer.code:
                # The broker's words have times in them, so that the same would be news again and again.
                message = _WRONG_CLOCK if answer.code == codes.INVALID_TIMESTAMP else answer.message
                what = f"{self._alias}: append to {address} {message}".rstrip()
                raise BrokerRefused(what, answer.code, "Write on the topic")
            first = answer.base_offset if first < 0 else first
        return first

    def close(self) -> None:
        """Close the connections."""
        self._appender.close()


def side_batches(records: Sequence[NewRecord], producer: Producer = PLAIN, sequence: int = -1) -> Iterator[memoryview]:
    """Encode records as batches that stay under the broker's usual limit of 1 MB.

    They are of no producer unless one is given, with the sequence of its first record.
    """
    pending: list[Record] = []
    size = 0
    for key, value, headers, timestamp in records:
        content = sum(len(name) + len(part or b"") + 8 for name, part in headers)
        more = len(key or b"") + len(value or b"") + content + 32
        if pending and size + more > _LARGEST_WRITE:
            yield batch.encode(pending, 0, producer, sequence)
            sequence = sequence if producer is PLAIN else batch.next_sequence(sequence, len(pending))
            pending, size = [], 0
        pending.append(Record(len(pending), timestamp, key, value, headers, -1))
        size += more
    if pending:
        yield batch.encode(pending, 0, producer, sequence)
