"""What a test failover will try of each group, what it leaves out and says so, and what it forecasts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

import pytest

from mirror.config.errors import ConfigError
from mirror.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror.control.group_view import GroupView, TranslatedPosition
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupListing, GroupPosition
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.shadow import Forecast, Processed, ShadowPartition, TakenFrom, shadow_name
from mirror.model.state_record import StateRecord
from mirror.model.state_values import chunk_record
from mirror.model.translation import Bounded, Exact, NothingRead, NotMirrored, Translation
from mirror.recovery import rehearsal_plan as module
from mirror.recovery.rehearsal_plan import RehearsalPlan, plan_rehearsal
from tests.unit.control.builders import flow_settings, topic

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
BILLS, EMPTY, MIRRORED = TopicPartition("bills", 0), TopicPartition("empty", 0), TopicPartition("west.sales", 0)
SALES = TopicPartition("sales", 0)
SECRET = TopicPartition("secret", 0)


class Logs:
    """The state topics, by the cluster they are on."""

    known: dict[str, list[StateRecord]]
    open: list[str]

    def __init__(self, _: Mapping[str, str], __: str, *, alias: str) -> None:
        self._alias, self.state = alias, FlowState()
        self.open.append(alias)

    def poll(self) -> FlowState:
        for key, value in self.known[self._alias]:
            self.state.apply(key, value)
        return self.state

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        return self.state.offset_map(source)

    def close(self) -> None:
        self.open.remove(self._alias)


class Admin:
    """Stands in for the connection to a cluster: partitions with where their logs begin and end, and groups."""

    clusters: dict[str, dict[TopicPartition, tuple[int, int]]]
    positions: list[Found[str, Found[TopicPartition, GroupPosition]]]
    listed: list[GroupListing]
    others: set[str]
    hidden: dict[str, str]

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @classmethod
    def connect(cls, settings: ClusterSettings) -> Self:
        return cls(settings.alias)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is open."""

    def groups(self) -> Iterable[GroupListing]:
        return self.listed

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        found = self.positions.pop(0)
        problems = {name: why for name, why in found.problems.items() if name in names}
        return Found({name: found[name] for name in names if name in found}, problems)

    def topics(self, names: Collection[str]) -> Found[str, Any]:
        logs = self.clusters[self.alias]
        there = {each: topic(each) for each in names if any(log.topic == each for log in logs) or each in self.others}
        return Found(there, {each: self.hidden[each] for each in names if each in self.hidden})

    def offsets(self, partitions: Collection[TopicPartition], where: str) -> Found[TopicPartition, int]:
        known = self.clusters[self.alias]
        there = {each: known[each][where == "latest"] for each in partitions if each in known}
        return Found(there, {each: "no leader" for each in partitions if each not in known})


