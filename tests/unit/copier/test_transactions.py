"""A transaction takes batches and positions together, and counts only when the coordinator has committed it."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.producer import AddPartitionsToTxnResponse, EndTxnResponse

from mirror.copier import transactions as module
from mirror.copier.lane import Lane
from mirror.copier.streams import Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.transactions import Transactions
from mirror.copier.work import SLOT_PATIENCE_SECONDS, Handover, PartitionWork, Slot
from mirror.kafka import batch
from mirror.kafka.batch import HEADER, Header, Producer
from mirror.kafka.problems import ConnectionFailed
from mirror.model import connect_offsets
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import Run
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from tests.flows import flow_work
from tests.unit.copier.builders import as_logged, dense, record
from tests.unit.copier.lanes import fetched

FLOW = Flow("east", "west")
SOURCES = [TopicPartition("orders", number) for number in range(2)]
TARGETS = [TopicPartition("east.orders", number) for number in range(2)]
STATE = TopicPartition("mm2-state", 0)
MM2 = TopicPartition("mm2-offsets", 0)
OURS = Producer(7, 3, is_transactional=True)
LOADING, NOT_COORDINATOR, INVALID_EPOCH, INVALID_STATE, CONCURRENT, FENCED = 14, 16, 47, 48, 51, 90
UNKNOWN_TOPIC, TIMED_OUT, NOT_ATTEMPTED, INVALID_RECORD = 3, 7, 55, 87
ADD, END = 24, 26
PARKED = TopicPartition("mm2-parked", 0)
TOO_LARGE, TOO_FEW_REPLICAS = 10, 19


class Connection:
    """The connection to a coordinator that is told what to answer."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answers: list[bytes] = []
        self.closed = False

    def next_correlation(self) -> int:
        return 1

    def send(self, pieces: Sequence[bytes]) -> None:
        self.asked.append(struct.unpack_from(">h", pieces[0], 4)[0])

    def receive(self) -> memoryview | None:
        return memoryview(self.answers.pop(0)) if self.answers else None

    def close(self) -> None:
        self.closed = True


