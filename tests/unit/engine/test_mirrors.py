"""Whose copies a flow leaves out, by its file and by what it finds on its source (WANT-16, WANT-17)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from mirror.config.settings import FlowSettings
from mirror.engine import mirrors
from mirror.engine.mirrors import Mirrors
from mirror.kafka.problems import BrokerRefused
from mirror.model.writers import KnownWriters
from tests.unit.config.files import flows_of

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
BACK = "mm2-state.B.internal"
OURS, THEIRS = KnownWriters(frozenset({6}), 1, "id of B"), KnownWriters(frozenset({7}), 1, "id of C")


class TopicAuthorizationFailed(Exception):
    errno = 29


class OnSource:
    """State topics on the source; some may not be read."""

    def __init__(
        self, found: Mapping[str, KnownWriters], denied: Collection[str] = (), copied: Collection[str] = ("orders",)
    ) -> None:
        self.known = dict(found)
        self.denied = denied
        self._copied = copied

    def copied(self, _: str) -> Collection[str]:
        return self._copied

    def catch_up(self, topics: Collection[str]) -> dict[str, Exception]:
        return {
            topic: BrokerRefused(f"A: topic {topic}", TopicAuthorizationFailed)
            for topic in topics
            if topic in self.denied
        }


def looked(
    flows: tuple[FlowSettings, ...], on_source: OnSource, monkeypatch: pytest.MonkeyPatch, *topics: str
) -> tuple[Mirrors, tuple[str, ...]]:
    """What the first flow makes of a source with these topics."""
    monkeypatch.setattr(mirrors, "WriterLogs", lambda *_: on_source)
    judged = Mirrors(flows[0], flows, "id of B")
    return judged, judged.look({*on_source.known, "orders", *topics})


def test_names_that_say_where_records_came_from_need_no_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, problems = looked(flows_of("A->B", "B->A"), OnSource({}, denied=[BACK]), monkeypatch)
    assert (judged.left_out("orders"), judged.is_concerned, problems) == ((), False, ())


def test_what_came_from_the_target_is_left_out_whoever_runs_the_flow_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before it has ever run, and when no file here speaks of it."""
    for flows in (flows_of("A->B", more=IDENTITY), flows_of("A->B", "B->A", more=IDENTITY)):
        judged, problems = looked(flows, OnSource({}), monkeypatch)
        assert (judged.left_out("orders"), problems) == ((BACK,), ())
        assert not judged.loop_problem("orders")


def test_a_copy_with_the_source_s_offsets_leaves_nothing_out_unless_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Made anew after a failover, it would lack all that had been mirrored before."""
    same = f"{IDENTITY}\nA->B.mirror.offsets = same\nmirror.offsets.topics = orders"
    judged, _ = looked(flows_of("A->B", "B->A", more=same), OnSource({}), monkeypatch)
    assert (judged.left_out("orders"), judged.left_out("bills")) == ((), (BACK,))
    skips = flows_of("A->B", "B->A", more=f"{same}\nA->B.mirror.mirrored.records = skip")
    judged, _ = looked(skips, OnSource({}), monkeypatch)
    assert judged.left_out("orders") == (BACK,)


def test_a_flow_back_under_another_alias_is_known_by_the_cluster_id(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, (problem,) = looked(flows_of("A->B", more=IDENTITY), OnSource({"mm2-state.dr.internal": OURS}), monkeypatch)
    assert judged.left_out("orders") == (BACK, "mm2-state.dr.internal")
    assert problem.startswith("other files call the cluster B dr: ")


def test_however_many_names_other_files_have_for_the_target_that_is_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was a reason, and why a partition waited was not among those that are shown."""
    found = {f"mm2-state.dr{number}.internal": OURS for number in range(9)}
    _, (problem,) = looked(flows_of("A->B", more=IDENTITY), OnSource(found), monkeypatch)
    assert problem.startswith("other files call the cluster B dr0, dr1, dr2, dr3, dr4 and 4 more: ")


def test_copies_of_flows_that_no_file_names_go_on_and_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    state = "mm2-state.C.internal"
    judged, (problem,) = looked(flows_of("A->B", more=IDENTITY), OnSource({state: THEIRS}), monkeypatch)
    assert judged.left_out("orders") == (BACK,)
    assert "A->B.mirror.mirrored.records = forward, or skip" in problem
    skips = flows_of("A->B", more=f"{IDENTITY}\nmirror.mirrored.records = skip")
    judged, problems = looked(skips, OnSource({state: THEIRS}), monkeypatch)
    assert (judged.left_out("orders"), problems) == ((BACK, state), ())
    forwards = flows_of("A->B", more=f"{IDENTITY}\nA->B.mirror.mirrored.records = forward")
    judged, problems = looked(forwards, OnSource({state: THEIRS}), monkeypatch)
    assert (judged.left_out("orders"), problems) == ((BACK,), ())


def test_what_others_mirror_into_topics_that_do_not_go_on_concerns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = flows_of("A->B", more=f"{IDENTITY}\nA->B.topics = orders, bills")
    _, problems = looked(
        flows, OnSource({"mm2-state.C.internal": THEIRS}, copied=["C.orders"]), monkeypatch, "C.orders"
    )
    assert problems == ()
    _, problems = looked(flows, OnSource({"mm2-state.C.internal": THEIRS}, copied=["C.orders", "bills"]), monkeypatch)
    assert len(problems) == 1


def test_a_state_topic_that_may_not_be_read_stops_nothing_unless_the_file_has_the_flow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One-way flows with the rights that MirrorMaker needs go on; of a flow of the file everything must be known."""
    judged, (problem,) = looked(flows_of("A->B", more=IDENTITY), OnSource({}, denied=[BACK]), monkeypatch)
    assert judged.left_out("orders") == ()
    assert "grant READ on mm2-state.B.internal" in problem
    judged, problems = looked(flows_of("A->B", "B->A", more=IDENTITY), OnSource({}, denied=[BACK]), monkeypatch)
    assert judged.left_out("orders") == (BACK,)
    assert len(problems) == 1


def test_a_topic_that_only_some_of_a_ring_copy_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which topics match is known only once they are there."""
    filters = "A->B.topics = .*s\nB->C.topics = o.*\nC->A.topics = .*der.*"
    judged, _ = looked(flows_of("A->B", "B->C", "C->A", more=f"{IDENTITY}\n{filters}"), OnSource({}), monkeypatch)
    assert "orders is not copied" in str(judged.loop_problem("orders"))
    assert judged.loop_problem("bills") is None


def test_whether_applications_may_write_to_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a way back, what nobody mirrored is the target's own; otherwise somebody does what he should not."""
    judged, _ = looked(flows_of("A->B", "B->A", more=IDENTITY), OnSource({}), monkeypatch)
    assert judged.has_way_back("orders")
    judged, _ = looked(flows_of("A->B", more=IDENTITY), OnSource({}), monkeypatch)
    assert not judged.has_way_back("orders")
    judged, _ = looked(flows_of("A->B", more=IDENTITY), OnSource({BACK: OURS}), monkeypatch)
    assert judged.has_way_back("orders")


def test_that_the_target_was_mirrored_back_is_known_by_topic_whatever_it_was_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for topic in (BACK, "mm2-state.dr.internal"):
        judged, _ = looked(flows_of("A->B", more=IDENTITY), OnSource({topic: OURS}), monkeypatch)
        assert judged.was_mirrored_back("orders")
        assert not judged.was_mirrored_back("bills")
    judged, _ = looked(flows_of("A->B", more=IDENTITY), OnSource({}), monkeypatch)
    assert not judged.was_mirrored_back("orders")
