"""Two partitions copied by one task: whatever is answered first, lost or refused, what is on record is true.

A broker in memory takes what goes out, in the order and with the answers that Hypothesis thinks of. After each step the
state topic is read as the next engine would read it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mirror.copier import oversized
from mirror.copier.commits import FlowCommits
from mirror.copier.lane import Lane
from mirror.copier.streams import Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.tail_match import Batch, Matched, match_tail
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Producer, Record
from mirror.kafka.wire import FetchedPartition
from mirror.model import connect_offsets
from mirror.model.flow_state import FlowState
from mirror.model.ledger import digest, encode_content
from mirror.model.offset_sync import OffsetSync
from mirror.model.parked import origin
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import RUNS_PER_CHUNK
from tests.flows import EAST_WEST, flow_work
from tests.unit.copier.builders import TIME, dense, record, sparse
from tests.unit.copier.lanes import Target

TIMED_OUT, TOO_LARGE = 7, 10
LIMIT = 8_000
FLOW = flow_work(syncs_topic="syncs", offsets_partitions=1, parked_topic="parked")
STATE, MM2, PARKED = FLOW.state_topic, FLOW.offsets_topic, "parked"
SIDES = [STATE, MM2, "syncs", PARKED]
NUMBERS = [0, 1]
SOURCES = [TopicPartition("orders", number) for number in NUMBERS]
TARGETS = [TopicPartition("east.orders", number) for number in NUMBERS]


class Copied:
    """One of the partitions: its source, its target, and the lane between them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.batches: list[Batch] = []
        self.target = Target(LIMIT)
        self.in_flight: list[bytes] = []
        self.written: set[int] = set()
        self.too_large: set[int] = set()
        self._places: dict[int, int] = {}
        self._seen = 0

    @property
    def end(self) -> int:
        return self.batches[-1][1].next_offset if self.batches else 0

    def tail(self, upstream: int) -> list[Batch]:
        return [each for each in self.batches if each[1].next_offset > upstream]

    def places(self) -> dict[int, int]:
        """Where each record lies on the target, by its offset on the source; none lies there twice."""
        for content, _ in self.target.log[self._seen :]:
            for each in batch.records(content):
                upstream = each.timestamp - TIME
                assert upstream not in self._places, f"the record {upstream} is on the target twice"
                self._places[upstream] = each.offset
        self._seen = len(self.target.log)
        return self._places