class Target:
    """A cluster as a task sees it: logs that grow, and a coordinator."""

    def __init__(
        self,
        *,
        seconds: float = 10.0,
        idle_seconds: float | None = 0.5,
        lanes: int = 1,
        parks: bool = False,
        sequences: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.connection = Connection()
        self.reached: Connection | ConnectionFailed = self.connection
        self.logs: dict[TopicPartition, list[memoryview]] = {}
        self.now = 100.0
        self.refuses: set[int] = set()
        # What some partitions answer to whatever is sent; None: nothing at all.
        self.answers: dict[TopicPartition, int | None] = {}
        self.given_back = False
        slot = Slot("orders-0", OURS, sequences or {TARGETS[0]: 5, STATE: 9}, seconds, idle_seconds)
        flow = flow_work(
            state_topic=STATE.topic,
            offsets_topic="mm2-offsets",
            offsets_partitions=1,
            syncs_topic="syncs",
            writers=frozenset({7}),
            parked_topic=PARKED.topic if parks else None,
            slot=slot,
        )
        self.flow = flow
        self.transactions = Transactions(flow, slot, self)  # type: ignore[arg-type]  # as much of one as is asked
        self.lanes = [self._lane(number) for number in range(lanes)]
        self.streams: list[Stream] = [lane.stream for lane in self.lanes]

    def _lane(self, number: int) -> Lane:
        work = PartitionWork(FLOW, SOURCES[number], TARGETS[number], "", None)
        handover = Handover(Position(0, 0, 0, True), (), clean=True)
        sequence = self.transactions.writer.sequence(TARGETS[number])
        syncs = PartitionSyncs(SOURCES[number], 100)
        lane = Lane(work, handover, OURS, sequence, syncs, self.flow.parked_topic, self.transactions)
        self.transactions.serve(lane)
        return lane

    def give_back(self, node: int, role: str, connection: Connection) -> None:
        self.given_back = True

    def turn(self) -> None:
        """One round of a copy loop, a little later: whatever may be sent is sent and acknowledged."""
        self.now += 0.01
        self.transactions.advance(self.now)
        if self.transactions.wants_connection(self.now):
            self.transactions.take_connection(self.reached)  # type: ignore[arg-type]  # as much of one as is asked
        self.transactions.ask(self.now)
        self.streams += [stream for _, stream in self.transactions.commits.new_streams()]
        for stream in self.streams:
            while stream.can_send(self.now):
                log = self.logs.setdefault(stream.partition, [])
                place = sum(batch_header(each).record_count for each in log)
                content = stream.take().content
                if stream.partition in self.answers:
                    code = self.answers[stream.partition]
                    if code is None:
                        break
                    stream.answered(code, -1, "")
                    continue
                stamps = {each.timestamp for each in batch.records(content)}
                if stream.partition in TARGETS and self.refuses & stamps:
                    stream.answered(TOO_LARGE, -1, "")
                    continue
                log.append(content)
                stream.answered(0, place, "")

    def open(self, offset: int) -> None:
        """Take one record in, and have its partition added: it may go out."""
        self.take(0, offset)
        self.turn()
        self.turn()
        self.answer_adding()

    def answer_adding(self, *wrong: tuple[TopicPartition, int]) -> None:
        """The coordinator answers that partitions are added, or why not."""
        topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        partition = topic.AddPartitionsToTxnPartitionResult
        response = AddPartitionsToTxnResponse(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=[
                topic(
                    name=address.topic,
                    results_by_partition=[partition(partition_index=address.partition, partition_error_code=code)],
                )
                for address, code in wrong or [(TARGETS[0], 0)]
            ],
        )
        self._answer(response)

    def answer_commit(self, code: int = 0) -> None:
        """The coordinator answers that the transaction is committed, or why not."""
        self._answer(EndTxnResponse(throttle_time_ms=0, error_code=code))

    def _answer(self, response: Any) -> None:
        self.connection.answers.append(b"\0\0\0\1" + bytes(response.encode(version=2)))
        assert self.transactions.receive()

    def take(self, number: int, *offsets: int) -> None:
        """A lane is given records."""
        frame, part = fetched(dense([record(offset) for offset in offsets]))
        self.lanes[number].take(frame, part, read_committed=False)

    def commit(self) -> None:
        """Let the transaction be committed that wants to go on."""
        self.turn()
        self.turn()
        self.answer_adding()
        for _ in range(3):
            self.turn()
        assert self.connection.asked[-1] == END
        self.answer_commit()

    def upstream(self, number: int = 0) -> int:
        handover = self.lanes[number].result().handover
        assert handover is not None
        assert handover.clean
        return handover.position.upstream


def stamp(offset: int) -> int:
    return record(offset).timestamp


def batch_header(content: memoryview) -> Header:
    return Header._make(HEADER.unpack_from(content))


def test_nothing_goes_out_before_its_partition_is_added_and_positions_go_with_the_data() -> None:
    """One question adds the data's partition and those of the positions; all batches are the transaction's."""
    target = Target()
    target.take(0, 0, 1, 2)
    target.turn()
    target.turn()
    assert target.connection.asked == [ADD]
    assert target.logs == {}
    target.answer_adding()
    target.turn()
    assert target.logs.keys() == {TARGETS[0]}
    target.turn()
    target.turn()
    assert target.logs.keys() == {TARGETS[0], STATE, TopicPartition("mm2-offsets", 0)}
    headers = {address: batch_header(log[0]) for address, log in target.logs.items()}
    assert all(header.is_transactional and header.producer_epoch == 3 for header in headers.values())
    assert (headers[TARGETS[0]].base_sequence, headers[STATE].base_sequence) == (5, 9)
    assert target.connection.asked == [ADD, END]
    state = FlowState()
    for each in batch.records(as_logged(target.logs[STATE][0], 0)[0]):
        state.apply(each.key, each.value)
    assert state.positions[SOURCES[0]].upstream == 3
    assert state.positions[SOURCES[0]].atomic
    (mm2,) = batch.records(as_logged(target.logs[TopicPartition("mm2-offsets", 0)][0], 0)[0])
    assert connect_offsets.read_source_positions([(mm2.key, mm2.value)], "east") == {SOURCES[0]: 3}


def test_only_what_is_committed_counts() -> None:
    """The position, the records, and the offset sync (OSW-07) follow the commit."""
    target = Target()
    target.take(0, 0, 1, 2)
    for _ in range(2):
        target.turn()
    target.answer_adding()
    for _ in range(3):
        target.turn()
    (lane,) = target.lanes
    assert lane.upstream == 3
    assert (target.upstream(), lane.result().records, lane.take_due_sync()) == (0, 0, None)
    told = lane.news()
    assert told is not None
    assert (told.records, told.acknowledged.count) == (0, 3), "how long it took is known, but it may be taken back"
    target.answer_commit()
    assert (target.upstream(), lane.result().records) == (3, 3)
    told = lane.news()
    assert told is not None
    assert told.records == 3
    sync = lane.take_due_sync()
    assert sync is not None
    assert (sync.upstream, lane.take_due_sync()) == (2, None)
    assert target.transactions.is_over
    end = target.transactions.end()
    assert end.lost is None
    assert (end.sequences[TARGETS[0]], end.sequences[STATE]) == (8, 11)


def test_sequences_wrap_to_zero_as_the_broker_expects() -> None:
    """Of the data and of the positions; across batches, and into the next epoch."""
    last = 2**31 - 1
    target = Target(sequences={TARGETS[0]: last - 1, STATE: last})
    target.take(0, 0, 1, 2)
    target.commit()
    target.take(0, 3)
    target.turn()
    target.turn()
    target.answer_adding()
    target.turn()
    assert [batch_header(each).base_sequence for each in target.logs[TARGETS[0]]] == [last - 1, 1]
    assert batch_header(target.logs[STATE][0]).base_sequence == last
    sequences = target.transactions.end().sequences
    assert (sequences[TARGETS[0]], sequences[STATE]) == (2, 1)


def test_a_committed_pair_that_could_not_be_sent_is_sent_in_the_next_epoch_without_a_transaction() -> None:
    """ERR-11."""
    target = Target()
    handover = Handover(Position(5, 9, 0, True), (Run(0, 4, 5),), clean=True, owes_sync=True)
    work = PartitionWork(FLOW, SOURCES[0], TARGETS[0], "", handover)
    lane = Lane(work, handover, OURS, 5, PartitionSyncs(SOURCES[0], 100), None, target.transactions)
    sync = lane.take_due_sync()
    assert sync == OffsetSync(SOURCES[0], 4, 8)
    assert lane.syncs is not None
    for owes in (True, False):
        told = lane.result().handover
        assert told is not None
        assert told.owes_sync is owes
        lane.syncs.written(sync)


def test_what_one_partition_is_refused_is_left_to_a_later_transaction_and_the_others_are_committed() -> None:
    """NOT_ENOUGH_REPLICAS comes before a broker appends: nothing of it is in this transaction."""
    target = Target(seconds=60.0, lanes=2)
    for number in range(2):
        target.take(number, 0)
    for _ in range(2):
        target.turn()
    refused = target.lanes[1].stream
    target.streams.remove(refused)
    target.answer_adding(*((address, 0) for address in TARGETS))
    target.turn()
    refused.take()
    refused.answered(TOO_FEW_REPLICAS, -1, "")
    for _ in range(4):
        target.turn()
    assert target.connection.asked[-1] == END
    target.answer_commit()
    assert (target.upstream(0), target.upstream(1)) == (1, 0)


def test_a_transaction_with_more_to_write_goes_on_until_its_time_is_over() -> None:
    """And what comes while it closes waits for the next."""
    target = Target(seconds=1.0, idle_seconds=None)
    target.open(0)
    for offset in range(1, 50):
        target.take(0, offset)
        target.turn()
    assert target.connection.asked == [ADD]
    assert len(target.logs[TARGETS[0]]) >= 49
    target.now += 1.0
    target.turn()
    target.take(0, 50)
    before = len(target.logs[TARGETS[0]])
    target.turn()
    assert target.connection.asked == [ADD, END]
    target.answer_commit()
    assert len(target.logs[TARGETS[0]]) == before
    assert target.upstream() == 50
    target.turn()
    target.turn()
    assert target.connection.asked == [ADD, END, ADD]


@pytest.mark.parametrize("code", [INVALID_EPOCH, FENCED])
def test_a_fenced_transaction_is_lost_and_the_lanes_are_where_the_last_one_left_them(code: int) -> None:
    target = Target(lanes=2)
    target.take(0, 0, 1)
    target.commit()
    target.take(0, 2, 3)
    target.take(1, 0)
    target.turn()
    target.turn()
    target.answer_adding()
    target.turn()
    target.now += 0.5
    for _ in range(3):
        target.turn()
    target.answer_commit(code)
    assert target.transactions.is_over
    end = target.transactions.end()
    assert end.lost is not None
    assert "orders-0" in end.lost
    results = [lane.result() for lane in target.lanes]
    assert [(each.records, each.stopped) for each in results] == [(2, None), (0, None)]
    for each, upstream in zip(results, [2, 0], strict=True):
        assert each.handover is not None
        assert (each.handover.position.upstream, each.handover.clean) == (upstream, False)
        assert each.trouble == end.lost
    asked = list(target.connection.asked)
    target.take(0, 4)
    target.turn()
    assert target.connection.asked == asked


def test_a_batch_that_is_refused_because_the_producer_is_fenced_loses_the_transaction() -> None:
    target = Target()
    target.open(0)
    (lane,) = target.lanes
    assert lane.stream.can_send(target.now)
    lane.stream.take()
    lane.stream.answered(INVALID_EPOCH, -1, "")
    target.turn()
    end = target.transactions.end()
    assert end.lost is not None
    assert "InvalidProducerEpoch" in end.lost
    assert lane.result().stopped is None


def test_a_batch_that_the_target_will_not_have_stops_its_partition_and_the_others_are_committed() -> None:
    target = Target(lanes=2)
    target.take(0, 0)
    target.take(1, 0)
    target.turn()
    target.turn()
    target.answer_adding()
    stream = target.lanes[1].stream
    assert stream.can_send(target.now)
    stream.take()
    stream.answered(10, -1, "")
    for _ in range(3):
        target.turn()
    target.answer_commit()
    assert (target.upstream(0), target.upstream(1)) == (1, 0)
    assert "MessageSizeTooLarge" in str(target.lanes[1].result().stopped)


def test_the_coordinator_is_asked_again_while_it_still_completes_the_last_transaction() -> None:
    target = Target()
    target.take(0, 0)
    target.turn()
    target.turn()
    for _ in range(3):
        target.answer_adding((TARGETS[0], CONCURRENT))
        assert target.transactions.trouble is None
        target.now += 0.2
        target.turn()
    assert target.connection.asked == [ADD] * 4
    target.answer_adding()
    target.turn()
    assert TARGETS[0] in target.logs


def test_another_coordinator_is_looked_for_when_this_one_is_it_no_more() -> None:
    """A commit that is asked for again changes nothing."""
    target = Target()
    target.take(0, 0)
    for _ in range(2):
        target.turn()
    target.answer_adding()
    for _ in range(3):
        target.turn()
    with pytest.raises(ConnectionFailed, match="NotCoordinator"):
        target.answer_commit(NOT_COORDINATOR)
    target.transactions.abandon("moved")
    assert target.transactions.trouble == "moved"
    target.now += 1.0
    target.turn()
    assert target.connection.asked == [ADD, END, END]
    target.answer_commit()
    assert (target.upstream(), target.transactions.trouble) == (1, None)


def test_a_partition_that_is_not_there_keeps_no_other_waiting() -> None:
    """Where one is refused the coordinator adds none."""
    target = Target(lanes=2)
    target.take(0, 0)
    target.take(1, 0)
    target.turn()
    target.turn()
    target.answer_adding((TARGETS[0], NOT_ATTEMPTED), (TARGETS[1], UNKNOWN_TOPIC), (STATE, NOT_ATTEMPTED))
    target.turn()
    target.answer_adding()
    for _ in range(3):
        target.turn()
    target.answer_commit()
    assert (target.upstream(0), target.upstream(1)) == (1, 0)
    assert "UnknownTopicOrPartition" in str(target.lanes[1].result().trouble)


def test_what_there_is_to_record_without_data_is_committed_when_called_for() -> None:
    target = Target()
    (lane,) = target.lanes
    lane.skip_gap(10, 0)
    assert target.transactions.is_over
    target.transactions.call()
    assert not target.transactions.is_over
    target.turn()
    target.turn()
    target.answer_adding()
    target.turn()
    target.turn()
    target.answer_commit()
    assert (target.upstream(), target.transactions.is_over) == (10, True)
    assert target.logs.keys() == {STATE, TopicPartition("mm2-offsets", 0)}


def test_an_epoch_that_ends_commits_what_was_sent_and_sends_at_least_something() -> None:
    """One fetch may bring more than an epoch has time for; without this none would ever get on."""
    target = Target(seconds=60.0, idle_seconds=None)
    target.take(0, 0)
    target.transactions.wind_down()
    assert target.transactions.is_over
    target = Target(seconds=60.0, idle_seconds=None)
    target.take(0, 0)
    target.turn()
    target.transactions.wind_down()
    target.commit()
    assert target.upstream() == 1
    target.take(0, 1)
    target.turn()
    assert target.transactions.is_over
    assert target.transactions.end().lost is None


def test_an_epoch_that_is_over_before_its_transaction_loses_it() -> None:
    target = Target()
    target.open(0)
    target.turn()
    target.transactions.wind_down()
    assert not target.transactions.is_over
    end = target.transactions.end()
    assert end.lost is not None
    assert "epoch was over" in end.lost
    handover = target.lanes[0].result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.clean) == (0, False)


