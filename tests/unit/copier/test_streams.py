"""Whatever a broker answers, batches reach its log once, in order, or the stream says that it cannot go on."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from mirror.copier.links import ClusterLinks
from mirror.copier.sender import ANSWER_SECONDS, PARTITIONS_A_REQUEST, REQUEST_BYTES, REQUESTS_IN_FLIGHT, Sender
from mirror.copier.streams import Merge, Stream
from mirror.kafka import batch, wire
from mirror.kafka.batch import HEADER, Header, Producer
from mirror.kafka.connection import Connection
from mirror.kafka.joining import joined
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.throttling import Throttling
from mirror.model.partition import TopicPartition
from tests.unit.copier.builders import record

ORDERS = TopicPartition("orders", 0)
PRODUCER = Producer(7, 0)
NOT_LEADER, TIMED_OUT, TOO_LARGE, TOO_FEW_REPLICAS, OUT_OF_ORDER = 6, 7, 10, 19, 45
DAMAGED, DENIED = 2, 29


@dataclass
class Broker:
    """One partition's log and what the broker knows of its producer, by Kafka's rules for idempotent producers."""

    log: list[int] = field(default_factory=list)
    remembered: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=5))
    next_sequence: int | None = None

    def append(self, content: bytes) -> tuple[int, int]:
        """Return (error, base offset)."""
        header = Header._make(HEADER.unpack_from(content))
        for sequence, base in self.remembered:
            if sequence == header.base_sequence:
                return 0, base
        if self.next_sequence is not None and header.base_sequence != self.next_sequence:
            return OUT_OF_ORDER, -1
        base = len(self.log)
        self.log += [int((each.value or b"").split()[1]) for each in batch.records(memoryview(content))]
        self.remembered.append((header.base_sequence, base))
        self.next_sequence = header.base_sequence + header.record_count
        return 0, base


class Wire:
    """A connection whose other end is in this process; requests wait until they are handled."""

    name = "west, broker 1"
    has_unsent = False

    def __init__(self) -> None:
        self.round_trip = math.inf
        self.received_at = self.wrote_at = self.quiet_until = 0.0
        self.throttling = Throttling()
        self.throttle_ms = 0
        self.requests: deque[dict[TopicPartition, bytes]] = deque()
        self.answers: deque[memoryview] = deque()
        self.closed = False
        self._correlation = 0

    def next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def send(self, pieces: Sequence[Any]) -> None:
        frame = b"".join(bytes(piece) for piece in pieces)[4:]
        read = ProduceRequest.decode(frame, version=wire.PRODUCE_VERSION, header=True)
        self.requests.append(
            {
                TopicPartition(topic.name, each.index): bytes(each.records)
                for topic in read.topic_data
                for each in topic.partition_data
            }
        )

    def handle(self, handler: Callable[[TopicPartition, bytes], tuple[int, int]]) -> None:
        """Let the broker handle the oldest request."""
        data = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
        response = ProduceResponse(
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=partition.topic,
                    partition_responses=[
                        data(
                            index=partition.partition,
                            error_code=code,
                            base_offset=base,
                            log_append_time_ms=-1,
                            log_start_offset=0,
                            record_errors=[],
                            error_message=None,
                        )
                    ],
                )
                for partition, content in self.requests.popleft().items()
                for code, base in [handler(partition, content)]
            ],
            throttle_time_ms=self.throttle_ms,
        )
        response.API_VERSION = wire.PRODUCE_VERSION
        response.with_header(correlation_id=1)
        self.answers.append(memoryview(bytearray(response.encode(header=True))))

    def throttle(self, throttle_ms: int) -> None:
        Connection.throttle(cast(Connection, self), throttle_ms)

    def check_silence(self, now: float) -> None:
        Connection.check_silence(cast(Connection, self), now)

    def receive(self) -> memoryview | None:
        return self.answers.popleft() if self.answers else None

    def close(self) -> None:
        self.closed = True


@dataclass
class Piece:
    content: memoryview
    number: int


class Writer:
    """A stream with one record a batch, and what it was told."""

    def __init__(
        self, partition: TopicPartition = ORDERS, *, pipelined: bool = True, merge: Merge | None = None
    ) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        self.refusals: list[tuple[int, str]] = []
        self.stream = Stream(
            partition,
            lambda piece, base, _: self.acknowledged.append((cast(Piece, piece).number, base)),
            lambda code, message: self.refusals.append((code, message)),
            pipelined=pipelined,
            merge=merge,
        )
        self.next = 0

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            content = batch.encode([record(self.next)], 0, PRODUCER, self.next)
            self.stream.put(Piece(content, self.next))
            self.next += 1


def connected(*writers: Writer) -> tuple[Sender, Wire]:
    line = Wire()
    sender = Sender(ClusterLinks("west", {}), cast(Connection, line))
    for writer in writers:
        sender.add(writer.stream)
    return sender, line


def rested() -> float:
    """A time at which no stream rests any more."""
    return time.monotonic() + 10


def refusing(code: int) -> Callable[[TopicPartition, bytes], tuple[int, int]]:
    return lambda _partition, _content: (code, -1)


def accepting(broker: Broker) -> Callable[[TopicPartition, bytes], tuple[int, int]]:
    return lambda _partition, content: broker.append(content)


faults = st.sampled_from(["ok", "ok", "ok", "refused", "appended, then timed out", "connection lost"])


@given(st.integers(1, 12), st.lists(faults, max_size=30), st.data())
def test_every_batch_is_in_the_log_once_and_in_order(count: int, outcomes: list[str], data: st.DataObject) -> None:
    """Refusals before and after the append, and connections lost with any number of requests handled."""
    broker, writer = Broker(), Writer()
    writer.put(count)
    sender, line = connected(writer)
    coming = deque(outcomes)
    while not writer.stream.is_idle:
        sender.send(rested())
        assert line.requests
        match coming.popleft() if coming else "ok":
            case "refused":
                line.handle(refusing(data.draw(st.sampled_from([TOO_FEW_REPLICAS, NOT_LEADER, -1]))))
            case "appended, then timed out":

                def timed_out(_: TopicPartition, content: bytes) -> tuple[int, int]:
                    return broker.append(content)[0] or TIMED_OUT, -1

                line.handle(timed_out)
            case "connection lost":
                for _ in range(data.draw(st.integers(0, len(line.requests)), "requests handled all the same")):
                    line.handle(accepting(broker))
                sender.abandon("connection lost")
                assert not writer.stream.is_settled
                sender, line = connected(writer)
                continue
            case _:
                line.handle(accepting(broker))
        for stream in sender.receive() or ():
            sender.add(stream)
    assert broker.log == list(range(count))
    assert writer.acknowledged == [(number, number) for number in range(count)]
    assert writer.stream.is_settled
    assert writer.stream.trouble is None
    assert writer.stream.bytes == 0
    assert writer.refusals == []


def test_batches_are_pipelined_once_the_first_is_acknowledged() -> None:
    """A broker that has never heard of a producer takes any sequence: a refused first batch must have no follower."""
    broker, writer = Broker(), Writer()
    writer.put(20)
    sender, line = connected(writer)
    sender.send(rested())
    assert len(line.requests) == 1
    line.handle(refusing(TOO_FEW_REPLICAS))
    assert sender.receive() == [writer.stream]
    sender.add(writer.stream)
    sender.send(rested())
    assert len(line.requests) == 1
    line.handle(accepting(broker))
    sender.receive()
    sender.send(rested())
    assert len(line.requests) == REQUESTS_IN_FLIGHT


def test_after_a_failure_one_batch_goes_out_alone_until_it_is_acknowledged() -> None:
    """The broker may have forgotten the producer since: what came behind a first batch that is refused would be taken."""
    broker, writer = Broker(), Writer()
    writer.put(20)
    sender, line = connected(writer)
    sender.send(rested())
    line.handle(accepting(broker))
    sender.receive()
    sender.send(rested())
    assert len(line.requests) == REQUESTS_IN_FLIGHT
    sender.abandon("gone")
    sender, line = connected(writer)
    sender.send(rested())
    assert len(line.requests) == 1
    line.handle(refusing(TOO_FEW_REPLICAS))
    for stream in sender.receive() or ():
        sender.add(stream)
    sender.send(rested())
    assert len(line.requests) == 1
    line.handle(accepting(broker))
    sender.receive()
    sender.send(rested())
    assert len(line.requests) == REQUESTS_IN_FLIGHT


def in_flight_lost(count: int) -> Writer:
    """A writer whose first ``count`` batches of ten went out and whose connection broke."""
    writer = Writer()
    writer.put()
    writer.stream.take()
    writer.stream.answered(0, 0, "")
    writer.put(9)
    for _ in range(count):
        assert writer.stream.can_send(math.inf)
        writer.stream.take()
    writer.stream.lost("gone")
    return writer


def taken(writer: Writer) -> int:
    return cast(Piece, writer.stream.take()).number


def test_what_may_be_in_the_log_is_not_settled_before_each_batch_of_it_is_answered() -> None:
    """One that times out when it is sent again leaves those behind it as unsure as they were."""
    writer = in_flight_lost(3)
    assert taken(writer) == 1
    writer.stream.answered(TIMED_OUT, -1, "")
    assert not writer.stream.is_settled
    for number in (1, 2, 3):
        assert not writer.stream.is_settled
        assert taken(writer) == number
        writer.stream.answered(0, number, "")
    assert writer.stream.is_settled


@pytest.mark.parametrize("again", [0, 1, 2])
def test_winding_down_drops_what_was_never_sent_and_nothing_that_may_be_in_the_log(again: int) -> None:
    """Also while some of that is in flight once more, or acknowledged by now."""
    writer = in_flight_lost(3)
    numbers = [taken(writer) for _ in range(min(again, 1))]
    if again == 2:
        writer.stream.answered(0, 1, "")
    writer.stream.wind_down()
    if again == 1:
        writer.stream.answered(0, 1, "")
    while writer.stream.can_send(math.inf):
        numbers.append(taken(writer))
        writer.stream.answered(0, numbers[-1], "")
    assert numbers == [1, 2, 3]
    assert writer.stream.is_settled
    assert writer.stream.bytes == 0


def test_what_is_given_up_is_not_sent_again_whatever_the_last_answer_says() -> None:
    writer = in_flight_lost(2)
    taken(writer)
    writer.stream.give_up()
    writer.stream.answered(TIMED_OUT, -1, "")
    assert not writer.stream.has_unsent
    assert writer.stream.is_quiet
    assert not writer.stream.is_settled


def test_a_broker_that_was_heard_of_since_is_not_given_up() -> None:
    """It answers one request of a connection after another; the oldest waits for those of others, too."""
    writer = Writer()
    writer.put()
    sender, line = connected(writer)
    sender.send(rested())
    line.received_at = rested() + ANSWER_SECONDS - 1
    sender.send(rested() + ANSWER_SECONDS + 1)
    assert not line.closed


def test_a_side_topic_has_one_batch_in_flight() -> None:
    broker, writer = Broker(), Writer(pipelined=False)
    writer.put(3)
    sender, line = connected(writer)
    for _ in range(3):
        sender.send(rested())
        assert len(line.requests) == 1
        line.handle(accepting(broker))
        sender.receive()
    assert writer.stream.is_idle


def test_a_refusal_for_good_closes_the_stream_and_is_told_once() -> None:
    broker, writer = Broker(), Writer()
    writer.put(8)
    sender, line = connected(writer)
    sender.send(rested())
    line.handle(accepting(broker))
    sender.receive()
    sender.send(rested())
    line.handle(refusing(TOO_LARGE))
    while line.requests:
        line.handle(accepting(broker))
    while sender.receive() is not None:
        pass
    assert writer.refusals == [(TOO_LARGE, "")]
    assert writer.acknowledged == [(0, 0)]
    assert broker.log == [0]
    assert writer.stream.closed
    assert writer.stream.is_over
    # Certain: what stood behind it was out of order.
    assert writer.stream.is_settled
    assert not writer.stream.is_idle
    sender.send(rested())
    assert not line.requests


def test_a_refusal_for_good_after_a_lost_connection_leaves_it_open_what_is_in_the_log() -> None:
    writer = Writer()
    writer.put()
    sender, line = connected(writer)
    sender.send(rested())
    sender.abandon("gone")
    sender, line = connected(writer)
    sender.send(rested())
    line.handle(refusing(OUT_OF_ORDER))
    sender.receive()
    assert writer.refusals == [(OUT_OF_ORDER, "")]
    assert writer.stream.is_over
    assert not writer.stream.is_settled


@pytest.mark.parametrize("code", [TOO_FEW_REPLICAS, DAMAGED, DENIED])
def test_what_a_broker_refuses_before_appending_it_is_certain_and_dropped_at_the_end(code: int) -> None:
    writer = Writer()
    writer.put(3)
    sender, line = connected(writer)
    sender.send(rested())
    line.handle(refusing(code))
    sender.receive()
    assert writer.stream.is_settled
    writer.stream.wind_down()
    assert writer.stream.is_quiet
    assert writer.stream.is_settled
    assert writer.stream.bytes == 0


def test_what_is_refused_before_appending_while_it_winds_down_is_not_sent_again() -> None:
    """The batches behind it are out of order then: they are not in the log either."""
    broker, writer = Broker(), Writer()
    writer.put(4)
    sender, line = connected(writer)
    sender.send(rested())
    line.handle(accepting(broker))
    sender.receive()
    sender.send(rested())
    writer.stream.wind_down()
    line.handle(refusing(TOO_FEW_REPLICAS))
    while line.requests:
        line.handle(accepting(broker))
    while sender.receive() is not None:
        pass
    assert writer.stream.is_quiet
    assert writer.stream.is_settled
    assert broker.log == [0]


@pytest.mark.parametrize("code", [NOT_LEADER, TIMED_OUT, 20, 56, -1])
def test_what_a_broker_may_have_appended_before_it_refused_it_is_not_certain(code: int) -> None:
    writer = Writer()
    writer.put(2)
    sender, line = connected(writer)
    sender.send(rested())
    line.handle(refusing(code))
    sender.receive()
    assert not writer.stream.is_settled
    writer.stream.wind_down()
    assert not writer.stream.is_quiet


def test_a_refusal_before_appending_says_nothing_of_an_earlier_time_that_the_batch_was_sent() -> None:
    writer = Writer()
    writer.put()
    for code in (TIMED_OUT, TOO_FEW_REPLICAS):
        sender, line = connected(writer)
        sender.send(rested())
        line.handle(refusing(code))
        sender.receive()
    assert not writer.stream.is_settled


def test_what_gets_nowhere_is_stuck_after_a_while_and_a_line_that_moves_is_waited_for() -> None:
    writer = Writer()
    writer.put()
    sender, line = connected(writer)
    sender.send(rested())
    now = time.monotonic()
    line.wrote_at = now + 60.0
    assert not writer.stream.is_stuck(now + 60.0)
    line.wrote_at = now
    assert not writer.stream.is_stuck(now + 1.0)
    assert writer.stream.is_stuck(now + 60.0)
    line.handle(refusing(TIMED_OUT))
    sender.receive()
    line.wrote_at = now + 60.0
    assert writer.stream.is_stuck(now + 60.0)


def test_a_refusal_for_now_is_visible_until_the_batch_is_acknowledged() -> None:
    broker, writer = Broker(), Writer()
    writer.put()
    sender, line = connected(writer)
    sender.send(rested())
    line.handle(refusing(TOO_FEW_REPLICAS))
    assert sender.receive() == [writer.stream]
    assert writer.stream.trouble == "the target answers NotEnoughReplicas"
    assert writer.stream not in sender.streams
    assert not writer.stream.can_send(time.monotonic())
    sender.add(writer.stream)
    sender.send(rested())
    line.handle(accepting(broker))
    sender.receive()
    assert writer.stream.trouble is None


def test_partitions_share_requests_and_one_that_is_refused_does_not_hold_up_another() -> None:
    brokers = {TopicPartition("orders", number): Broker() for number in range(20)}
    writers = [Writer(partition) for partition in brokers]
    for writer in writers:
        writer.put(2)
    sender, line = connected(*writers)
    bad = writers[3].stream.partition

    def handler(partition: TopicPartition, content: bytes) -> tuple[int, int]:
        return (TOO_LARGE, -1) if partition == bad else brokers[partition].append(content)

    while not all(writer.stream.is_over for writer in writers):
        sender.send(rested())
        assert all(len(request) <= PARTITIONS_A_REQUEST for request in line.requests)
        line.handle(handler)
        sender.receive()
    assert [len(writer.acknowledged) for writer in writers] == [
        2 if writer is not writers[3] else 0 for writer in writers
    ]


def test_two_streams_to_one_partition_never_meet_in_a_request() -> None:
    """Flows that fan in: an answer could not tell them apart."""
    first, second = Writer(), Writer()
    first.put()
    second.put()
    sender, line = connected(first, second)
    sender.send(rested())
    assert [list(request) for request in line.requests] == [[ORDERS], [ORDERS]]


def test_a_broker_that_says_nothing_for_too_long_is_given_up() -> None:
    writer = Writer()
    writer.put()
    sender, _ = connected(writer)
    sender.send(rested())
    with pytest.raises(ConnectionFailed, match="no answer"):
        sender.send(rested() + ANSWER_SECONDS + 1)


def test_a_target_that_throttles_is_left_alone_for_so_long() -> None:
    broker, writer = Broker(), Writer()
    writer.put(3)
    sender, line = connected(writer)
    sender.send(rested())
    line.throttle_ms = 60_000
    line.handle(accepting(broker))
    sender.receive()
    assert line.throttling.is_throttled
    sender.send(time.monotonic() + 50)
    assert not line.requests
    sender.send(time.monotonic() + 61)
    assert len(line.requests) == 1
    line.throttle_ms = 0
    line.handle(accepting(broker))
    sender.receive()
    assert not line.throttling.is_throttled


def test_a_target_that_asks_for_hours_of_silence_is_tried_again_over_another_connection_after_a_minute() -> None:
    broker, writer = Broker(), Writer()
    writer.put(3)
    sender, line = connected(writer)
    sender.send(rested())
    line.throttle_ms = 3 * 3_600_000
    line.handle(accepting(broker))
    sender.receive()
    sender.send(time.monotonic() + 59)
    with pytest.raises(ConnectionFailed, match=r"throttled for 2 h 58 min more; tried again"):
        sender.send(time.monotonic() + 61)


class Joining:
    """Joins anything up to what the line asks for; a piece's number is the first one's."""

    def __init__(self, *, holds_back: bool = False, is_readable: bool = True) -> None:
        self.asked: list[int] = []
        self._holds_back = holds_back
        self._is_readable = is_readable

    def follows(self, before: Any, following: Any) -> bool:
        return True

    def fits(self, last: Any, size: int, following: Any, most_bytes: int) -> bool:
        del last
        return size + len(following.content) <= most_bytes

    def merged(self, pieces: Sequence[Any]) -> Any:
        if not self._is_readable:
            return None
        content = joined([piece.content for piece in pieces], PRODUCER, pieces[0].number)
        return Piece(content, pieces[0].number)

    def taken_apart(self, piece: Any) -> Sequence[Any]:
        return (piece,)

    def sets_aside(self, piece: Any, message: str) -> bool:
        return self._holds_back


def test_batches_that_cannot_be_joined_go_one_by_one_in_their_order() -> None:
    writer = Writer(merge=Joining(is_readable=False))
    writer.put(4)
    numbers = []
    while writer.stream.can_send(math.inf):
        piece = writer.stream.take(most_bytes=REQUEST_BYTES)
        numbers.append(cast(Piece, piece).number)
        writer.stream.answered(0, numbers[-1], "")
    assert numbers == [0, 1, 2, 3]


def test_a_batch_that_is_held_back_is_the_one_refused_and_those_behind_it_wait() -> None:
    """Sent behind it, they were refused for its sake: none of them is in the log."""
    writer = Writer(merge=Joining(holds_back=True))
    writer.put()
    taken(writer)
    writer.stream.answered(0, 0, "")
    writer.put(3)
    for _ in range(3):
        taken(writer)
    writer.stream.answered(TOO_LARGE, -1, "")
    for _ in range(2):
        writer.stream.answered(OUT_OF_ORDER, -1, "")
    assert (writer.stream.is_idle, writer.stream.is_quiet, writer.stream.is_over) == (False, True, False)
    assert not writer.stream.can_send(math.inf)
    assert writer.stream.trouble == "the target answers MessageSizeTooLarge"
    assert [cast(Piece, piece).number for piece in writer.stream.release()] == [2, 3]
    assert writer.stream.trouble is None
    assert taken(writer) == 2


def test_a_batch_that_is_held_back_alone_is_not_done_with() -> None:
    writer = Writer(merge=Joining(holds_back=True))
    writer.put()
    taken(writer)
    writer.stream.answered(TOO_LARGE, -1, "")
    assert not writer.stream.is_idle
    assert not writer.stream.is_over
    writer.stream.release()
    assert writer.stream.is_idle
    assert writer.stream.bytes == 0


@pytest.mark.parametrize(("round_trip", "requests"), [(0.0005, REQUESTS_IN_FLIGHT), (0.08, 1)])
def test_on_a_long_line_what_is_queued_goes_as_one_batch(round_trip: float, requests: int) -> None:
    broker, writer = Broker(), Writer(merge=Joining())
    sender, line = connected(writer)
    writer.put()
    sender.send(rested())
    line.handle(accepting(broker))
    sender.receive()
    line.round_trip = round_trip
    writer.put(20)
    sender.send(rested())
    assert len(line.requests) == requests
    while not writer.stream.is_idle:
        line.handle(accepting(broker))
        sender.receive()
        sender.send(rested())
    assert broker.log == list(range(21))
    assert writer.stream.bytes == 0


def sized(writer: Writer, size: int) -> None:
    """Put a batch of about ``size`` bytes."""
    content = batch.encode([record(writer.next, b"value %d %s" % (writer.next, b"x" * size))], 0, PRODUCER, writer.next)
    writer.stream.put(Piece(content, writer.next))
    writer.next += 1


@given(st.lists(st.sampled_from([10, 200_000, 600_000, REQUEST_BYTES, 3 * REQUEST_BYTES]), min_size=1, max_size=12))
def test_a_request_is_no_larger_than_it_has_to_be_and_nobody_is_left_out(sizes: list[int]) -> None:
    """A megabyte of batches, or one batch alone that is larger."""
    writers = [Writer(TopicPartition("orders", number)) for number in range(len(sizes))]
    for writer, size in zip(writers, sizes, strict=True):
        sized(writer, size)
    brokers = {writer.stream.partition: Broker() for writer in writers}
    sender, line = connected(*writers)
    requests = 0
    while not all(writer.stream.is_idle for writer in writers):
        sender.send(rested())
        for request in line.requests:
            assert sum(map(len, request.values())) <= REQUEST_BYTES or len(request) == 1
        line.handle(lambda partition, content: brokers[partition].append(content))
        sender.receive()
        requests += 1
    assert requests <= len(sizes)


def test_a_batch_that_no_request_may_hold_is_never_sent() -> None:
    """The broker would hang up, again and again; and those before it are sent."""
    broker, writer = Broker(), Writer()
    sized(writer, 10)
    sized(writer, 300_000)
    line = Wire()
    sender = Sender(ClusterLinks("west", {}), cast(Connection, line), 200_000)
    sender.add(writer.stream)
    while not writer.stream.is_over:
        sender.send(rested())
        while line.requests:
            assert sum(map(len, line.requests[0].values())) < 200_000
            line.handle(accepting(broker))
            sender.receive()
    assert broker.log == [0]
    ((code, said),) = writer.refusals
    assert code == TOO_LARGE
    assert "socket.request.max.bytes" in said
    assert writer.stream.is_settled


def test_what_must_not_be_sent_is_refused_only_once_all_before_it_is_answered() -> None:
    """Behind something in flight its answer would be taken for that of the batch before it."""
    writer = Writer()
    writer.put(2)
    first = writer.stream.take()
    writer.stream.refuse_next("larger than a request may be")
    assert (writer.refusals, len(writer.stream.waiting)) == ([], 1)
    writer.stream.answered(0, 7, "")
    assert writer.acknowledged == [(cast(Piece, first).number, 7)]
    writer.stream.refuse_next("larger than a request may be")
    assert writer.refusals == [(TOO_LARGE, "larger than a request may be")]


def test_another_id_of_the_topic_is_asked_for_once_more_before_nothing_is_sent() -> None:
    """What a task knows of a topic may be older than the copy that was made anew."""
    refused: list[int] = []
    stream = Stream(TopicPartition("orders", 0), lambda *_: None, lambda code, _: refused.append(code), pipelined=True)
    assert stream.check_topic("any id"), "it is for any topic of that name"
    stream.topic_id = "now"
    assert [stream.check_topic(each) for each in ("former", "now", "former", "")] == [False, True, False, True]
    assert (stream.closed, refused) == (False, [])
    assert [stream.check_topic("another") for _ in range(2)] == [False, True]
    assert (stream.closed, refused) == (True, [3])
