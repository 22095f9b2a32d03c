"""Whatever is wanted and left, lost and refused: the broker's list is what is wanted, and requests say only changes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.fetch_session import FetchSession, SessionStep
from mirror.kafka.wire import FetchFrom
from mirror.model.partition import TopicPartition

partitions = st.builds(TopicPartition, st.just("orders"), st.integers(0, 5))
steps = st.one_of(
    st.tuples(st.just("want"), partitions, st.builds(FetchFrom, st.integers(0, 3), st.sampled_from([10, 20]))),
    st.tuples(st.just("leave"), partitions),
    st.tuples(st.just("leave all")),
    st.tuples(st.just("request"), st.sampled_from(["session", "no room", "forgotten"])),
)


class Broker:
    """One session, by the rules of KIP-227."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.list: dict[TopicPartition, FetchFrom] = {}

    def forget(self) -> None:
        self.session_id = 0

    def answer(self, step: SessionStep, *, has_room: bool) -> int | None:
        """Return the session id of the answer, None for an error."""
        if step.epoch == 0:
            assert not step.forgotten
            self.list = dict(step.changed)
            self.session_id = self.session_id + 1 if has_room else 0
            self.epoch = 1
            return self.session_id
        if step.session_id != self.session_id or step.epoch != self.epoch:
            return None
        assert set(step.forgotten) <= set(self.list)
        for partition in step.forgotten:
            del self.list[partition]
        for partition, start in step.changed.items():
            assert self.list.get(partition) != start
        self.list.update(step.changed)
        self.epoch += 1
        return self.session_id


@given(st.lists(steps, max_size=40))
def test_the_broker_reads_on_where_it_is_told_to(script: list[tuple[Any, ...]]) -> None:
    session, broker = FetchSession(), Broker()
    wanted: dict[TopicPartition, FetchFrom] = {}
    for step in script:
        match step:
            case ("want", partition, start):
                session.want(partition, start)
                wanted[partition] = start
            case ("leave", partition):
                session.leave(partition)
                wanted.pop(partition, None)
            case ("leave all",):
                session.leave_all()
                wanted.clear()
            case ("request", outcome):
                if outcome == "forgotten":
                    broker.forget()
                answered = broker.answer(session.step(), has_room=outcome == "session")
                if answered is None:
                    session.begin_anew()
                else:
                    session.answered(answered)
                    assert broker.list == wanted
        assert session.is_empty == (not wanted)
    broker.answer(session.step(), has_room=True)


def test_an_idle_request_says_nothing() -> None:
    session, broker = FetchSession(), Broker()
    for number in range(100):
        session.want(TopicPartition("orders", number), FetchFrom(7))
    session.answered(broker.answer(session.step(), has_room=True) or 0)
    # The next epoch: everything is placed anew, where it was.
    session.leave_all()
    for number in range(99):
        session.want(TopicPartition("orders", number), FetchFrom(7))
    step = session.step()
    assert (step.session_id, step.epoch) == (1, 1)
    assert not step.changed
    assert step.forgotten == [TopicPartition("orders", 99)]
    session.answered(broker.answer(step, has_room=True) or 0)
    assert session.step() == (1, 2, {}, [])


def test_who_got_something_is_named_last_in_a_whole_list() -> None:
    session = FetchSession()
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    session.want(first, FetchFrom(0))
    session.want(second, FetchFrom(0))
    session.want(first, FetchFrom(5))
    assert list(session.step().changed) == [second, first]


LAST_EPOCH = 2**31 - 1
ORDERS = TopicPartition("orders", 0)


def test_the_epoch_wraps_to_one_for_zero_begins_a_session_anew() -> None:
    """KIP-227."""
    session = FetchSession()
    session.want(ORDERS, FetchFrom(0, 10))
    session.step()
    session.answered(9)
    session._epoch = LAST_EPOCH  # nobody waits for two thousand million requests
    assert session.step().epoch == LAST_EPOCH
    session.answered(9)
    assert session.step() == SessionStep(9, 1, {}, [])


def test_a_broker_without_room_is_told_everything_each_time() -> None:
    session = FetchSession()
    session.want(ORDERS, FetchFrom(0, 10))
    for _ in range(3):
        assert session.step() == SessionStep(0, 0, {ORDERS: FetchFrom(0, 10)}, [])
        session.answered(0)


def test_what_was_asked_for_before_a_session_began_anew_is_not_taken_for_asked() -> None:
    session = FetchSession()
    session.want(ORDERS, FetchFrom(0, 10))
    session.step()
    session.answered(9)
    assert session.asked_bytes(ORDERS) == 10
    session.leave(ORDERS)
    session.begin_anew()
    assert session.asked_bytes(ORDERS) == 0
    assert session.step() == SessionStep(9, 0, {}, [])