def test_what_may_or_may_not_have_arrived_loses_the_transaction_when_it_is_not_waited_for() -> None:
    target = Target(seconds=0.0)
    target.open(0)
    (lane,) = target.lanes
    assert lane.stream.can_send(target.now)
    lane.stream.take()
    lane.stream.lost("the connection broke")
    target.transactions.wind_down()
    target.transactions.advance(target.now)
    assert not target.transactions.is_over
    target.transactions.give_up()
    lane.stream.give_up()
    target.transactions.advance(target.now)
    assert "not certain" in str(target.transactions.end().lost)


def test_a_partition_that_gets_nowhere_loses_the_transaction_before_the_epoch_is_over() -> None:
    """The others do not wait for it; what is only slow is waited for."""
    target = Target(seconds=0.0)
    target.open(0)
    (lane,) = target.lanes
    lane.stream.take()
    lane.stream.answered(TIMED_OUT, -1, "")
    target.now = lane.stream.waits_since
    target.turn()
    target.now = lane.stream.waits_since + SLOT_PATIENCE_SECONDS - 0.1
    target.transactions.advance(target.now)
    assert target.transactions.lost is None
    target.transactions.advance(target.now + 0.2)
    assert "what east.orders-0 has got is not known: the target answers" in str(target.transactions.lost)


