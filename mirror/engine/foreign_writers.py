"""Finds out who has written into a flow's copies besides mirrors, wherever the copy has met somebody else's batches.

Invariants:

(a) Where a copy ends is asked before the state is read: whoever wrote before that end, and what was recorded of it,
    stands in the state then. So what lies between the recorded position and that end is of the flow and on its way, or
    of somebody else. Behind a position that is settled nothing of the flow is on its way.
(b) A position says up to where the copy was compared with what others may have written there. Tasks tell what they met
    at the end of an epoch; of an engine that was killed the offset map tells the next one, as what it lacks between
    there and the position. It counts for one incarnation of the copy: orphaned copies would look like late ones. What
    nobody had compared before it is kept beside it, and looked at for producer ids that are not the flow's.
(c) Whoever was called foreign before a flow back was known is pardoned: that flow may begin after this one.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.foreign_records import find_foreign
from mirror.control.tick import TickReport, now_ms, run_tick
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.mirrors import WriterLogs, state_topics
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.kafka.problems import BrokerRefused, KafkaProblem
from mirror.model.gap import GapKind
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import state_topic
from mirror.model.state_values import ForeignWriter
from mirror.model.stretches import Stretch

# So many stretches a round at most.
_STRETCHES = 100

_Between: TypeAlias = tuple[TopicPartition, Stretch]


class _OnRecord(NamedTuple):
    """Up to which offset of a copy the offset map was looked at, of which incarnation."""

    incarnation: int
    end: int


class ForeignWriters:
    """Reads the headers of what lies between the batches of a flow, and writes down whose they are."""

    def __init__(
        self,
        settings: FlowSettings,
        runtime: FlowRuntime,
        log: FlowLog,
        target: Cluster,
        writer: LogWriter,
        lease: Lease,
    ) -> None:
        """Look at what the copy leaves in ``runtime``; ``log`` is the flow's state.

        Once the term is over that ``lease`` is of, a round takes nothing more, and leaves nothing: what was not looked
        at is found on record by whoever leads the flow next.
        """
        self._settings = settings
        self._runtime = runtime
        self._log = log
        self._target = target
        self._writer = writer
        self._lease = lease
        self._client = settings.clients.checkpoints_consumer
        self._mirrors = WriterLogs(settings.flow.target, self._client)
        self._channel: Channel | None = None
        # Up to where of each copy the offset map was looked at, once an incarnation; what of that is to be looked at.
        self._on_record: dict[TopicPartition, _OnRecord] = {}
        self._again: deque[_Between] = deque()
        # Of copies that have gone back what lies before their incarnation: the flow's own batches are not late there.
        self._before: deque[_Between] = deque()
        # The beginning of the flow in which that was so. Behind another one lies what tasks had written down that never
        # came back: of what they had met nobody was told.
        self._begun = runtime.begun

    def tick(self) -> TickReport:
        """Run one round; what cannot be read is tried again."""
        return run_tick(f"foreign writers {self._settings.flow}", now_ms, self._round)

    def close(self) -> None:
        """Close the connections."""
        self._mirrors.close()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _round(self, at_ms: int) -> tuple[int, Sequence[str]]:
        copies = {source: copy for source, copy, *_ in self._runtime.partitions}
        if self._begun != self._runtime.begun:
            self._begun = self._runtime.begun
            self._on_record.clear()
            self._again.clear()
            self._before.clear()
        forgotten = self._forget(copies)
        self._look_at_record(copies.keys())
        with self._runtime.lock:
            # Whatever was reported by now lies before these positions.
            reached = {source: each.position for source, each in self._runtime.handovers.items()}
            has_met_foreign = bool(self._runtime.foreign_ranges)
        if not (self._again or self._before or has_met_foreign):
            self._took_in(reached)
            return 0, ()
        # All flows into the target: several may share a topic.
        problems = self._mirrors.catch_up(state_topics(self._target.topics()))
        if problems:
            return 0, [f"who mirrors into {self._target.alias} is not known: {each}" for each in problems.values()]
        mirrors = frozenset[int]().union(*(known.writers for known in self._mirrors.known.values()))
        found = {key: each for key, each in self._log.state.foreign.items() if key not in forgotten}
        news: dict[tuple[TopicPartition, int], ForeignWriter] = {}
        messages = []
        own = self._log.state.writers
        looked_at = []
        for others, source, stretch in self._next():
            copy = copies.get(source)
            is_watched = source.topic in self._runtime.watched
            if copy is None:
                # Its topic is not found for now, or gone for good.
                with self._runtime.in_term_of(self._lease):
                    self._runtime.passed_over.add(source)
                continue
            if not (is_watched or own):
                continue
            try:
                if self._channel is None:
                    self._channel = Channel(self._target.alias, self._client)
                is_before = others is self._before
                watched_by = mirrors | own if is_watched else None
                news |= find_foreign(
                    self._channel,
                    copy,
                    stretch,
                    watched_by,
                    found | news,
                    at_ms,
                    () if is_before else own,
                    is_again=is_before or others is self._again,
                    is_whole=is_before,
                )
                looked_at.append((others, source, stretch))
            except KafkaProblem as problem:
                if not (isinstance(problem, BrokerRefused) and problem.is_gone):
                    # Behind the others: those are looked at meanwhile.
                    self._put_back(others, source, stretch)
                start, end = stretch
                messages.append(
                    f"who has written to {copy} at offsets {start} to {end - 1} could not be looked up: {problem}"
                )
        if news:
            records = [(*each.record(), (), at_ms) for each in news.values()]
            try:
                self._writer.append(state_topic(self._settings.flow.source), 0, records)
            except BaseException:
                for others, source, stretch in looked_at:
                    self._put_back(others, source, stretch)
                raise
        self._took_in(reached)
        return len(news), messages

    def _look_at_record(self, copied: Collection[TopicPartition]) -> None:
        """Find out, once an incarnation of a copy, where others may have written that nobody had looked at before.

        The offset map lacks it. An engine that was killed had not been told by its tasks, or had not looked yet. What
        lies behind its position is known when that was found again. Whether a single offset holds the marker of a
        transaction the log itself tells.
        """
        for source in copied:
            with self._runtime.lock:
                seen, handover = self._on_record.get(source), self._runtime.handovers.get(source)
            if seen is not None and (handover is None or handover.position.incarnation <= seen.incarnation):
                continue
            if source.topic not in self._runtime.watched:
                # What others write there is theirs to write, also if nobody copies it back any more some day.
                self._on_record[source] = _OnRecord(sys.maxsize, 0)
                continue
            position = self._log.state.positions.get(source)
            if position is None:
                self._on_record[source] = _OnRecord(0, 0)
                continue
            if handover is None or not handover.clean or handover.position.incarnation != position.incarnation:
                continue
            known = self._log.offset_map(source)
            if known is None or position.downstream < handover.position.downstream:
                continue
            self._on_record[source] = _OnRecord(position.incarnation, position.downstream)
            if position.uncompared is not None:
                self._before.append((source, position.uncompared))
            if position.compared >= 0:
                first = known.runs.first
                start = max(position.compared, first.downstream) if first and known.is_pruned else position.compared
                between = known.runs.not_copied(start, position.downstream)
                self._again.extend((source, each) for each in between)

    def _next(self) -> Iterator[tuple[deque[_Between], TopicPartition, Stretch]]:
        """Yield what is to be looked at in a round, and from where it is: at first what is on record of each copy."""
        for queue in (self._before, self._again):
            for _ in range(min(_STRETCHES, len(queue))):
                yield queue, *queue.popleft()
        others = self._runtime.foreign_ranges
        for _ in range(min(_STRETCHES, len(others))):
            with self._runtime.in_term_of(self._lease):
                source, (start, end) = others.popleft()
            if source.topic in self._runtime.watched and source not in self._on_record:
                self._put_back(others, source, (start, end))
                continue
            seen = self._on_record.get(source)
            if end > (start := max(start, seen.end if seen is not None else 0)):
                yield others, source, (start, end)

    def _put_back(self, others: deque[_Between], source: TopicPartition, stretch: Stretch) -> None:
        """Look at it in a later round."""
        if others is not self._runtime.foreign_ranges:
            others.append((source, stretch))
            return
        with self._runtime.in_term_of(self._lease):
            self._runtime.take_foreign_ranges([(source, stretch)])

    def _took_in(self, reached: Mapping[TopicPartition, Position]) -> None:
        """Have it written down how far the copies were looked at of which nothing is left to be looked at."""
        with self._runtime.in_term_of(self._lease):
            queues = (*self._before, *self._again, *self._runtime.foreign_ranges)
            left = {source for source, _ in queues} | self._runtime.passed_over
            for source, position in reached.items():
                seen = self._on_record.get(source)
                if seen is None or seen.incarnation < position.incarnation or source in left:
                    continue
                if position.compared < position.downstream or position.uncompared is not None:
                    found = replace(position, compared=position.downstream, uncompared=None)
                    self._runtime.take_compared(source, found)

    def _forget(self, copies: Mapping[TopicPartition, TopicPartition]) -> Set[tuple[TopicPartition, int]]:
        """Forget who was told to have written what is not there any more, or is the target's own, as is known by now.

        A flow back may begin, or be seen, only after this one. A partition that has stopped because its copy is lost
        writes nothing until that is acknowledged: whoever is on record behind the end that was found wrote before.
        """
        shared = {copy for source, copy in copies.items() if source.topic not in self._runtime.watched}
        state = self._log.state
        lost = {
            copies[gap.source]: gap.downstream
            for gap in state.gaps.values()
            if gap.kind is GapKind.TARGET_LOST and not gap.passed and gap.source in copies
        }
        gone = [
            each
            for each in state.foreign.values()
            if (each.copy in shared and each.producer_id not in state.writers)
            or ((end := lost.get(each.copy)) is not None and each.first >= end)
        ]
        if gone:
            records = [(*each.no_record(), (), now_ms()) for each in gone]
            self._writer.append(state_topic(self._settings.flow.source), 0, records)
        return {(each.copy, each.producer_id) for each in gone}
