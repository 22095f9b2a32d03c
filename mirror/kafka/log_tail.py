"""Following a topic: what is new since the last look, and what has become of what was read before."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from mirror.clock import steady_seconds
from mirror.kafka import topic_ids
from mirror.kafka.batch import Record
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View, topic_settings
from mirror.kafka.lazy_channel import LazyChannel
from mirror.kafka.log import LogReader, LogTruncated, decoded, read_batches
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition

# Topics are polled more often than that; only behind a longer pause it is asked for how long deletions are kept.
_AWAY_SECONDS = 120.0
_KEPT_SETTING = "delete.retention.ms"


class LogTail:
    """Follows a topic: everything committed from its beginning at first, later only what is new.

    A partition that ends before the position, or was truncated and has grown since, or whose topic was created anew, is
    read again from its beginning; and all of them if nothing was read for as long as a compacted topic keeps deletions.

    Attributes
    ----------
    has_begun_anew
        whether the last poll has returned all there is for that reason: what it has not returned was deleted, and
        nothing else tells.
    loss
        what has become of records that were read, None as long as all are there but for compaction: the topic was
        created anew, or lost its end, however long it has grown since, or all of its beginning. Whoever has dealt with
        it sets it back.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        alias: str = "cluster",
        committed: bool = True,
    ) -> None:
        """Follow ``topic``; nothing is connected before the first poll.

        Without ``committed`` also what stands behind the start of an open transaction, and in it.
        """
        self._committed = committed
        self._lazy = LazyChannel(alias, client)
        self._topic = topic
        self._partitions = [TopicPartition(topic, number) for number in partitions]
        self._readers: dict[TopicPartition, LogReader] = {}
        # From where on, and up to where, was last read behind what was returned, and what lies there.
        self._beyond: dict[TopicPartition, tuple[int, int, list[Record]]] = {}
        self._topic_id = ""
        # When it was last asked up to where there is something to read, if that was read.
        self._read_at = math.inf
        self.loss: str | None = None
        self.has_begun_anew = False

    def poll(self) -> list[Record]:
        """Return every record appended since the last poll, up to the end at the time of the call.

        Raises
        ------
        KafkaProblem
            if that cannot be read; what was not returned comes with a later poll.
        """
        began = steady_seconds()
        self._look_for_another()
        channel = self._channel
        is_late = bool(self._readers) and self._may_have_missed_deletions(began)
        starts = channel.offsets(self._partitions, EARLIEST)
        ends = channel.offsets(self._partitions, LATEST, View.STABLE if self._committed else View.VISIBLE)
        found: list[Record] = []
        before: dict[TopicPartition, tuple[int, EpochEnd]] = {}
        try:
            for partition in self._partitions:
                reader = self._readers.setdefault(partition, LogReader(channel, partition, starts[partition]))
                if not starts[partition] <= reader.position <= ends[partition]:
                    self._look_for_truncation(reader, starts[partition], ends[partition])
                    reader.position = starts[partition]
                elif is_late:
                    # Its leader says whether it is the log that was read, before all of that is read again.
                    reader.fetch(wait_ms=0, most_bytes=1)
                    reader.position = starts[partition]
                before[partition] = reader.position, reader.read_up_to
                for content, _ in reader.read_to(ends[partition], read_committed=self._committed):
                    found.extend(decoded(channel, partition, content))
        except LogTruncated as truncated:
            self._go_back(before)
            self.loss = str(truncated)
            self._readers[truncated.partition] = LogReader(channel, truncated.partition, starts[truncated.partition])
            self._beyond.pop(truncated.partition, None)
            return self.poll()
        except BaseException:
            self._go_back(before)
            raise
        # What was lost is written again by who knows it.
        self._read_at, self.has_begun_anew = began, is_late and self.loss is None
        return found

    def beyond(self) -> list[Record]:
        """Return what lies behind what :meth:`poll` has returned: in open transactions, or behind their start.

        Nothing counts as read by it.

        Raises
        ------
        KafkaProblem
            if that cannot be read.
        """
        ends = self._channel.offsets(self._partitions, LATEST, View.VISIBLE)
        for partition, reader in self._readers.items():
            position, end = reader.position, ends[partition]
            start, held_to, held = self._beyond.get(partition, (0, 0, []))
            # A transaction may be open for long: what was read of it before is not read again.
            if not start <= position <= held_to <= end:
                held_to, held = position, []
            more = [
                record
                for content, _ in read_batches(self._channel, partition, held_to, end)
                for record in decoded(self._channel, partition, content)
                if record.offset >= held_to
            ]
            self._beyond[partition] = position, end, [*(each for each in held if each.offset >= position), *more]
        return [record for _, _, held in self._beyond.values() for record in held]

    @property
    def topic_id(self) -> str:
        """The id of the topic that was read last; empty where the cluster tells none."""
        return self._topic_id

    def position(self, partition: int = 0) -> int:
        """Return the offset up to which a partition was read, 0 before the first poll."""
        reader = self._readers.get(TopicPartition(self._topic, partition))
        return reader.position if reader is not None else 0

    def exists(self) -> bool:
        """Ask the cluster whether it has the topic.

        Raises
        ------
        BrokerRefused, ConnectionFailed
            if it does not tell.
        """
        return self._channel.has_topic(self._topic)

    def leaderless(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Ask the cluster which of these partitions, of any topic that it has, are led by nobody.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        return self._channel.leaderless(partitions)

    def close(self) -> None:
        """Close the connections."""
        self._lazy.close()

    @property
    def _channel(self) -> Channel:
        return self._lazy.get()

    def _look_for_another(self) -> None:
        """Begin anew with a topic that has another id; an offset alone does not tell a new log that is longer."""
        self._channel.refresh([self._topic])
        found = self._channel.topic_id(self._topic)
        if found in ("", topic_ids.NONE):
            return
        if self._topic_id not in ("", found) and self._readers:
            self.loss = f"{self._topic} was deleted and created anew (id {self._topic_id}, now {found})"
            self._readers.clear()
            self._beyond.clear()
        self._topic_id = found

    def _may_have_missed_deletions(self, now: float) -> bool:
        """Whether a record that deletes a key may have been written, and cleaned away, since the last poll."""
        away_seconds = now - self._read_at
        if away_seconds < _AWAY_SECONDS:
            return False
        settings = topic_settings(self._channel, [self._topic], [_KEPT_SETTING])
        kept_ms = settings.get(self._topic, {}).get(_KEPT_SETTING)
        return kept_ms is None or 1000 * away_seconds >= int(kept_ms)

    def _look_for_truncation(self, reader: LogReader, start: int, end: int) -> None:
        """Tell a log that was cut from one whose new leader does not know yet what is replicated."""
        if reader.position < start:
            self.loss = f"{reader.address} begins at offset {start}, behind {reader.position}, up to where it was read"
        elif self._channel.offsets([reader.address], LATEST, View.WRITTEN)[reader.address] < reader.position:
            self.loss = f"{reader.address} ends at offset {end}, before {reader.position}, up to where it was read"

    def _go_back(self, places: Mapping[TopicPartition, tuple[int, EpochEnd]]) -> None:
        for partition, (position, read_up_to) in places.items():
            reader = self._readers[partition]
            # Of a leader that knows nothing of the epoch the reader has learned that: it goes by the offset alone.
            is_known = reader.read_up_to.epoch != NOT_KNOWN
            reader.position, reader.read_up_to = position, read_up_to if is_known else EpochEnd(NOT_KNOWN, position)
