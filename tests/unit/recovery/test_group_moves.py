"""Moving groups: what was not moved is named with its reason, and who should have been is a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mirror.config.settings import ClusterSettings
from mirror.control.group_view import GroupView, TranslatedPosition
from mirror.control.groups import GroupAction, TargetGroups
from mirror.kafka.answers import Found, ItemResult
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.state_values import placement_record
from mirror.model.translation import Bounded, Exact, NothingRead, NotMirrored, Same, TooOld, Translation
from mirror.recovery import group_moves
from mirror.recovery.group_moves import (
    GroupMoves,
    Unmoved,
    apply_moves,
    plan_moves,
    untranslated,
)
from tests.unit.config.files import flows_of

FLOW = flows_of("A->B")[0]
COPY = TopicPartition("A.orders", 3)


class Standby:
    """The target: the groups whose positions it was given are noted."""

    def __init__(self, written: list[str]) -> None:
        self._written = written

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write_positions_of_groups(
        self, wanted: Mapping[str, Collection[TopicPartition]], _: object
    ) -> dict[str, list[ItemResult]]:
        self._written.extend(wanted)
        return {group: [ItemResult(str(each)) for each in positions] for group, positions in wanted.items()}


def at(position: int, translation: Translation, group: str = "billing") -> TranslatedPosition:
    return TranslatedPosition(group, *COPY, position, translation)


def seen(*positions: TranslatedPosition, source_problem: str | None = None) -> GroupView:
    return GroupView(positions, source_problem)


def test_a_group_of_which_nothing_is_known_is_refused_with_the_reason() -> None:
    for view, reason in (
        (seen(), "it has no position on A, or does not pass the filters of A->B"),
        (seen(source_problem="gone"), "no checkpoint on B says where it stands on A"),
    ):
        assert untranslated(view, ["billing"], FLOW) == ([Unmoved("billing", None, reason)], [])


def test_a_group_and_a_partition_that_the_source_does_not_tell_are_refused() -> None:
    told = Found({TopicPartition("orders", 0): GroupPosition(5)}, {TopicPartition("orders", 3): "unstable"})
    read = Found({"stock": told}, {"billing": "not authorized"})
    refused, left = untranslated(GroupView((), None, (), read), ["billing", "stock"], FLOW)
    assert list(map(str, refused)) == ["group billing: not authorized", "group stock, orders-3: unstable"]
    assert left == []


def test_groups_whose_state_nobody_mirrors_are_named_and_refused_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = GroupView((), None, unmirrored={"queue": "share groups (KIP-932)", "sums": "streams groups (KIP-1071)"})
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: view)
    advice = "is not mirrored: decide where it begins on B, and set that there before its members start"
    queue, sums = (f"group {name}: the state of {kind} {advice}" for name, kind in view.unmirrored.items())
    every = plan_moves(FLOW, {}, pattern=".*")
    assert (list(map(str, every.left)), every.refused) == ([queue, sums], ())
    named = plan_moves(FLOW, {}, groups=["queue"])
    assert (list(map(str, named.left)), list(map(str, named.refused))) == ([sums], [queue])


@pytest.mark.parametrize("translation", [TooOld(7), NotMirrored()])
def test_a_position_that_leads_nowhere_is_refused(translation: Translation) -> None:
    (refused,), left = untranslated(seen(at(5, translation)), ["billing"], FLOW)
    assert (refused.group, refused.partition, left) == ("billing", COPY, [])
    assert refused.reason


@pytest.mark.parametrize("position", [at(5, NothingRead(5, 5)), at(0, NotMirrored())])
def test_who_has_read_nothing_is_left_where_it_is_and_named(position: TranslatedPosition) -> None:
    refused, (left,) = untranslated(seen(position), ["billing"], FLOW)
    assert (refused, left.group, left.partition) == ([], "billing", COPY)


def test_where_a_group_stands_that_has_read_nothing_is_told_and_it_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Home(Standby):
        def positions_of_groups(self, groups: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
            assert list(groups) == ["billing"]
            return Found({"billing": Found({COPY: GroupPosition(7)})})

        def offsets(self, partitions: Collection[TopicPartition], at: str) -> Found[TopicPartition, int]:
            return Found({each: {"earliest": 7}[at] for each in partitions})

    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: seen(at(5, NothingRead(5, 7))))
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Home([]))
    plan = plan_moves(FLOW, {"B": ClusterSettings("B", {})})
    (row,) = plan.rows()
    assert (row["before"], row["after"], row["exact"], row["action"]) == (7, 7, True, "keep")
    assert (plan.writes, plan.idle_starts) == ((), {COPY: 7})


@pytest.mark.parametrize(("bound", "after", "exact"), [(None, 7, True), (7, 7, True), (9, 7, True), (6, 6, False)])
def test_who_has_read_nothing_and_is_nowhere_on_the_target_any_more_is_put_where_it_was_and_not_behind_what_it_read(
    bound: int | None, after: int, monkeypatch: pytest.MonkeyPatch, *, exact: bool
) -> None:
    """Brokers forget the positions of empty groups after a week; without one a group may begin at the end.

    In a topic that was made anew, others may lie before where it was.
    """

    class Forgotten(Standby):
        def positions_of_groups(self, _: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
            return Found({"billing": Found({})}, {"stock": "not authorized"})

        def offsets(self, partitions: Collection[TopicPartition], _: str) -> Found[TopicPartition, int]:
            return Found({}, dict.fromkeys(partitions, "no leader"))

    target = TargetGroups(
        Found({"billing": GroupDescription("Empty", 0)}), Found({"billing": Found({})}), Found({COPY: 20})
    )
    positions = at(5, NothingRead(5, 7, bound)), at(5, NothingRead(5, 7), "stock")
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: seen(*positions))
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: target)
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Forgotten([]))
    plan = plan_moves(FLOW, {"B": ClusterSettings("B", {})})
    row, _ = plan.rows()
    assert (row["before"], row["after"], row["exact"], row["action"]) == (None, after, exact, "write")
    assert [each.group for each in plan.left] == ["stock"]
    assert list(map(str, plan.refused)) == ["group stock: not authorized"]


@pytest.mark.parametrize(("translation", "exact"), [(Exact(5), True), (Same(5), True), (Bounded(5, 2), False)])
def test_a_position_is_exact_that_leads_to_the_very_record_the_same_one_too(
    monkeypatch: pytest.MonkeyPatch, translation: Translation, *, exact: bool
) -> None:
    target = TargetGroups(
        Found({"billing": GroupDescription("Empty", 0)}), Found({"billing": Found({})}), Found({COPY: 20})
    )
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: seen(at(5, translation)))
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: target)
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Standby([]))
    (row,) = plan_moves(FLOW, {"B": ClusterSettings("B", {})}).rows()
    assert (row["after"], row["exact"]) == (5, exact)


def test_who_has_a_position_is_neither() -> None:
    assert untranslated(seen(at(5, Exact(5))), ["billing"], FLOW) == ([], [])


def test_ids_are_names_and_not_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """``a.b`` is not ``aXb``, and nothing of them may be an alternative of the whole."""
    asked: list[str] = []

    def view(*_: object, pattern: str, **__: object) -> GroupView:
        asked.append(pattern)
        return seen()

    monkeypatch.setattr(group_moves, "view_groups", view)
    plan = plan_moves(FLOW, {}, groups=["a.b", "c|d"])
    assert asked == [r"a\.b|c\|d"]
    assert [each.group for each in plan.refused] == ["a.b", "c|d"]


def test_a_group_in_use_is_refused_one_further_on_is_left_and_the_others_are_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idle, used = GroupDescription("Empty", 0), GroupDescription("Stable", 2)
    target = TargetGroups(
        Found({"audit": idle, "billing": used, "stock": idle, "late": idle}),
        Found({"audit": Found({}), "stock": Found({COPY: GroupPosition(9)}), "late": Found({})}),
        Found({COPY: 20}),
    )
    positions = [at(5, Exact(5), group) for group in ("audit", "billing", "stock")] + [at(30, Exact(30), "late")]
    written: list[str] = []

    class Writer:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def append(self, topic: str, *_: object) -> int:
            written.append(topic)
            return 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: seen(*positions))
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: target)
    monkeypatch.setattr(group_moves, "LogWriter", Writer)
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Standby(written))
    groups = ["audit", "billing", "stock", "late"]
    clusters = {"B": ClusterSettings("B", {})}
    moves = apply_moves(plan_moves(FLOW, clusters, groups=groups), clusters)
    assert written == ["mm2-state.A.internal", "audit", "mm2-state.A.internal"]
    assert [each.group for each in moves.refused] == ["billing", "late"]
    assert [each.group for each in moves.left] == ["stock"]
    assert (moves.written, moves.moved(groups)) == (1, ["audit", "stock"])


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_group_whose_copy_was_deleted_is_not_moved_and_one_whose_topic_is_gone_needs_nothing(
    monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """The journal said of the first that it goes on where it stopped."""
    target = TargetGroups(
        Found({"audit": GroupDescription("Empty", 0)}), Found({"audit": Found({COPY: GroupPosition(3)})}), Found({})
    )
    monkeypatch.setattr(
        group_moves, "view_groups", lambda *_, **__: seen(replace(at(5, Exact(5), "audit"), is_gone=is_gone))
    )
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: target)
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Standby([]))
    clusters = {"B": ClusterSettings("B", {})}

    moves = apply_moves(plan_moves(FLOW, clusters, groups=["audit"]), clusters)

    said = [each.reason for each in (moves.left if is_gone else moves.refused)]
    assert ["the target has no such partition" in each for each in said] == [True]
    assert moves.moved(["audit"]) == (["audit"] if is_gone else [])
    assert moves.facts(["audit"])["groups"] == (["audit"] if is_gone else [])


def test_a_journal_says_from_where_each_group_was_moved() -> None:
    moves = GroupMoves((at(5, Exact(7), "audit"), at(30, Bounded(20, 8), "late"), at(4, NotMirrored(), "stock")))

    assert moves.facts(["audit", "late", "stock"])["translated"] == [
        {"group": "audit", **COPY._asdict(), "upstream": 5},
        {"group": "late", **COPY._asdict(), "upstream": 22},
    ]


def test_a_journal_says_who_moved_and_who_did_not() -> None:
    moves = GroupMoves((), 3, (Unmoved("billing", COPY, "in use"),), (Unmoved("stock", COPY, "ahead"),))
    assert moves.facts(["billing", "stock"]) == {
        "groups": ["stock"],
        "positions": 3,
        "refused": ["group billing, A.orders-3: in use"],
        "left": ["group stock, A.orders-3: ahead"],
        "translated": [],
    }


def test_nothing_is_written_if_the_target_has_changed_since_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the plan said is what is applied, or it stops: one group that went on stops the others too."""
    idle = GroupDescription("Empty", 0)

    def holding(position: int) -> TargetGroups:
        return TargetGroups(
            Found({"audit": idle, "billing": idle}),
            Found({"audit": Found({}), "billing": Found({COPY: GroupPosition(position)})}),
            Found({COPY: 20}),
        )

    looks = iter([holding(1), holding(2), holding(1), replace(holding(1), ends=Found({COPY: 25}))])
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: seen(at(5, Exact(5)), at(5, Exact(5), "audit")))
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: next(looks))
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Standby([]))
    clusters = {"B": ClusterSettings("B", {})}
    plan = plan_moves(FLOW, clusters)
    assert [each.group for each in plan.writes] == ["audit", "billing"]
    moves = apply_moves(plan, clusters)
    assert [each.group for each in moves.refused] == ["billing", "audit"]
    assert "the group is behind, at 2" in moves.refused[0].reason
    assert moves.written == 0
    # A log that has grown changes nothing of what is written.
    assert not group_moves._drift(plan_moves(FLOW, clusters).decisions, plan_moves(FLOW, clusters).decisions)