def test_a_partition_that_was_held_up_before_has_its_time_when_the_transaction_closes() -> None:
    target = Target(seconds=0.0)
    target.open(0)
    (lane,) = target.lanes
    lane.stream.take()
    lane.stream.answered(TIMED_OUT, -1, "")
    target.now = lane.stream.waits_since + 10 * SLOT_PATIENCE_SECONDS
    target.transactions.advance(target.now)
    target.transactions.advance(target.now + SLOT_PATIENCE_SECONDS - 0.1)
    assert target.transactions.lost is None


def test_a_transaction_that_the_cluster_does_not_end_gives_the_slot_up() -> None:
    """Another transactional id is to go on; what was committed with this one counts."""
    target = Target()
    target.take(0, 0)
    target.commit()
    target.take(0, 1)
    for _ in range(2):
        target.turn()
    for _ in range(10):
        target.answer_adding((TARGETS[0], CONCURRENT))
        assert target.transactions.lost is None
        target.now += 0.2
        target.turn()
    target.answer_adding((TARGETS[0], CONCURRENT))
    end = target.transactions.end()
    assert "does not end the last transaction of orders-0" in str(end.lost)
    assert end.is_stuck
    handover = target.lanes[0].result().handover
    assert handover is not None
    assert handover.position.upstream == 1


