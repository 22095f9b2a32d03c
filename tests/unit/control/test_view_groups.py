"""The table of all groups: by what the source tells, and by the checkpoints where it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import pytest

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control import flow_log, group_view
from mirror.control.group_view import GroupView, view_groups
from mirror.kafka.answers import Found
from mirror.kafka.batch import Record
from mirror.kafka.cluster_model import GroupListing, GroupPosition
from mirror.kafka.problems import ClusterError, ClusterUnreachable, LeaderUnknown
from mirror.model.checkpoint import Checkpoint
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import Loss, RunReport, chunk_record, placement_record
from tests.unit.control.builders import flow_settings

ORDERS, SECRET = TopicPartition("orders", 3), TopicPartition("secret", 0)
MIRRORED = TopicPartition("west.orders", 3)
EAST, WEST = ({"bootstrap.servers": f"{alias}:9092"} for alias in ("east", "west"))
CLUSTERS = {alias: ClusterSettings(alias, client) for alias, client in (("east", EAST), ("west", WEST))}


def copied(source: TopicPartition, target: str, *, behind: int) -> list[StateRecord]:
    """Return what a flow has recorded that has copied 100 records to where they lie ``behind`` further."""
    position = Position(100, 100 + behind, 0, True, target=target, topic_id="from", target_id="to")
    return [chunk_record(source, 0, [Run(0, behind, 100)]), position.record(source)]


class World:
    """Two clusters in memory: topics of one partition, and groups on the east one."""

    def __init__(self) -> None:
        self.topics: dict[tuple[str, str], list[StateRecord]] = {
            ("west:9092", "mm2-state.east.internal"): copied(ORDERS, "east.orders", behind=1000)
        }
        self.open: list[str] = []
        self.groups: dict[str, Found[TopicPartition, GroupPosition]] = {}
        self.unread: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.hidden: dict[str, str] = {}
        self.is_reachable = True
        self.at_ms = 0

    def checkpoints(self, *checkpoints: Checkpoint) -> None:
        records = [(each.key_bytes(), each.value_bytes()) for each in checkpoints]
        self.topics["west:9092", "east.checkpoints.internal"] = records

    def view(self, settings: FlowSettings | None = None, **how: Any) -> GroupView:
        found = view_groups(settings or flow_settings(), CLUSTERS, **how)
        assert self.open == [], "all connections are closed"
        return found


class Tail:
    """Reads a topic of :class:`World` from its beginning, once."""

    world: World
    has_begun_anew = False
    topic_id = ""

    def __init__(self, client: Mapping[str, str], topic: str, *, alias: str) -> None:
        self._place = client["bootstrap.servers"], topic
        self._next = 0

    def poll(self) -> list[Record]:
        if not self.exists():
            raise LeaderUnknown(f"{self._place[1]} has no leader")
        if not self._next:
            self.world.open.append(self._place[1])
        records = self.world.topics[self._place]
        start, self._next = self._next, len(records)
        return [
            Record(start + number, self.world.at_ms, key, value, (), -1)
            for number, (key, value) in enumerate(records[start:])
        ]

    def exists(self) -> bool:
        return self._place in self.world.topics

    def close(self) -> None:
        if self._place[1] in self.world.open:
            self.world.open.remove(self._place[1])


class Admin:
    """Stands in for the connection to a cluster."""

    world: World

    def __init__(self, settings: ClusterSettings) -> None:
        self._server = settings.client["bootstrap.servers"]

    @classmethod
    def connect(cls, settings: ClusterSettings, **_: object) -> Self:
        if not cls.world.is_reachable and settings.alias == "east":
            raise ClusterUnreachable("east", "east:9092", "nobody answers")
        return cls(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is open."""

    def groups(self) -> Iterable[GroupListing]:
        kinds = self.world.kinds
        return [GroupListing(each, kinds.get(each, "consumer"), "Empty", "") for each in self.world.groups]

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        known = {name: self.world.groups.get(name, Found()) for name in names}
        return Found(known, self.world.unread)

    def topics(self, names: Collection[str]) -> Found[str, None]:
        hidden = {name: why for name, why in self.world.hidden.items() if name in names}
        return Found(
            {name: None for name in names if (self._server, name) in self.world.topics and name not in hidden}, hidden
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    Tail.world = Admin.world = world = World()
    for module in (flow_log, group_view):
        monkeypatch.setattr(module, "LogTail", Tail)
    monkeypatch.setattr(group_view, "Cluster", Admin)
    return world


def on(position: int, metadata: str = "", partition: TopicPartition = ORDERS) -> Found[TopicPartition, GroupPosition]:
    return Found({partition: GroupPosition(position, metadata)})


def rows(view: GroupView) -> list[tuple[str, str, int, int | None, str]]:
    return [(each.group, each.topic, each.upstream, each.downstream, each.metadata) for each in view.positions]


def test_every_group_of_consumers_that_the_flow_takes_is_shown_where_it_goes_on(world: World) -> None:
    world.groups = {"shipping": on(50), "billing": on(40, "note"), "console-1": on(1), "workers": on(2)}
    world.kinds = {"workers": "connect"}
    world.groups["billing"] = Found({**world.groups["billing"], SECRET: GroupPosition(7)})
    world.unread = {"audit": "not authorized"}
    view = world.view(flow_settings("topics = orders", "groups.exclude = console-.*"))
    assert rows(view) == [("billing", "east.orders", 40, 1040, "note"), ("shipping", "east.orders", 50, 1050, "")]
    assert (view.source_problem, view.unknown_positions) == (None, ("group audit on east: not authorized",))
    assert [row[0] for row in rows(world.view(pattern="bill.*"))] == ["billing"] * 2
    assert rows(world.view(pattern="bill")) == []


def test_a_group_on_a_mirrored_topic_comes_home_if_the_flow_in_the_other_direction_has_ever_run(world: World) -> None:
    world.groups = {"billing": on(1040, "", MIRRORED)}
    assert [row[3] for row in rows(world.view())] == [None]
    world.topics["east:9092", "mm2-state.west.internal"] = copied(ORDERS, "west.orders", behind=1000)
    assert [row[3] for row in rows(world.view())] == [40]


def test_a_group_on_a_copy_comes_home_also_where_the_topic_filter_knows_only_the_original(world: World) -> None:
    """A failover has put it there, along the flow in the other direction; another copy is nobody's of these two."""
    world.groups = {
        "billing": Found({MIRRORED: GroupPosition(1040), TopicPartition("west.bills", 0): GroupPosition(3)})
    }
    world.topics["east:9092", "mm2-state.west.internal"] = copied(ORDERS, "west.orders", behind=1000)
    only = "topics = orders"
    back = flow_settings(only, "west->east.enabled = true", flow="west->east")
    found = world.view(flow_settings(only), back=back)
    assert rows(found) == [("billing", "orders", 1040, 40, "")]
    assert found.positions[0].source == MIRRORED
    assert rows(world.view(flow_settings(only))) == []
    del world.topics["east:9092", "mm2-state.west.internal"]
    assert rows(world.view(flow_settings(only), back=back)) == [("billing", "orders", 1040, None, "")], (
        "named, not lost"
    )


def test_where_the_source_is_not_asked_or_does_not_answer_the_checkpoints_tell(world: World) -> None:
    """Also of a partition that this flow has no map of: then what they say counts."""
    other = TopicPartition("east.bills", 0)
    world.groups = {"billing": on(90)}
    world.checkpoints(
        Checkpoint("audit", TopicPartition("east.orders", 3), 20, 1010),
        Checkpoint("billing", other, 7, 8),
        Checkpoint("billing", TopicPartition("east.orders", 3), 40, 1030, "note"),
    )
    told = [("billing", "east.bills", 7, 8, ""), ("billing", "east.orders", 40, 1040, "note")]
    not_asked = world.view(ask_source=False)
    assert rows(not_asked) == [("audit", "east.orders", 20, 1020, ""), *told]
    assert (not_asked.source_problem, not_asked.unknown_positions) == ("it was not asked", ())
    assert rows(world.view(pattern="bill.*", ask_source=False)) == told
    assert rows(world.view(pattern="bill", ask_source=False)) == [], "the whole id is to match"
    assert [row[3] for row in rows(world.view())] == [1090], "the source was asked"
    world.is_reachable = False
    view = world.view(pattern="bill.*")
    assert rows(view) == told
    assert "nobody answers" in (view.source_problem or "")


def test_when_the_flow_last_reported_is_told_whoever_tells_the_positions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the table sees how old what it was translated by is; a flow that never ran has reported nothing."""
    monkeypatch.setattr(group_view, "now_ms", lambda: 100_000)
    world.groups = {"billing": on(40)}
    world.checkpoints(Checkpoint("billing", TopicPartition("east.orders", 3), 40, 1040))
    told = [world.view(ask_source=asks) for asks in (True, False)]
    assert [(each.report, each.report_age_seconds) for each in told] == [(None, None)] * 2
    report = RunReport("DEGRADED", ("east does not answer",), 35_600)
    world.topics["west:9092", "mm2-state.east.internal"].append(report.record())
    told = [world.view(ask_source=asks) for asks in (True, False)]
    assert [(each.report, each.report_age_seconds) for each in told] == [(report, 64.4)] * 2


def test_a_checkpoint_of_a_partition_that_the_flow_has_dropped_is_of_a_topic_that_is_gone(world: World) -> None:
    """Unless nothing at all is on record: then the state is lost, and nobody knows."""
    world.checkpoints(
        Checkpoint("audit", TopicPartition("east.bills", 0), 7, 8),
        Checkpoint("audit", TopicPartition("east.orders", 3), 20, 1010),
    )
    assert [each.is_gone for each in world.view(ask_source=False).positions] == [True, False]
    world.topics["west:9092", "mm2-state.east.internal"] = []
    assert [each.is_gone for each in world.view(ask_source=False).positions] == [False, False]


def test_behind_a_loss_of_the_state_nobody_knows_either_whether_the_topic_of_an_older_checkpoint_is_gone(
    world: World,
) -> None:
    """The position may be among what was lost. A later checkpoint was translated by one, which was dropped since."""
    world.checkpoints(Checkpoint("audit", TopicPartition("east.bills", 0), 7, 8))
    world.topics["west:9092", "mm2-state.east.internal"].append(Loss(100, "deleted and created anew").record())
    for at_ms, is_gone in ((99, False), (100, False), (101, True)):
        world.at_ms = at_ms
        (found,) = world.view(ask_source=False).positions
        assert found.is_gone is is_gone


def test_without_any_checkpoint_nobody_can_tell_of_groups_and_that_is_no_error(world: World) -> None:
    """An engine that writes none, or has not yet: the rest of a failover must not hang on it."""
    world.groups = {"billing": on(90)}
    view = world.view(ask_source=False)
    assert (view.positions, view.source_problem) == ((), "it was not asked")


def test_groups_that_the_file_leaves_out_by_now_are_left_out_of_the_checkpoints_too(world: World) -> None:
    position = TopicPartition("east.orders", 3)
    world.checkpoints(Checkpoint("audit", position, 20, 1010), Checkpoint("billing", position, 40, 1030))
    view = world.view(flow_settings("groups.exclude = audit"), ask_source=False)
    assert [each.group for each in view.positions] == ["billing"]


def test_under_an_unchanged_name_a_checkpoint_is_not_carried_on_past_what_may_be_the_targets_own(world: World) -> None:
    settings = flow_settings("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy")
    world.topics["west:9092", "mm2-state.east.internal"] = copied(ORDERS, "orders", behind=1000)
    world.checkpoints(Checkpoint("billing", ORDERS, 40, 1030))
    assert [row[3] for row in rows(world.view(settings, ask_source=False))] == [1030]


@pytest.mark.parametrize(("is_reachable", "where"), [(True, "on east"), (False, "in the checkpoints on west")])
def test_a_pattern_that_no_group_matches_is_told_and_how_one_of_exactly_this_name_is_meant(
    world: World, is_reachable: bool, where: str
) -> None:
    world.groups, world.is_reachable = {"svc[/prod]": on(40)}, is_reachable
    world.checkpoints(Checkpoint("svc[/prod]", TopicPartition("east.orders", 3), 40, 1030))
    nobody = f"no group {where} passes the flow's filters and matches"
    assert world.view(pattern="svc[/prod]").unmatched == (
        f"{nobody} svc[/prod]; a group of exactly this name exists: escape it as 'svc\\[/prod\\]'"
    )
    assert world.view(pattern="svc").unmatched == f"{nobody} svc"
    found = world.view(pattern=r"svc\[/prod\]")
    assert ([row[0] for row in rows(found)], found.unmatched) == (["svc[/prod]"], None)


def test_a_group_that_matches_and_has_no_position_is_not_told_to_be_missing(world: World) -> None:
    world.groups = {"billing": Found()}
    assert world.view(pattern="billing").unmatched is None


def test_groups_that_the_flow_leaves_out_are_told_with_its_topics_that_they_read_where_somebody_asks(
    world: World,
) -> None:
    """No groups of tools, none that reads other topics alone, no workers of Connect; those that read copies too."""
    world.groups = {
        "billing": on(40),
        "connect-sink": Found({ORDERS: GroupPosition(40), SECRET: GroupPosition(1)}),
        "connect-home": on(7, "", MIRRORED),
        "connect-idle": Found(),
        "connect-other": on(7, "", SECRET),
        "connect-workers": on(7),
        "connect-beats": on(7, "", TopicPartition("heartbeats", 0)),
        "console-consumer-1": on(7),
    }
    world.kinds = {"connect-workers": "connect"}
    settings, back = flow_settings("topics = orders"), flow_settings("west->east.enabled = true", flow="west->east")
    world.topics["east:9092", "mm2-state.west.internal"] = copied(ORDERS, "west.orders", behind=1000)
    found = world.view(settings, back=back, with_left_out=True)
    assert found.left_out == {"connect-home": ("west.orders",), "connect-sink": ("orders",)}
    assert [row[0] for row in rows(found)] == ["billing"], "they are not moved"
    assert world.view(settings, back=back, with_left_out=True, pattern="connect-s.*").left_out.keys() == {
        "connect-sink"
    }
    assert world.view(settings, back=back).left_out == {}
    assert world.view(settings, back=back, with_left_out=True, ask_source=False).left_out == {}


def test_of_a_group_that_is_left_out_and_whose_positions_are_not_told_that_is_told(world: World) -> None:
    world.groups = {"connect-sink": Found()}
    world.unread = {"connect-sink": "its coordinator is not available"}
    assert world.view(with_left_out=True).left_out.problems == world.unread


def test_that_no_coordinator_of_the_groups_that_are_left_out_answers_says_nothing_of_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planned failover was refused then, and one that is cut off went by checkpoints although positions were told."""

    class Hanging(Admin):
        def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
            if "connect-sink" in names:
                raise ClusterError("east", "reading positions of groups", "no answer")
            return super().positions_of_groups(names)

    monkeypatch.setattr(group_view, "Cluster", Hanging)
    world.groups = {"billing": on(50), "connect-sink": on(7)}
    found = world.view(flow_settings("groups.exclude = connect-.*"), with_left_out=True)
    assert (found.source_problem, [row[0] for row in rows(found)]) == (None, ["billing"])
    assert found.left_out.problems.keys() == {"connect-sink"}


def test_where_the_flow_has_put_groups_and_what_it_has_copied_to_is_told(world: World) -> None:
    placed = Placement("billing", TopicPartition("east.orders", 3), 40, 50, 60, "to")
    world.topics["west:9092", "mm2-state.east.internal"] += [placement_record(placed)]
    world.groups = {"billing": on(50)}
    found = world.view()
    assert found.placed == {("billing", placed.partition): placed}
    assert "east.orders" in found.copies


def test_a_group_that_has_a_checkpoint_and_that_the_source_hides_is_asked_for_by_its_name(world: World) -> None:
    """A planned failover left it out, with a PASS: "of every group on record it is known that it passes nothing"."""
    world.groups = {"shipping": on(50)}
    copy = TopicPartition("east.orders", 3)
    hidden = ("audit", "console-consumer-1", "forgotten", "left-out", "shipping")
    world.checkpoints(*(Checkpoint(each, copy, 40, 1040) for each in hidden))
    world.unread = {"audit": "GROUP_AUTHORIZATION_FAILED"}
    settings = flow_settings("groups.exclude = left-out")
    view = world.view(settings)
    assert rows(view) == [("shipping", "east.orders", 50, 1050, "")]
    assert view.unknown_positions == (
        "group audit on east: it is not listed, and has a checkpoint: GROUP_AUTHORIZATION_FAILED",
    )


def test_a_state_topic_of_a_flow_into_the_source_that_is_hidden_is_named(world: World) -> None:
    """It passed for a flow that never ran: a group that it had put on the source was carried on, past unread records."""
    world.groups = {"billing": on(40)}
    assert world.view().hidden_states == {}
    world.hidden = {"mm2-state.west.internal": "TOPIC_AUTHORIZATION_FAILED"}
    assert world.view().hidden_states == world.hidden