class World:
    """Two clusters: 100 records of orders are copied to where they lie 1000 further, and some groups read them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        position = Position(100, 1100, 0, True, target=COPY.topic)
        self.flow = [chunk_record(ORDERS, 0, [Run(0, 1000, 100)]), position.record(ORDERS)]
        back = Position(50, 550, 0, True, target=MIRRORED.topic)
        Logs.known = {
            "west": self.flow,
            "east": [chunk_record(SALES, 0, [Run(0, 500, 50)]), back.record(SALES)],
        }
        Logs.open = []
        Admin.clusters = {
            "east": {ORDERS: (0, 120), BILLS: (0, 9), EMPTY: (4, 4), MIRRORED: (500, 550), SECRET: (0, 9)},
            "west": {COPY: (1010, 1100), SALES: (0, 50)},
        }
        Admin.others = set()
        Admin.hidden = {}
        Admin.listed = []
        Admin.positions = []
        self.view: list[TranslatedPosition] = []
        self.checkpointed: set[str] = set()
        self.asked: dict[str, Any] = {}
        self.problem: str | None = None
        self.settings = flow_settings("groups.exclude = console-.*", "topics.exclude = secret")
        self.flows: list[FlowSettings] = [self.settings]
        monkeypatch.setattr(module, "Cluster", Admin)
        monkeypatch.setattr(module, "FlowLog", Logs)
        monkeypatch.setattr(module, "view_groups", self.view_groups)
        monkeypatch.setattr(
            module, "checkpoints_on_record", lambda *_: {(each, COPY): None for each in self.checkpointed}
        )
        monkeypatch.setattr(module, "find_shadows", lambda cluster: ["one", "two"] if cluster.alias == "west" else [])

    def view_groups(self, *_: object, **how: Any) -> GroupView:
        self.asked = how
        return GroupView(tuple(self.view), self.problem)

    def group(
        self,
        name: str,
        source: TopicPartition,
        told: tuple[int, Translation] | None,
        *,
        before: int | None = 40,
        after: int | None = 40,
        copy: TopicPartition = COPY,
    ) -> None:
        """Add a group that stands at ``before``, then ``after``, and for which a failover would use what was told."""
        Admin.listed.append(GroupListing(name, "consumer", "Empty", ""))
        if not Admin.positions:
            Admin.positions = [Found(), Found()]
        for found, at in zip(Admin.positions, (before, after), strict=True):
            if at is not None:
                found[name] = Found({**found.get(name, {}), source: GroupPosition(at)})
        if told is not None:
            self.view.append(TranslatedPosition(name, *copy, *told))

    def plan(self, pattern: str = ".*", taken_from: TakenFrom = TakenFrom.CHECKPOINTS) -> RehearsalPlan:
        Admin.positions = Admin.positions or [Found(), Found()]
        clusters = {alias: ClusterSettings(alias, {}) for alias in ("east", "west")}
        everything = SimpleNamespace(clusters=clusters, enabled_flows=self.flows, path=Path("mirror.properties"))
        found = plan_rehearsal(cast(MirrorSettings, everything), self.settings, pattern=pattern, taken_from=taken_from)
        assert Logs.open == []
        return found

    def one(self, taken_from: TakenFrom = TakenFrom.CHECKPOINTS) -> ShadowPartition:
        (one,) = self.plan(taken_from=taken_from).partitions
        return one


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_group_begins_where_its_checkpoint_leads_and_the_forecast_says_what_that_costs(world: World) -> None:
    """It has processed up to 60; the checkpoint is of when it was at 40: 20 records come again."""
    world.group("billing", ORDERS, (40, Exact(1040)), before=40, after=60)
    one = world.one()
    assert (one.source, one.target, one.upstream, one.position) == (ORDERS, COPY, 40, 1040)
    assert (one.processed, one.forecast, one.early_records) == (Processed(40, 60), Forecast(0, 20), 0)
    assert (one.refusal, one.must_fail, one.is_tried) == (None, False, True)
    assert world.asked["ask_source"] is False


def test_a_position_that_is_not_exact_comes_earlier_and_the_forecast_says_by_how_much(world: World) -> None:
    world.group("billing", ORDERS, (40, Bounded(1030, 10)), before=40, after=40)
    one = world.one()
    assert (one.position, one.early_records, one.forecast) == (1030, 10, Forecast(0, 10))


def test_what_is_not_copied_yet_is_read_again_and_what_was_lost_is_missed(world: World) -> None:
    """The copy has got to 100, the group to 115; offsets 85 to 89 were never copied."""
    gap = Gap(ORDERS, 85, 90, "retention", 1, GapKind.RETENTION)
    other = Gap(BILLS, 0, 50, "retention", 1, GapKind.RETENTION)
    # Of the log that was there before it was cut: those offsets have other records by now.
    former = Gap(ORDERS, 80, 84, "truncated", 1, GapKind.TRUNCATED)
    before_it = Gap(ORDERS, 90, 94, "poison", 3)
    # It was copied again.
    lost = Gap(ORDERS, 80, 95, "the target had lost it", 4, GapKind.TARGET_LOST)
    world.flow += [each.record() for each in (before_it, former, gap, other, lost)]
    world.group("billing", ORDERS, (110, Exact(1100)), before=110, after=115)
    assert world.one().forecast == Forecast(0, 15)
    Admin.positions, Admin.listed, world.view = [], [], []
    world.group("billing", ORDERS, (80, Exact(1095)), before=80, after=80)
    assert world.one().forecast == Forecast(15 + 5, 0)


def test_taken_from_the_source_it_is_the_position_there_that_counts(world: World) -> None:
    world.group("billing", ORDERS, (40, Exact(1040)), before=30, after=60)
    one = world.one(TakenFrom.SOURCE)
    assert (one.processed, one.forecast) == (Processed(40, 40), Forecast(0, 0))
    assert world.asked["ask_source"] is True


def test_a_position_before_the_start_of_the_copy_begins_there_and_says_so(world: World) -> None:
    world.group("billing", ORDERS, (5, Exact(1005)), before=5, after=5)
    one = world.one()
    assert (one.position, one.forecast) == (1010, Forecast(5, 0))
    assert "but the log begins at 1010 only" in one.note
    world.view[0] = replace(world.view[0], translation=Exact(1010), upstream=10)
    Admin.positions = [Found({"billing": Found({ORDERS: GroupPosition(10)})}) for _ in range(2)]
    assert "begins at" not in world.one().note


@pytest.mark.parametrize(("position", "must_fail"), [(1100, False), (1101, True)])
def test_a_position_behind_the_end_of_the_copy_is_a_failure_before_it_is_tried(
    world: World, position: int, *, must_fail: bool
) -> None:
    world.group("billing", ORDERS, (100, Exact(position)), before=100, after=100)
    one = world.one()
    assert (one.must_fail, one.is_tried) == (must_fail, not must_fail)
    if must_fail:
        assert one.refusal == "position 100 becomes 1101 on the target, whose log ends at 1100"


def test_what_cannot_be_tried_is_refused_with_its_reason(world: World) -> None:
    """No checkpoint, no copy, no translation: none of them is left out in silence."""
    world.group("audit", ORDERS, None)
    world.group("billing", BILLS, (3, Exact(3)), copy=TopicPartition("east.bills", 0))
    world.group("shipping", ORDERS, (40, NotMirrored()))
    plan = world.plan()
    assert [(each.group, each.is_tried) for each in plan.partitions] == [
        ("audit", False),
        ("billing", False),
        ("shipping", False),
    ]
    audit, billing, shipping = (str(each.refusal) for each in plan.partitions)
    assert audit == "no checkpoint on the target says where the group stands"
    assert billing == "east.bills-0: the target has no such partition"
    assert shipping.startswith("the group would have no position on the target: ")
    assert (plan.groups, plan.shadows) == (("audit", "billing", "shipping"), {})


def test_where_there_is_nothing_to_try_it_is_counted(world: World) -> None:
    """A partition without a record; a group that was put there and has read nothing since."""
    world.group("billing", EMPTY, None)
    world.group("audit", ORDERS, (40, NothingRead(40, 1040)))
    plan = world.plan()
    assert plan.partitions == ()
    assert [each.split(":")[0] for each in plan.notes[1:]] == [
        "1 positions on partitions without a record are left out",
        "1 positions are left out",
    ]
    Admin.clusters["west"][TopicPartition("east.empty", 0)] = (0, 7)
    world.view.append(TranslatedPosition("billing", "east.empty", 0, 4, NotMirrored()))
    Admin.positions = [Found({"billing": Found({EMPTY: GroupPosition(4)})}) for _ in range(2)]
    again = world.plan()
    assert again.partitions == ()
    assert "1 positions on partitions without a record" in again.notes[1]


def test_a_partition_that_the_source_does_not_show_is_not_one_without_a_record(world: World) -> None:
    """Neither its beginning nor its end was told, and the two passed for the same."""
    world.group("shipping", ORDERS, (40, NotMirrored()))
    del Admin.clusters["east"][ORDERS]
    assert str(world.one().refusal).startswith("the group would have no position on the target: ")


def test_only_groups_and_topics_of_the_flow_are_tried_and_no_shadows_of_before(world: World) -> None:
    for name in ("billing", "shipping", "console-1", shadow_name("stamp", "billing")):
        world.group(name, ORDERS, (40, Exact(1040)))
    world.group("billing", SECRET, (1, Exact(1)), copy=TopicPartition("east.secret", 0))
    Admin.listed.append(GroupListing("connect", "connect", "Empty", ""))
    positions = Admin.positions
    plan = world.plan()
    assert [(each.group, each.source) for each in plan.partitions] == [("billing", ORDERS), ("shipping", ORDERS)]
    assert plan.shadows == {each: shadow_name(plan.stamp, each) for each in ("billing", "shipping")}
    assert plan.notes == ("2 shadow groups of other rehearsals are on west; those left behind go with --clean",)
    Admin.positions = [Found({"billing": Found({ORDERS: GroupPosition(40)})}) for _ in positions or (1, 2)]
    assert world.plan("bill").groups == ()


def test_a_group_that_was_not_seen_or_moved_back_meanwhile_has_no_forecast(world: World) -> None:
    world.group("billing", ORDERS, (40, Exact(1040)), before=None, after=40)
    world.group("audit", ORDERS, (40, Exact(1040)), before=50, after=40)
    world.group("shipping", ORDERS, (40, Exact(1040)), before=40, after=None)
    assert [(each.processed, each.forecast, each.is_tried) for each in world.plan().partitions] == [
        (None, None, True)
    ] * 3


@pytest.mark.parametrize("has_run", [False, True])
def test_a_group_on_a_mirrored_topic_comes_home_by_the_map_of_the_flow_in_the_other_direction(
    world: World, *, has_run: bool
) -> None:
    if has_run:
        Admin.others = {"mm2-state.west.internal"}
    world.group("billing", MIRRORED, (510, Exact(10)), before=510, after=515, copy=SALES)
    one = world.one()
    assert (one.target, one.position) == (SALES, 10)
    assert one.forecast == (Forecast(0, 5) if has_run else None)


def test_what_was_not_told_is_named_and_what_stands_in_for_it(world: World) -> None:
    Admin.listed = [GroupListing("audit", "consumer", "Empty", "")]
    Admin.positions = [Found({}, {"audit": "not authorized"}), Found()]
    world.problem = "east does not answer"
    plan = world.plan(taken_from=TakenFrom.SOURCE)
    assert plan.unknown_positions == ("group audit on east: not authorized",)
    assert plan.notes[0] == "the positions are those of the checkpoints: east does not answer"
    Admin.positions = [Found(), Found({}, {"audit": "not authorized"})]
    later = world.plan()
    assert later.unknown_positions == ("group audit on east: not authorized",)
    assert not any("those of the checkpoints" in each for each in later.notes)
    Admin.listed = []
    assert world.plan().notes[0] == "no group on east passes the flow's filters and matches .*"


@pytest.mark.parametrize(
    ("lines", "flow", "is_refused"),
    [
        (("west->east.enabled = true", "groups.exclude = none"), "west->east", True),
        (("west->east.enabled = true",), "west->east", False),
        (
            ("west->east.enabled = true", "groups.exclude = none", "emit.checkpoints.enabled = false"),
            "west->east",
            False,
        ),
        (("groups.exclude = none",), "east->west", False),
    ],
    ids=["carries", "leaves them out", "writes no checkpoints", "leads elsewhere"],
)
def test_where_another_flow_would_carry_the_shadow_groups_on_nothing_is_tried(
    world: World, lines: tuple[str, ...], flow: str, *, is_refused: bool
) -> None:
    world.flows = [flow_settings(*lines, flow=flow)]
    if is_refused:
        with pytest.raises(ConfigError, match="would carry the positions of shadow groups on"):
            world.plan()
    else:
        world.plan()


TRIED = ShadowPartition("audit", ORDERS, COPY, 5, 5, processed=Processed(5, 5), forecast=Forecast(0, 0))


@pytest.mark.parametrize(
    ("partitions", "unread", "is_in_order"),
    [
        ((TRIED,), (), True),
        ((), (), False),
        ((TRIED,), ("group stock: not authorized",), False),
        ((TRIED, replace(TRIED, refusal="no checkpoint")), (), False),
        ((TRIED, replace(TRIED, forecast=Forecast(1, 0))), (), False),
        ((TRIED, replace(TRIED, forecast=None)), (), True),
    ],
    ids=["all", "nothing", "one group is not told", "one is not tried", "one would skip a record", "no forecast"],
)
def test_a_plan_is_in_order_if_all_can_be_tried_and_nothing_is_forecast_to_be_skipped(
    partitions: tuple[ShadowPartition, ...], unread: tuple[str, ...], *, is_in_order: bool
) -> None:
    plan = RehearsalPlan(flow_settings(), "stamp", TakenFrom.SOURCE, partitions, (), unread, ())
    assert plan.is_in_order is is_in_order


def test_a_group_that_has_a_checkpoint_and_that_the_source_hides_is_named_and_nothing_is_proven_of_it(
    world: World,
) -> None:
    """The test failover left it out, and passed."""
    world.group("billing", ORDERS, (40, Exact(1040)))
    world.checkpointed = {"audit", "billing", "console-consumer-1", "forgotten", shadow_name("stamp", "billing")}
    for each in Admin.positions:
        each.problems["audit"] = "GROUP_AUTHORIZATION_FAILED"
    plan = world.plan()
    assert [each.group for each in plan.partitions] == ["billing"]
    assert plan.unknown_positions == ("group audit on east: GROUP_AUTHORIZATION_FAILED",)
    assert not plan.is_in_order


def test_that_the_state_of_the_flow_back_is_hidden_is_noted(world: World) -> None:
    world.group("billing", ORDERS, (40, Exact(1040)))
    assert not any("is not shown" in each for each in world.plan().notes)
    Admin.positions, Admin.listed, world.view = [], [], []
    world.group("billing", ORDERS, (40, Exact(1040)))
    Admin.hidden = {"mm2-state.west.internal": "TOPIC_AUTHORIZATION_FAILED"}
    plan = world.plan()
    (note,) = (each for each in plan.notes if "mm2-state.west.internal is not shown there" in each)
    assert "allow the flow's user to Describe and Read the topic" in note
    assert plan.is_in_order
