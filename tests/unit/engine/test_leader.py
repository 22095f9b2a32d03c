"""An engine that gains and loses leadership: one control at a time, no writing when another may lead."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

from mirror.copier.epochs import Epochs
from mirror.copier.work import PartitionResult
from mirror.engine.election import Identity
from mirror.engine.hold import Held
from mirror.engine.leader import FlowLeader, digests
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.standing import FlowStanding
from mirror.engine.takeovers import Takeovers
from mirror.kafka.batch import Producer
from mirror.model.flow_state import FlowState, Position
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from tests.flows import flow_work
from tests.unit.control.builders import flow_settings


class Electing:
    """In the place of an election: leads in these terms, one a round; None: stands by."""

    def __init__(self, *terms: int | None) -> None:
        self.terms = list(terms)
        self.term: int | None = None
        self.was_settled = False
        self.differs_in: tuple[str, ...] = ()
        self.claim = None
        self.renewed_at = time.monotonic()
        self.released: list[bool] = []

    def round(self, _: object) -> bool:
        self.term = self.terms.pop(0)
        return self.term is not None

    def release(self, _: object, *, is_settled: bool) -> None:
        self.released.append(is_settled)
        self.term = None


def leading(*terms: int | None, **known: Any) -> tuple[FlowLeader, FlowStanding, Electing]:
    standing = FlowStanding(flow_settings())
    identity = Identity("engine", "host", 1, "place")
    leader = FlowLeader(standing.settings, standing, identity, timeout_seconds=6.0, **known)
    election = Electing(*terms)
    leader._election = cast(Any, election)
    return leader, standing, election


def a_round(leader: FlowLeader) -> None:
    leader._round(cast(Any, None))


def test_leadership_lost_and_regained_within_a_round_ends_the_control_of_before() -> None:
    leader, standing, _ = leading(1, 3, None)
    a_round(leader)
    before = leader.await_tenure(threading.Event())
    a_round(leader)
    assert standing.term == 3
    assert before is not None
    assert before.is_set()
    after = leader.await_tenure(threading.Event())
    assert after is not None
    assert not after.is_set()
    a_round(leader)
    assert standing.term is None
    assert after.is_set()


def test_an_engine_whose_spark_does_not_answer_gives_the_flow_to_another() -> None:
    stuck: list[bool] = []
    leader, standing, election = leading(1, 2, is_stuck=lambda: bool(stuck))
    a_round(leader)
    assert standing.term == 1
    stuck.append(True)
    a_round(leader)
    assert (standing.term, election.released) == (None, [False])
    a_round(leader)
    assert election.released == [False], "it stands by as long as that lasts"
    stuck.clear()
    a_round(leader)
    assert standing.term == 2


def test_where_late_requests_are_not_refused_writing_ends_before_another_engine_may_lead() -> None:
    """Also that of an epoch that is planned and does not run yet."""
    epochs = Epochs("local[1]", 1)
    leader, standing, election = leading(1, 1, lost=epochs.abort)
    a_round(leader)
    standing.is_known, standing.weak_fence = True, "no rights"
    a_round(leader_with(leader, election, 1))
    assert standing.is_known
    election.renewed_at = time.monotonic() - 4
    a_round(leader_with(leader, election, 1))
    assert not standing.is_known
    hung_up: list[None] = []
    epochs._hang(cast(Any, SimpleNamespace(ring=lambda: None, hang_up=lambda: hung_up.append(None))))
    assert hung_up == [None]
    epochs._hang(None)
    epochs._hang(cast(Any, SimpleNamespace(ring=lambda: None, hang_up=lambda: hung_up.append(None))))
    assert hung_up == [None], "the next one runs"


def leader_with(leader: FlowLeader, election: Electing, *terms: int) -> FlowLeader:
    election.terms = list(terms)
    return leader


def test_a_takeover_from_java_waits_until_nothing_of_the_engine_before_can_arrive() -> None:
    source, copy = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
    standing = FlowStanding(flow_settings())
    standing.partitions = ((source, copy, "", ""),)
    standing.lead(2, was_settled=False)
    known = FlowState(positions={source: Position(10, 10, 0, True, target="east.orders")})
    standing.take_state(known, Mm2Traces(certain={source: Mm2Trace(20)}), Held(producer=Producer(7, 4)))
    flow = standing.settings.flow
    takeovers = Takeovers(cast(Any, None), {flow: standing}, lambda _: flow_work())
    assert takeovers._plan() is None
    standing.take_fenced({copy}, {}, known)
    assert takeovers._plan() is not None


def test_files_with_the_same_settings_have_the_same_digests_and_values_do_not_show() -> None:
    assert digests(flow_settings("topics = a")) == digests(flow_settings("topics = a"))
    first, second = digests(flow_settings("topics = secret-name")), digests(flow_settings("topics = other"))
    assert {key for key in first if first[key] != second[key]} == {"topics"}
    assert "secret-name" not in repr(first)


def test_a_report_says_starting_until_an_epoch_has_reported_or_something_is_wrong() -> None:
    leader, standing, _ = leading(1)
    a_round(leader)
    assert leader._report().state == "STARTING"
    standing.take_trouble(TopicPartition("orders", 0), "no leader")
    assert leader._report().state == "DEGRADED"
    standing.take_result(PartitionResult(standing.settings.flow, TopicPartition("orders", 0), None))
    assert leader._report().state == "RUNNING"