def test_a_coordinator_that_cannot_be_reached_rests_the_transaction_and_loses_nothing() -> None:
    target = Target()
    target.reached = ConnectionFailed("west: nobody there")
    target.take(0, 0)
    target.turn()
    target.turn()
    assert target.transactions.trouble == "west: nobody there"
    assert 0 < target.transactions.pause(target.now) <= module._LONGEST_BACKOFF_SECONDS
    target.transactions.wind_down()
    target.transactions.give_up()
    target.turn()
    assert target.transactions.is_over
    assert target.transactions.end().lost is None
    assert target.upstream() == 0


def test_a_source_that_is_not_what_it_was_does_not_undo_what_was_copied_of_it() -> None:
    """Those records may be gone on the source: aborted they would be lost."""
    target = Target()
    target.take(0, 0, 1)
    target.turn()
    target.turn()
    target.answer_adding()
    target.turn()
    (lane,) = target.lanes
    lane.look_again("the topic was created anew")
    for _ in range(3):
        target.turn()
    target.answer_commit()
    assert target.transactions.end().lost is None
    result = lane.result()
    assert result.handover is not None
    assert (result.handover.position.upstream, result.records) == (2, 2)
    assert (result.handover.clean, result.trouble) == (False, "the topic was created anew")


def test_a_record_to_be_parked_does_not_hold_a_transaction_open_and_the_way_behind_it_is_committed() -> None:
    target = Target(seconds=1000.0, parks=True)
    for offset in range(3):
        target.take(0, offset)
    target.refuses = {stamp(1)}
    target.turn()
    target.turn()
    target.answer_adding()
    for _ in range(4):
        target.turn()
    (lane,) = target.lanes
    assert lane.is_held
    assert target.connection.asked == [ADD, END]
    target.answer_commit()
    assert target.upstream() == 1
    target.transactions.commits.park(lane)
    target.turn()
    assert not batch_header(target.logs[PARKED][0]).is_transactional
    assert lane.awaits_commit
    target.transactions.call()
    target.turn()
    assert target.connection.asked == [ADD, END, ADD]
    target.answer_adding((STATE, 0))
    for _ in range(3):
        target.turn()
    assert target.upstream() == 1
    target.answer_commit()
    assert target.upstream() == 2
    state = FlowState()
    for content in target.logs[STATE]:
        for each in batch.records(content):
            state.apply(each.key, each.value)
    ((gap),) = state.gaps.values()
    assert (gap.start, gap.end) == (1, 2)
    target.turn()
    target.turn()
    target.answer_adding()
    target.turn()
    target.now += 0.5
    for _ in range(3):
        target.turn()
    target.answer_commit()
    assert target.upstream() == 3


def test_positions_that_the_state_topic_refuses_lose_the_transaction() -> None:
    """The records would otherwise be committed without what says that they are there."""
    target = Target(lanes=2)
    target.answers[STATE] = TOO_LARGE
    target.open(0)
    for _ in range(3):
        target.turn()
    assert target.connection.asked == [ADD], "nobody asks for a commit"
    end = target.transactions.end()
    assert end.lost is not None
    assert "mm2-state-0 on the target refuses what the flow writes down: MessageSizeTooLarge" in end.lost
    handover = target.lanes[0].result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.clean) == (0, False)
    assert all(lane.is_over for lane in target.lanes), "no lane of the slot writes any more"
    assert all(stream.closed for stream in target.streams)


def recording(answer: int | None, address: TopicPartition = STATE) -> Target:
    """A transaction whose position was sent, and not taken by one of the topics of positions."""
    target = Target(lanes=2, seconds=60.0)
    target.answers[address] = answer
    target.open(0)
    for _ in range(3):
        target.turn()
    return target


@pytest.mark.parametrize("answer", [TIMED_OUT, None])
def test_nothing_that_the_positions_do_not_say_goes_out_while_they_are_written(answer: int | None) -> None:
    target = recording(answer)
    target.take(0, 1)
    target.take(1, 0)
    for _ in range(3):
        target.turn()
    assert [batch_header(each).record_count for each in target.logs[TARGETS[0]]] == [1]
    assert TARGETS[1] not in target.logs
    assert target.connection.asked == [ADD], "no partition is added, and no commit is asked for"


@pytest.mark.parametrize("address", [STATE, MM2])
def test_positions_that_are_not_taken_lose_the_transaction_before_the_epoch_is_over(address: TopicPartition) -> None:
    """The others of the slot do not wait for a partition of positions without a leader, or without enough replicas."""
    target = recording(TIMED_OUT, address)
    (stream,) = (each for each in target.streams if each.partition == address)
    target.transactions.advance(stream.waits_since + SLOT_PATIENCE_SECONDS - 0.1)
    assert target.transactions.lost is None
    target.transactions.advance(stream.waits_since + SLOT_PATIENCE_SECONDS + 0.1)
    end = target.transactions.end()
    assert f"{address} does not take the positions: the target answers RequestTimedOut" in str(end.lost)
    assert end.is_stuck