class Task(RuleBasedStateMachine):
    """One task after another copies both partitions, as :mod:`mirror.copier.loop` lets lanes and commits work."""

    def __init__(self) -> None:
        super().__init__()
        self.copied = [Copied(number) for number in NUMBERS]
        self.logs: dict[str, list[Record]] = defaultdict(list)
        self.state = FlowState()
        self.is_news = False
        self.side_in_flight: dict[str, tuple[Stream, bytes]] = {}
        self.streams: dict[str, Stream] = {}
        self.producer = 7
        # Answers about letters that were lost although the dead letter was in the log: it comes once more.
        self.doubtful = 0
        self.lanes: list[Lane] = []
        self.commits = FlowCommits(FLOW)
        self._patch = mock.patch.object(oversized, "parked_last", self._parked)
        self._patch.start()

    def _parked(self, _flow: object) -> oversized.Parked:
        said = [(origin(each.headers), each) for each in self.logs[PARKED]]
        return frozenset((at, digest(encode_content(each.key, each.value, ()))) for at, each in said if at is not None)

    def _append(self, topic: str, records: list[Record]) -> None:
        self.logs[topic] += records
        if topic == STATE:
            for each in records:
                self.state.apply(each.key, each.value)
        self.is_news = True

    @initialize()
    def begin(self) -> None:
        for source, target in zip(SOURCES, TARGETS, strict=True):
            key, value = Position(0, 0, 0, True, target=target.topic).record(source)
            self._append(STATE, [Record(0, 0, key, value, (), -1)])
        self._begin([Handover(self.state.positions[source], (), clean=True) for source in SOURCES])

    def _begin(self, handovers: list[Handover], *, resumed: bool = False) -> None:
        """Begin another epoch; nothing of the last one is under way any more."""
        self.side_in_flight.clear()
        self.streams.clear()
        self.commits = FlowCommits(FLOW)
        self.lanes = []
        for copied, source, target, handover in zip(self.copied, SOURCES, TARGETS, handovers, strict=True):
            copied.in_flight.clear()
            work = PartitionWork(EAST_WEST, source, target, "", handover)
            syncs = PartitionSyncs(source, 100)
            lane = Lane(work, handover, Producer(self.producer, 0), 0, syncs, PARKED)
            lane.was_resumed = resumed
            self.lanes.append(lane)
            self._fetched(copied, copied.tail(handover.position.upstream))

    def _fetched(self, copied: Copied, batches: list[Batch]) -> None:
        lane = self.lanes[copied.number]
        if batches and not lane.is_over:
            frame = memoryview(bytearray(b"".join(bytes(content) for content, _ in batches)))
            part = FetchedPartition(SOURCES[copied.number], 0, copied.end, copied.end, 0, (), 0, len(frame))
            lane.take(frame, part, read_committed=False)

    def _written(self, copied: Copied, one: Batch) -> None:
        copied.batches.append(one)
        copied.written |= {each.offset for each in batch.records(one[0])}
        self._fetched(copied, [one])

    # What happens on the source.

    @rule(number=st.sampled_from(NUMBERS), count=st.integers(1, 3), hole=st.sampled_from([0, 0, 1]))
    def records_are_written(self, number: int, count: int, hole: int) -> None:
        copied = self.copied[number]
        first = copied.end + hole
        self._written(copied, dense([record(first + each) for each in range(count)]))

    @rule(number=st.sampled_from(NUMBERS))
    def a_batch_thinned_out_by_compaction_fills_a_chunk_of_the_map(self, number: int) -> None:
        copied = self.copied[number]
        first, count = copied.end, RUNS_PER_CHUNK + 2
        left = [record(first + 2 * each)._replace(key=None, headers=()) for each in range(count)]
        self._written(copied, sparse(left, first, first + 2 * count))

    @rule(number=st.sampled_from(NUMBERS))
    def a_record_that_the_target_does_not_take_is_written(self, number: int) -> None:
        copied = self.copied[number]
        copied.too_large.add(copied.end)
        self._written(copied, dense([record(copied.end, b"%d" % copied.end + b"x" * LIMIT)]))

    # What goes out, and what is answered.

    def _ready(self) -> list[int | str]:
        """The partitions, by number, and side topics to which something may go out."""
        for _, stream in self.commits.new_streams():
            self.streams[stream.partition.topic] = stream
        data = [number for number in NUMBERS if self.lanes[number].stream.can_send(math.inf)]
        free = self.streams.keys() - self.side_in_flight.keys()
        return [*data, *(topic for topic in SIDES if topic in free and self.streams[topic].can_send(math.inf))]

    def _unanswered(self) -> list[int | str]:
        return [*(copied.number for copied in self.copied if copied.in_flight), *sorted(self.side_in_flight)]

    def _send(self, where: int | str) -> None:
        if isinstance(where, int):
            self.copied[where].in_flight.append(bytes(self.lanes[where].stream.take().content))
        else:
            self.side_in_flight[where] = self.streams[where], bytes(self.streams[where].take().content)

    def _answer(self, where: int | str, lost: str | None = None) -> None:
        if isinstance(where, int):
            copied = self.copied[where]
            if lost is None:
                self.lanes[where].stream.answered(*copied.target.append(copied.in_flight.pop(0)), "")
                return
            for content in copied.in_flight[: 0 if lost == "before" else 2]:
                copied.target.append(content)
            copied.in_flight.clear()
            self.lanes[where].stream.lost("the connection broke")
            return
        stream, content = self.side_in_flight.pop(where)
        if lost != "before":
            self._append(where, batch.records(memoryview(content)))
            self.doubtful += where == PARKED and lost == "behind"
        stream.answered(TIMED_OUT if lost else 0, -1 if lost else 0, "")

    @rule(data=st.data())
    @precondition(lambda self: self._ready())
    def something_goes_out(self, data: st.DataObject) -> None:
        self._send(data.draw(st.sampled_from(self._ready())))

    @rule(data=st.data(), lost=st.sampled_from([None, None, None, None, "before", "behind"]))
    @precondition(lambda self: self._unanswered())
    def something_is_answered(self, data: st.DataObject, lost: str | None) -> None:
        """Or the answer is lost, before the append or behind it."""
        self._answer(data.draw(st.sampled_from(self._unanswered())), lost)

    @rule()
    @precondition(lambda self: PARKED in self.side_in_flight)
    def the_topic_of_parked_records_refuses_a_letter(self) -> None:
        stream, _ = self.side_in_flight.pop(PARKED)
        stream.answered(TOO_LARGE, -1, "")

    # What is due now and then.

    @rule()
    @precondition(lambda self: self.commits.is_over and any(lane.is_dirty for lane in self.lanes))
    def a_commit_is_due(self) -> None:
        self.commits.commit([lane for lane in self.lanes if lane.is_dirty])

    @rule()
    @precondition(lambda self: any(lane.is_held for lane in self.lanes))
    def letters_are_due(self) -> None:
        for lane in self.lanes:
            if lane.is_held:
                self.commits.park(lane)

    @rule()
    def offset_syncs_are_due(self) -> None:
        self.commits.emit_syncs(self.lanes)

    # How an epoch ends.

    @rule()
    def the_epoch_ends_in_order(self) -> None:
        """With what is on its way answered, nothing that is handed over is unsure."""
        for copied, lane in zip(self.copied, self.lanes, strict=True):
            lane.stream.wind_down()
            while lane.stream.can_send(math.inf) or copied.in_flight:
                if lane.stream.can_send(math.inf):
                    self._send(copied.number)
                self._answer(copied.number)
        self.commits.wind_down()
        handovers = [lane.result().handover for lane in self.lanes]
        if all(handover is not None and handover.clean for handover in handovers):
            self.producer += 1
            self._begin([handover for handover in handovers if handover is not None])
        else:
            self.the_task_is_killed()

    @rule()
    def the_task_is_killed(self) -> None:
        """The next one knows what is on record, and finds the rest by matching the tails."""
        writers = range(7, self.producer + 1)
        self.producer += 1
        state, handovers = self.state, []
        for copied, source in zip(self.copied, SOURCES, strict=True):
            position, runs = state.positions[source], list(state.open_runs(source))
            tail = [each for each in copied.target.log if each[1].base_offset >= position.downstream]
            outcome = match_tail(copied.tail(position.upstream), tail, position.upstream, writers.__contains__)
            assert isinstance(outcome, Matched), outcome
            at = replace(position, upstream=outcome.upstream, downstream=copied.target.end)
            handovers.append(Handover(at, (*runs, *outcome.runs), clean=True, is_recorded=False))
        self._begin(handovers, resumed=True)

    # What holds at every moment.

    @invariant()
    def what_is_on_record_is_true(self) -> None:
        if not self.is_news:
            return
        self.is_news = False
        mm2 = connect_offsets.read_source_positions([(each.key, each.value) for each in self.logs[MM2]], "east")
        dead_letters = [at for each in self.logs[PARKED] if (at := origin(each.headers)) is not None]
        assert len(dead_letters) - len({(at.source, at.offset) for at in dead_letters}) <= self.doubtful
        gaps = {(gap.source, gap.start) for gap in self.state.gaps.values()}
        assert gaps <= {(at.source, at.offset) for at in dead_letters}
        syncs = [OffsetSync.parse(each.key, each.value) for each in self.logs["syncs"]]
        for copied, source in zip(self.copied, SOURCES, strict=True):
            upstream, known, places = (
                self.state.positions[source].upstream,
                self.state.offset_map(source),
                copied.places(),
            )
            assert mm2.get(source, 0) <= upstream
            assert {offset for of, offset in gaps if of == source} == {at for at in copied.too_large if at < upstream}
            assert known is not None
            mapped = [(run.upstream + each, run.downstream + each) for run in known.runs for each in range(run.length)]
            recorded = sorted(pair for pair in places.items() if pair[0] < upstream)
            assert mapped == recorded
            assert {offset for offset in copied.written if offset < upstream} - places.keys() == {
                at for at in copied.too_large if at < upstream
            }
            for sync in syncs:
                assert sync is not None
                assert sync.topic_partition != source or places[sync.upstream] == sync.downstream

    def teardown(self) -> None:
        """In the end everything is copied, or parked, and on record."""
        try:
            for _ in range(200):
                if self._is_done():
                    break
                self._goes_well()
            assert self._is_done()
            self.what_is_on_record_is_true()
        finally:
            self._patch.stop()

    def _is_done(self) -> bool:
        return all(
            lane.is_idle and lane.upstream == self.state.positions[source].upstream == copied.end
            for copied, lane, source in zip(self.copied, self.lanes, SOURCES, strict=True)
        )

    def _goes_well(self) -> None:
        """One round of the copy loop in which nothing goes wrong; a lane that has stopped begins again."""
        if any(lane.is_over for lane in self.lanes):
            self.the_task_is_killed()
        self.commits.commit([lane for lane in self.lanes if lane.is_dirty])
        self.commits.emit_syncs(self.lanes)
        self.letters_are_due()
        for where in self._ready():
            self._send(where)
        for where in self._unanswered():
            self._answer(where)


TestTask = Task.TestCase
TestTask.settings = settings(max_examples=settings.default.max_examples // 3, stateful_step_count=40)