@pytest.mark.parametrize(
    ("topic", "source_problem", "refused"),
    [
        pytest.param("returns", "gone", [], id="the target's own, and the source is gone"),
        pytest.param("A.orders", "gone", ["audit"], id="a copy"),
        pytest.param("returns", None, ["audit"], id="the originals, to which applications return"),
    ],
)
def test_a_group_at_work_on_the_target_in_a_topic_of_its_own_keeps_nobody_from_failing_over(
    topic: str, source_problem: str | None, refused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow back makes it known on the source; a failover of everything was refused for it."""
    active = TopicPartition(topic, 0)
    target = TargetGroups(
        Found({"audit": GroupDescription("Stable", 1), "a.b": GroupDescription("Empty", 0)}),
        Found({"a.b": Found({})}),
        Found({COPY: 20, active: 20}),
    )
    positions = TranslatedPosition("audit", *active, 5, Exact(5)), at(5, Exact(7), "a.b")
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: seen(*positions, source_problem=source_problem))
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: target)
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Standby([]))
    plan = plan_moves(FLOW, {"B": ClusterSettings("B", {})})
    assert [each.group for each in plan.refused] == refused
    assert [each.group for each in plan.left if "in use" in each.reason] == ([] if refused else ["audit"])
    assert plan.pattern_of_others == (r"a\.b" if refused else None)


RENAMED = (
    "A->B.transforms = r",
    "A->B.transforms.r.type = org.apache.kafka.connect.transforms.RegexRouter",
    r"A->B.transforms.r.regex = A\\.(.*)",
    "A->B.transforms.r.replacement = from-a-$1",
)
UNCHANGED = ("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",)


@pytest.mark.parametrize(
    ("more", "topic", "copies"),
    [
        pytest.param(RENAMED, "from-a-orders", {"from-a-orders"}, id="renamed by a transform"),
        pytest.param(RENAMED, "from-a-orders", (), id="renamed by a transform, and nothing is on record"),
        pytest.param(UNCHANGED, "orders", {"orders"}, id="under its own name"),
        pytest.param(UNCHANGED, "orders", (), id="under its own name, and nothing is on record"),
    ],
)
def test_a_group_at_work_in_a_copy_that_its_name_does_not_tell_is_refused_as_any_other(
    more: tuple[str, ...], topic: str, copies: Collection[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (settings,) = flows_of("A->B", more="\n".join(more))
    assert settings.copy_of("orders") == topic
    active = TopicPartition(topic, 0)
    target = TargetGroups(Found({"audit": GroupDescription("Stable", 2)}), Found({}), Found({active: 90}))
    view = replace(
        seen(TranslatedPosition("audit", *active, 40, Exact(50)), source_problem="gone"), copies=frozenset(copies)
    )
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: view)
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: target)
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Standby([]))
    assert [each.group for each in plan_moves(settings, {"B": ClusterSettings("B", {})}).refused] == ["audit"]


class Joined(Standby):
    """The target: members have come between the plan and the write."""

    def write_positions_of_groups(
        self, wanted: Mapping[str, Collection[TopicPartition]], _: object
    ) -> dict[str, list[ItemResult]]:
        return {group: [ItemResult(str(each), "UNKNOWN_MEMBER_ID") for each in of] for group, of in wanted.items()}


def test_where_a_group_was_put_behind_what_it_has_not_read_stays_on_record_if_a_move_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Read up to 40 on A, that is 50 on B, whose log began at 60: without the record the flow back takes 60 for read."""
    raised, state = Placement("audit", COPY, 40, 50, 60), FlowState()
    state.apply(*placement_record(raised))

    class Writer:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def append(self, _topic: str, _partition: int, records: list[Any]) -> int:
            for key, value, *_ in records:
                state.apply(key, value)
            return 0

        def close(self) -> None:
            pass

    groups = TargetGroups(
        Found({"audit": GroupDescription("Empty", 0)}),
        Found({"audit": Found({})}),
        Found({COPY: 90}),
        Found({COPY: 60}),
    )
    view = replace(seen(at(40, Exact(50), "audit")), placed=dict(state.placements))
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: view)
    monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: groups)
    monkeypatch.setattr(group_moves, "LogWriter", Writer)
    monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: Joined([]))
    clusters = {"B": ClusterSettings("B", {})}
    plan = plan_moves(FLOW, clusters, groups=["audit"])
    assert [each.action for each in plan.decisions] == [GroupAction.WRITE]
    apply_moves(plan, clusters)
    assert state.placements == {("audit", COPY): raised}