def test_positions_wait_for_the_coordinator_as_long_as_it_takes() -> None:
    """That it does not add their partitions says nothing of those."""
    target = Target()
    target.lanes[0].skip_gap(10, 0)
    target.transactions.call()
    for _ in range(2):
        target.turn()
    target.answer_adding((STATE, LOADING))
    (stream,) = (each for each in target.streams if each.partition == STATE)
    target.now = stream.waits_since + 1000.0
    target.turn()
    assert target.transactions.lost is None
    target.answer_adding((STATE, 0))
    target.turn()
    assert STATE in target.logs


@pytest.mark.parametrize("answer", [TIMED_OUT, None])
def test_an_epoch_that_is_over_while_positions_are_written_loses_the_transaction(answer: int | None) -> None:
    target = recording(answer)
    assert not target.transactions.is_over
    assert "epoch was over" in str(target.transactions.end().lost)
    handover = target.lanes[0].result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.clean) == (0, False)


def test_an_epoch_that_is_over_while_the_commit_is_asked_for_loses_the_transaction() -> None:
    """It may be committed, or not: whoever takes the slot over finds out."""
    target = Target()
    target.open(0)
    for _ in range(3):
        target.turn()
    assert target.connection.asked[-1] == END
    assert "epoch was over" in str(target.transactions.end().lost)


@pytest.mark.parametrize("code", [INVALID_EPOCH, INVALID_STATE, FENCED])
def test_a_slot_that_is_fenced_when_partitions_are_added_is_lost(code: int) -> None:
    target = Target(lanes=2)
    target.take(0, 0)
    target.turn()
    target.turn()
    target.answer_adding((TARGETS[0], code))
    end = target.transactions.end()
    assert end.lost is not None
    asked = list(target.connection.asked)
    for _ in range(3):
        target.turn()
    assert (target.connection.asked, target.logs) == (asked, {})
    assert all(lane.is_over for lane in target.lanes)


def test_a_state_topic_that_cannot_be_written_to_loses_the_transaction() -> None:
    target = Target()
    target.take(0, 0)
    target.turn()
    target.turn()
    target.answer_adding((TARGETS[0], NOT_ATTEMPTED), (STATE, UNKNOWN_TOPIC))
    assert "mm2-state-0 answers UnknownTopicOrPartition" in str(target.transactions.end().lost)


@pytest.mark.parametrize("code", [INVALID_STATE, FENCED])
@pytest.mark.parametrize("idle_seconds", [0.5, None])
def test_a_batch_refused_for_the_transaction_s_sake_ends_it_at_once(code: int, idle_seconds: float | None) -> None:
    """And nobody needs to look at the partition: it is copied again."""
    target = Target(seconds=1000.0, idle_seconds=idle_seconds, lanes=2)
    target.take(1, 0)
    target.take(0, 0)
    target.turn()
    target.turn()
    target.answers[TARGETS[0]] = code
    target.answer_adding((TARGETS[0], 0), (TARGETS[1], 0))
    target.turn()
    target.turn()
    assert target.transactions.lost is not None
    assert [lane.result().stopped for lane in target.lanes] == [None, None]


def test_a_partition_that_stops_with_something_unsure_loses_the_transaction() -> None:
    """What may be in the log, and is not in the position, must not be committed."""
    target = Target()
    target.open(0)
    (lane,) = target.lanes
    lane.stream.take()
    lane.stream.lost("the connection broke")
    lane.stream.take()
    lane.stream.answered(INVALID_RECORD, -1, "")
    for _ in range(3):
        target.turn()
    assert "not certain" in str(target.transactions.lost)
    assert END not in target.connection.asked


def test_an_answer_that_comes_when_the_transaction_is_lost_stops_no_partition() -> None:
    target = Target()
    target.open(0)
    (lane,) = target.lanes
    lane.stream.take()
    target.transactions.end()
    lane.stream.answered(INVALID_RECORD, -1, "")
    result = lane.result()
    assert (result.stopped, result.trouble) == (None, target.transactions.lost)


def test_a_transaction_takes_nothing_new_in_when_its_time_is_over_though_something_is_unanswered() -> None:
    target = Target(seconds=1.0, idle_seconds=None)
    target.answers[TARGETS[0]] = None
    target.open(0)
    target.turn()
    assert target.transactions.lets(TARGETS[0], again=False)
    target.now += 1.0
    target.turn()
    assert not target.transactions.lets(TARGETS[0], again=False)
    assert target.transactions.lets(TARGETS[0], again=True), "what may be in it already must become certain"


def test_a_coordinator_that_answers_nothing_is_given_up() -> None:
    target = Target()
    target.take(0, 0)
    target.turn()
    target.turn()
    target.transactions.ask(target.now + 39)
    with pytest.raises(ConnectionFailed, match="has not answered"):
        target.transactions.ask(target.now + 41)


def test_a_connection_on_which_an_answer_is_owed_is_not_kept() -> None:
    """The next one to use it would take that answer for its own."""
    for answers, kept in ((True, True), (False, False)):
        target = Target()
        target.take(0, 0)
        target.turn()
        target.turn()
        if answers:
            target.answer_adding()
        target.transactions.release()
        assert (target.given_back, target.connection.closed) == (kept, not kept)
        assert target.transactions.connection is None


def test_an_offset_sync_that_was_not_sent_yet_outlasts_the_next_commit() -> None:
    target = Target()
    target.take(0, 0)
    target.commit()
    (lane,) = target.lanes
    lane.skip_gap(10, 0)
    target.transactions.call()
    target.turn()
    target.turn()
    target.answer_adding((STATE, 0))
    for _ in range(3):
        target.turn()
    target.answer_commit()
    assert target.upstream() == 10
    assert not lane.is_idle
    sync = lane.take_due_sync()
    assert sync == OffsetSync(SOURCES[0], 0, 0)
    assert lane.syncs is not None
    assert not lane.is_idle
    lane.syncs.written(sync)
    assert lane.is_idle


@pytest.mark.parametrize("is_marker_next", [True, False])
def test_the_marker_of_a_commit_is_nobodys_record(*, is_marker_next: bool) -> None:
    """One offset behind each commit; where none is known to be, the log is asked whether it holds one."""
    target = Target()
    begun = Handover(Position(0, 0, 0, True), (), clean=True, is_marker_next=is_marker_next)
    lane = Lane(
        replace(target.lanes[0].work, is_watched=True), Handover(Position(0, 0, 0, True), (), clean=True), OURS, 5, None
    )
    inside = Lane(lane.work, begun, OURS, 5, None, None, target.transactions)
    target.transactions.serve(inside)
    target.lanes, target.streams = [inside], [inside.stream]
    target.logs[TARGETS[0]] = list(dense([record(0)])[:1])
    target.take(0, 0)
    target.commit()
    assert inside.result().foreign == (() if is_marker_next else ((0, 1),))
    handover = inside.result().handover
    assert handover is not None
    assert handover.is_marker_next, "behind what was committed now"
    frame, part = fetched(dense([record(0)]))
    lane.take(frame, part, read_committed=False)
    lane.stream.take()
    lane.stream.answered(0, 1, "")
    assert lane.result().foreign == ((0, 1),), "without transactions there is none"


# A turn takes so long, in seconds.
TURN = 0.01


def pause(target: Target) -> float:
    return target.transactions.pause(target.now)


def opened(target: Target, *, answer: int | None = None) -> Target:
    """Let a record go out, to which the target answers so, or nothing."""
    target.answers[TARGETS[0]] = answer
    target.open(0)
    target.turn()
    return target


def test_without_anything_to_write_it_has_nothing_to_do_and_begins_at_once_when_there_is() -> None:
    target = Target()
    target.turn()
    assert (pause(target), target.transactions.is_over) == (math.inf, True)
    target.take(0, 0)
    target.turn()
    assert (pause(target), target.transactions.is_over) == (0.0, False)


def test_it_waits_for_the_connection_and_the_answers_it_has_asked_for() -> None:
    target = Target()
    target.take(0, 0)
    target.turn()
    target.transactions.advance(target.now)
    assert pause(target) == 0.0, "the coordinator is to be asked"
    target.transactions.is_connecting = True
    assert pause(target) == math.inf
    target.transactions.is_connecting = False
    target.turn()
    assert (target.connection.asked, pause(target)) == ([ADD], math.inf)


def test_a_coordinator_that_cannot_be_reached_is_left_alone_for_a_while() -> None:
    target = Target()
    target.reached = ConnectionFailed("nobody answers")
    target.take(0, 0)
    target.turn()
    target.turn()
    backoff = pause(target)
    assert 0 < backoff < math.inf
    target.now += backoff
    assert pause(target) == 0.0
    assert target.transactions.wants_connection(target.now)
    assert not target.transactions.wants_connection(target.now - TURN)
    assert target.transactions.pause(target.now + 5) == 0.0, "never in the past"


@pytest.mark.parametrize("idle_seconds", [0.5, None])
def test_with_something_unanswered_it_takes_more_in_until_its_time_is_over(idle_seconds: float | None) -> None:
    target = opened(Target(seconds=10.0, idle_seconds=idle_seconds))
    assert pause(target) == pytest.approx(10.0)
    target.now += 4.0
    assert pause(target) == pytest.approx(6.0)
    assert target.transactions.pause(target.now + 9.0) == 0.0, "never in the past"


def test_with_all_answered_it_ends_a_while_behind_the_commit_before_or_at_once() -> None:
    """The first one has nothing to keep a distance from."""
    target = Target(seconds=10.0, idle_seconds=0.5)
    target.take(0, 0)
    target.commit()
    committed_at = target.now
    assert pause(target) == math.inf
    target.open(1)
    target.turn()
    assert pause(target) == pytest.approx(committed_at + 0.5 - target.now)
    target.now += pause(target) - 2 * TURN
    target.turn()
    assert target.connection.asked.count(END) == 1
    for _ in range(3):
        target.turn()
    assert target.connection.asked.count(END) == 2
    assert pause(target) == math.inf, "it waits for the answer"


def test_where_it_may_not_end_early_all_answered_changes_nothing() -> None:
    target = Target(seconds=10.0, idle_seconds=None)
    target.open(0)
    target.turn()
    assert pause(target) == pytest.approx(10.0)


def test_while_its_positions_are_under_way_and_when_it_is_lost_it_waits() -> None:
    target = Target()
    target.answers[STATE] = None
    target.open(0)
    for _ in range(3):
        target.turn()
    assert target.connection.asked == [ADD]
    assert pause(target) == math.inf
    lost = opened(Target(), answer=INVALID_EPOCH)
    for _ in range(3):
        lost.turn()
    assert lost.transactions.lost is not None
    assert (pause(lost), lost.transactions.is_over) == (math.inf, True)


def test_a_partition_joins_a_transaction_that_is_open() -> None:
    target = opened(Target(lanes=2))
    target.take(1, 0)
    target.turn()
    assert pause(target) in {0.0, math.inf}
    target.turn()
    assert target.connection.asked == [ADD, ADD]
    target.answer_adding((TARGETS[1], 0))
    target.turn()
    assert TARGETS[1] in target.logs


def test_what_was_never_sent_keeps_no_epoch_from_ending() -> None:
    """It is read again in the next one, whether this one was wound down or given up."""
    wound_down = Target()
    wound_down.take(0, 0)
    wound_down.transactions.wind_down()
    assert wound_down.lanes[0].stream.is_quiet
    given_up = Target()
    given_up.take(0, 0)
    given_up.turn()
    given_up.transactions.wind_down()
    assert not given_up.lanes[0].stream.is_quiet, "one record at least is sent in each epoch"
    given_up.transactions.give_up()
    assert given_up.lanes[0].stream.is_quiet


def test_a_position_without_data_that_is_not_written_yet_is_not_committed() -> None:
    target = Target()
    (lane,) = target.lanes
    lane.skip_gap(10, 0)
    target.transactions.call()
    target.turn()
    target.turn()
    assert target.connection.asked == [ADD]
    end = target.transactions.end()
    assert "the epoch was over before it was" in str(end.lost)
    assert end.is_stuck


def test_whether_the_cluster_may_come_to_its_senses_is_told_with_what_was_lost() -> None:
    """Where the slot was fenced another one is needed at once; where nothing is answered the id may be stuck."""
    fenced, unsure = Target(), Target()
    for target in (fenced, unsure):
        target.open(0)
    fenced.lanes[0].stream.take()
    fenced.lanes[0].stream.answered(INVALID_EPOCH, -1, "")
    unsure.lanes[0].stream.take()
    unsure.lanes[0].stream.lost("the connection broke")
    unsure.lanes[0].stream.take()
    unsure.lanes[0].stream.answered(INVALID_RECORD, -1, "")
    for target in (fenced, unsure):
        for _ in range(3):
            target.turn()
    assert [each.transactions.end().is_stuck for each in (fenced, unsure)] == [False, True]


def test_of_a_lost_transaction_nothing_is_asked_and_no_answer_waited_for() -> None:
    target = Target()
    target.answers[STATE] = INVALID_RECORD
    target.open(0)
    for _ in range(3):
        target.turn()
    target.take(0, 1)
    target.turn()
    assert target.transactions.lost is not None
    asked = list(target.connection.asked)
    target.transactions.ask(target.now + 1000)
    assert target.connection.asked == asked
    waiting = Target()
    waiting.take(0, 0)
    waiting.turn()
    waiting.turn()
    waiting.transactions._lose("another has the slot")
    waiting.transactions.ask(waiting.now + 1000)
    assert waiting.connection.asked == [ADD]


def test_a_transaction_without_a_connection_has_none_to_keep() -> None:
    target = Target()
    target.transactions.release()
    assert not target.given_back


def test_a_coordinator_that_recovers_is_no_trouble_any_more_and_is_asked_soon_the_next_time() -> None:
    target = Target()
    target.open(0)
    for _ in range(3):
        target.turn()
    waits = []
    for _ in range(12):
        assert target.connection.asked[-1] == END
        target.answer_commit(CONCURRENT)
        waits.append(target.transactions.pause(target.now))
        target.now += waits[-1]
        target.turn()
    assert waits[0] == pytest.approx(module._FIRST_BACKOFF_SECONDS)
    assert waits[-1] == pytest.approx(module._LONGEST_BACKOFF_SECONDS)
    assert target.transactions.trouble is not None
    target.answer_commit()
    assert target.transactions.trouble is None
    target.now += 1.0
    target.open(1)
    for _ in range(3):
        target.turn()
    target.answer_commit(CONCURRENT)
    assert target.transactions.pause(target.now) == pytest.approx(module._FIRST_BACKOFF_SECONDS)
    assert target.transactions.trouble is None


SYNCS = TopicPartition("syncs", 0)


@pytest.mark.parametrize("answer", [None, INVALID_RECORD], ids=["not answered", "refused"])
def test_no_transaction_waits_for_an_offset_sync_or_is_lost_for_it(answer: int | None) -> None:
    """It is written beside the transaction, of what the one before has committed (OSW-07)."""
    target = Target()
    target.take(0, 0)
    target.commit()
    target.answers[SYNCS] = answer
    target.transactions.commits.emit_syncs(target.lanes)
    target.turn()
    assert SYNCS in {stream.partition for stream in target.streams}
    target.now += 1.0
    target.take(0, 1)
    target.commit()
    assert target.transactions.lost is None
    assert target.upstream() == 2
