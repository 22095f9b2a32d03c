"""A copy with the source's offsets is deleted once its topic was created anew, if the file says so, and never another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.control import recreated_topics
from mirror.control.closed_copies import closed_notes
from mirror.control.flow_log import FlowLog
from mirror.control.recreated_topics import RecreatedTopicsTick, outdated_copies
from mirror.kafka import old_topics, topic_ids
from mirror.kafka.answers import Found, ItemResult
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, ConfigEntry, NewTopic, Topic
from mirror.kafka.log import NewRecord
from mirror.kafka.old_topics import OldTopic
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import ClosedCopy, source_record
from tests.unit.control.builders import entry, flow_settings, topic

ASKED = ("mirror.offsets = same", "mirror.offsets.recreated = make-anew")
OLD, NEW, COPY, ANEW = ("O" * 22, "N" * 22, "C" * 22, "D" * 22)
ORDERS, GONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
AT = Position(10, 10, 4, True, 0, OLD, COPY, target="east.orders", source_end=12, same_offsets=True)


def state_of(*records: Any) -> FlowState:
    state = FlowState()
    for key, value in records:
        state.apply(key, value)
    return state


def named(name: str, topic_id: str, partitions: int = 1) -> Mapping[str, Topic]:
    return {name: replace(topic(name, partitions), topic_id=topic_id)}


def outdated(
    *lines: str, position: Position = AT, source_id: str = NEW, copy_id: str = COPY, records: Sequence[Any] = ()
) -> list[str]:
    state = state_of(position.record(ORDERS), *records)
    found = outdated_copies(
        state, flow_settings(*(lines or ASKED)), named("orders", source_id), named("east.orders", copy_id)
    )
    return [f"{each.copy.name} {each.copy.topic_id}" for each in found]


def test_the_copy_of_a_topic_that_is_another_one_now_is_outdated() -> None:
    assert outdated() == [f"east.orders {COPY}"]


def test_a_copy_is_not_outdated_while_its_topic_is_the_same_or_is_not_told_or_the_file_does_not_say_so() -> None:
    assert outdated(source_id=OLD) == []
    assert outdated(source_id=topic_ids.NONE) == []
    assert outdated("mirror.offsets = same") == []
    assert outdated(*ASKED, "mirror.offsets.topics = bills") == []
    assert outdated_copies(state_of(AT.record(ORDERS)), flow_settings(*ASKED), {}, named("east.orders", COPY)) == ()


def test_a_copy_that_is_not_the_one_on_record_is_left_alone() -> None:
    """It was made anew already, by hand or by an engine whose first position is not on record yet."""
    assert outdated(copy_id=ANEW) == []
    assert outdated(copy_id=topic_ids.NONE, position=replace(AT, target_id="")) == []
    assert outdated(position=replace(AT, target_id="")) == []


def test_a_copy_with_offsets_of_its_own_is_left_alone() -> None:
    assert outdated(position=replace(AT, same_offsets=False)) == []


def test_an_id_that_is_past_is_told_by_a_broker_that_lags_behind() -> None:
    past = Gap(ORDERS, 0, 5, "created anew", 1, GapKind.RECREATED, 5, NEW)
    assert outdated(records=[past.record()]) == []


def test_a_copy_is_outdated_once_all_its_partitions_are_of_the_former_topic() -> None:
    second = TopicPartition("orders", 1)
    state = state_of(AT.record(ORDERS), replace(AT, topic_id=NEW, target_id=ANEW).record(second))
    both = named("orders", NEW, 2), named("east.orders", COPY, 2)
    assert outdated_copies(state, flow_settings(*ASKED), *both) == ()


class World:
    """A flow that has copied a topic of two partitions, created anew with one."""

    def __init__(self) -> None:
        self.ids = {"orders": NEW, "east.orders": COPY}
        self.told = {"orders": frozenset({NEW})}
        self.stopped = {"orders"}
        self.partitions = {"orders": 1, "east.orders": 2, "bills": 1, "east.bills": 1, "stays": 1}
        # Of the copy's partitions.
        self.logs = [(4, 11), (5, 5)]
        self.deleted: list[Mapping[str, str]] = []
        self.problem: str | None = None
        self.looked_at: list[tuple[TopicPartition, int, int]] = []
        self.others: dict[TopicPartition, str] = {}
        self.late: dict[TopicPartition, str] = {}
        self.most_bytes: dict[str, str] = {}
        self.not_closed: str | None = None
        self.not_opened: str | None = None
        self.lacks: dict[str, str] = {}
        self.created: list[NewTopic] = []
        self.found_id = ""
        self.written: list[NewRecord] = []
        self.alias, self.cluster_id, self.bootstrap_servers = "west", "the east", "west:9092"
        self.state = state_of(AT.record(ORDERS), AT.record(GONE), source_record(self.cluster_id))
        self.begin_anew(*ASKED)

    def begin_anew(self, *lines: str) -> None:
        """By a file with these lines."""
        cluster = cast(Cluster, self)
        log = cast(FlowLog, SimpleNamespace(state=self.state))
        self._tick = RecreatedTopicsTick(
            *(cluster, cluster, flow_settings(*lines), log, self, self.stopped.__contains__),
            clock=lambda: 7,
            others=self.written_by,
            pause=self.pause,
        )

    def pause(self, seconds: float) -> None:
        """What was on its way arrives."""
        self.others |= self.late
        assert seconds >= 3

    def topic_configs(self, names: Collection[str]) -> Found[str, tuple[ConfigEntry, ...]]:
        set_to = {name: self.most_bytes.get(name) for name in names}
        return Found({name: (entry("max.message.bytes", value),) if value else () for name, value in set_to.items()})

    def alter_configs(self, changes: Mapping[str, ConfigChange]) -> list[ItemResult]:
        results = []
        for name, change in changes.items():
            value = change.set.get("max.message.bytes", "")
            problem = self.not_closed if value == "0" else self.not_opened
            assert name in self.state.closed or value != "0", "it is on record before"
            if problem is None:
                self.most_bytes[name] = value
            results.append(ItemResult(name, problem))
        return results

    def written_by(self, _: Any, copy: TopicPartition, start: int, end: int) -> str | None:
        self.looked_at.append((copy, start, end))
        return self.others.get(copy)

    def topics(self, names: Collection[str]) -> Found[str, Topic]:
        return Found(
            {
                name: replace(topic(name, self.partitions[name]), topic_id=self.ids[name])
                for name in names
                if name in self.ids
            }
        )

    def offsets(self, partitions: Collection[TopicPartition], at: str) -> Found[TopicPartition, int]:
        logs = {each: self.logs[each.partition][["earliest", "written"].index(at)] for each in partitions}
        return Found(
            {each: offset for each, offset in logs.items() if offset >= 0},
            {each: "LEADER_NOT_AVAILABLE" for each, offset in logs.items() if offset < 0},
        )

    def delete_topics_by_id(self, ids: Mapping[str, str]) -> list[ItemResult]:
        assert all(self.most_bytes[name] == "0" for name in ids), "nobody can write to it"
        self.deleted.append(ids)
        return [ItemResult(name, self.problem) for name in ids]

    def broker_ids(self) -> list[int]:
        return [1]

    def create_topics(self, topics: Sequence[NewTopic]) -> list[ItemResult]:
        assert self.deleted, "what is there is not created"
        self.created += topics
        if self.found_id:
            self.ids["east.orders"] = self.found_id
        return [ItemResult(each.name, existed=bool(self.found_id)) for each in topics]

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        assert (topic, partition) == ("mm2-state.east.internal", 0)
        assert self.state.gaps or not self.deleted, "what is gone is on record before"
        self.written += [each for each in records if not (each[0] or b"").startswith(b'["closed"')]
        for key, value, *_ in records:
            self.state.apply(key, value)
        return 0

    def look(self) -> Any:
        return self._tick.tick()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(recreated_topics, "known_topic_ids", lambda _, names: {each: made.told[each] for each in names})
    monkeypatch.setattr(
        old_topics, "lacking_rights", lambda _, names: {k: v for k, v in made.lacks.items() if k in names}
    )
    return made


def test_it_is_deleted_by_its_id_and_that_is_told(world: World) -> None:
    report = world.look()
    assert world.deleted == [{"east.orders": COPY}]
    assert (report.done, report.problems) == (1, ())
    (note,) = report.notes
    assert note.startswith(f"east.orders on west (id {COPY}) is deleted and made anew")
    assert world.state.closed == {}


def test_it_is_created_anew_at_once_as_its_topic_is_now(world: World) -> None:
    assert world.look().problems == ()
    assert [(each.name, each.partitions) for each in world.created] == [("east.orders", 1)]


def test_what_somebody_else_has_created_instead_gets_the_settings_and_is_told_of(world: World) -> None:
    world.found_id = ANEW
    world.most_bytes["orders"] = "5000"
    (problem,) = world.look().problems
    assert "east.orders on west was created by somebody else as soon as it was deleted" in problem
    assert "auto.create.topics.enable = true: it has 2 partitions, and orders on east 1; it keeps them" in problem
    assert world.most_bytes["east.orders"] == "5000"


def test_what_somebody_else_has_created_just_as_it_was_to_be_is_not_told_of(world: World) -> None:
    world.found_id, world.partitions["east.orders"] = ANEW, 1
    world.logs.pop()
    assert world.look().problems == ()
    assert len(world.created) == 1


def test_a_broker_that_tells_of_the_deleted_copy_for_a_moment_yet_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of what somebody else had created were never set then."""
    world.found_id, world.partitions["east.orders"] = ANEW, 1
    world.logs.pop()
    world.most_bytes["orders"] = "5000"
    look_at, looks = old_topics.look_at, list[int]()

    def late(cluster: Any, names: Collection[str]) -> dict[str, OldTopic]:
        found = look_at(cluster, names)
        if not world.deleted or len(looks) == 2:
            return found
        looks.append(1)
        return {name: replace(each, topic_id=COPY) for name, each in found.items()}

    monkeypatch.setattr(old_topics, "look_at", late)
    assert world.look().problems == ()
    assert world.most_bytes["east.orders"] == "5000"


def test_a_copy_that_is_about_to_go_is_not_taken_for_another_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recreated_topics, "_TOLD_SECONDS", 0.1)
    world.found_id = COPY
    assert world.look().problems == ()
    assert world.most_bytes == {"east.orders": "0"}


def test_what_its_logs_hold_and_what_was_never_copied_is_a_gap_before_it_is_deleted_also_behind_the_position(
    world: World,
) -> None:
    """Of a partition, too, that the new topic does not have."""
    world.problem = "TOPIC_DELETION_DISABLED"
    world.state.apply(*replace(AT, source_end=0).record(ORDERS))
    report = world.look()
    assert report.problems == ("east.orders on west cannot be deleted to be made anew: TOPIC_DELETION_DISABLED",)
    found = [(gap.source, gap.start, gap.end, gap.kind, gap.topic_id) for gap in world.state.open_gaps]
    assert found == [(ORDERS, 4, 11, GapKind.RECREATED, OLD), (GONE, 5, 12, GapKind.RECREATED, OLD)]
    assert "with that neither has the offsets 4 to 10 of the old orders-0 any more" in world.state.open_gaps[0].reason
    assert {gap.found_at_ms for gap in world.state.open_gaps} == {7}


def test_the_gap_says_that_a_copy_is_still_there_which_the_target_does_not_delete_until_it_does(world: World) -> None:
    world.problem = "TOPIC_DELETION_DISABLED"
    world.look()
    for gap in world.state.open_gaps:
        assert gap.reason.endswith(
            "; it is still there, with what it has, since west does not delete it: TOPIC_DELETION_DISABLED: delete the "
            "topic there, or have west take the engine's request, which comes again"
        )
    written = len(world.written)
    world.look()
    assert len(world.written) == written, "it is on record already"
    world.problem = None
    world.look()
    assert len(world.state.open_gaps) == 2
    assert not any("still there" in gap.reason for gap in world.state.open_gaps)


def test_a_gap_on_record_is_not_recorded_again(world: World) -> None:
    for source in (ORDERS, GONE):
        world.state.apply(*Gap(source, 4, 12, "created anew", 1, GapKind.RECREATED, None, OLD).record())
    world.look()
    assert (world.written, world.deleted) == ([], [{"east.orders": COPY}])


def test_a_copy_that_does_not_tell_what_it_holds_is_kept(world: World) -> None:
    world.logs[1] = (5, -1)
    report = world.look()
    assert report.problems == ("east.orders on west is not deleted to be made anew: LEADER_NOT_AVAILABLE",)
    assert (world.deleted, world.written) == ([], [])


def test_a_copy_that_others_have_written_to_behind_what_is_on_record_is_kept(world: World) -> None:
    copy = TopicPartition("east.orders", 0)
    world.others[copy] = "somebody else has written"
    report = world.look()
    assert report.problems == ("east.orders on west is not deleted to be made anew: somebody else has written",)
    assert (world.deleted, world.written) == ([], [])
    assert world.looked_at == [(copy, 10, 11)]


def test_without_the_right_to_delete_a_copy_it_is_not_closed_and_nothing_is_recorded_as_gone(world: World) -> None:
    world.lacks["east.orders"] = "needs Delete on the topic"
    world.most_bytes["east.orders"] = "0"  # by an engine that was killed
    report = world.look()
    (problem,) = report.problems
    assert problem == (
        "east.orders on west is not deleted to be made anew: needs Delete on the topic: grant it, or delete the topic "
        "there"
    )
    assert (world.deleted, world.written, world.looked_at) == ([], [], [])
    assert world.most_bytes == {"east.orders": ""}


@pytest.mark.parametrize("before", ["", "1000", "0"])
def test_what_others_write_while_it_is_looked_at_keeps_the_copy_and_it_takes_records_again(
    world: World, before: str
) -> None:
    """It was closed by an engine that was killed then, too."""
    world.most_bytes["east.orders"] = before
    world.late[TopicPartition("east.orders", 0)] = "somebody else has written"
    report = world.look()
    assert report.problems == ("east.orders on west is not deleted to be made anew: somebody else has written",)
    assert (world.deleted, world.written) == ([], [])
    assert world.most_bytes == {"east.orders": "1000" if before == "1000" else ""}
    assert world.state.closed == {}


def test_a_copy_is_not_closed_once_the_flow_is_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was cut while the engine looked who has written there; applications, on it since, were refused for seconds."""
    set_to: list[str | None] = []
    alter, look = World.alter_configs, World.written_by

    def cut(made: World, *where: Any) -> str | None:
        made.stopped.clear()
        return look(made, *where)

    def alter_configs(made: World, changes: Mapping[str, ConfigChange]) -> list[ItemResult]:
        set_to.extend(each.set.get("max.message.bytes") for each in changes.values())
        return alter(made, changes)

    monkeypatch.setattr(World, "written_by", cut)
    monkeypatch.setattr(World, "alter_configs", alter_configs)
    world.begin_anew(*ASKED)
    (problem,) = world.look().problems
    assert problem.endswith("is not deleted to be made anew: the flow was paused or cut, or copies it again, meanwhile")
    assert (set_to, world.deleted, world.state.closed) == ([], [], {})


def test_a_copy_that_cannot_be_closed_for_writes_is_kept(world: World) -> None:
    world.not_closed = "needs AlterConfigs on the topic"
    (problem,) = world.look().problems
    assert problem == (
        "east.orders on west is not deleted to be made anew: closing the topic east.orders: needs AlterConfigs on the "
        "topic"
    )
    assert (world.deleted, world.written) == ([], [])


def test_a_copy_that_cannot_be_deleted_takes_records_again(world: World) -> None:
    world.problem = "TOPIC_DELETION_DISABLED"
    world.look()
    assert world.most_bytes == {"east.orders": ""}


def test_a_copy_that_cannot_be_opened_again_is_named_and_hides_neither_a_deletion_nor_why_it_is_kept(
    world: World,
) -> None:
    bills = TopicPartition("bills", 0)
    world.state.apply(*replace(AT, topic_id=OLD, target_id=ANEW, target="east.bills").record(bills))
    world.state.apply(*Position(1, 1, 0, True, topic_id=OLD).record(TopicPartition("stays", 0)))
    world.ids |= {"bills": NEW, "east.bills": ANEW, "stays": OLD}
    world.told["bills"] = frozenset({NEW})
    world.stopped.add("bills")
    world.late[TopicPartition("east.bills", 0)] = "somebody else has written"
    world.not_opened = "needs AlterConfigs on the topic"
    report = world.look()
    assert [note.split(" is deleted")[0] for note in report.notes] == [f"east.orders on west (id {COPY})"]
    kept, closed = report.problems
    assert kept == "east.bills on west is not deleted to be made anew: somebody else has written"
    assert closed.startswith(
        "east.bills on west takes no records: it was closed (max.message.bytes = 0), and opening it again is refused: "
        "needs AlterConfigs on the topic"
    )
    assert "--entity-name east.bills --alter --delete-config max.message.bytes" in closed


@pytest.mark.parametrize("before", [None, "1000"])
@pytest.mark.parametrize(
    "lines", [("topics = bills",), ("mirror.offsets = same",), ("mirror.offsets.recreated = stop",)]
)
def test_what_an_engine_that_was_killed_has_closed_is_opened_whatever_the_file_says_by_now(
    world: World, lines: tuple[str, ...], before: str | None
) -> None:
    world.state.apply(*ClosedCopy("east.orders", COPY, before).record())
    world.most_bytes["east.orders"] = "0"
    world.begin_anew(*lines)
    world.not_opened = "needs AlterConfigs on the topic"
    (problem,) = world.look().problems
    change = "--delete-config max.message.bytes" if before is None else "--add-config max.message.bytes=1000"
    assert problem == (
        "east.orders on west takes no records: it was closed (max.message.bytes = 0), and opening it again is refused: "
        "needs AlterConfigs on the topic; to open it: kafka-configs.sh --bootstrap-server west:9092 --entity-type "
        f"topics --entity-name east.orders --alter {change}"
    )
    world.not_opened = None
    assert world.look().problems == ()
    assert (world.most_bytes, world.state.closed) == ({"east.orders": before or ""}, {})


def test_while_no_engine_runs_a_copy_that_is_closed_is_told_with_what_opens_it(world: World) -> None:
    world.state.apply(*ClosedCopy("east.orders", COPY, None).record())
    (note,) = closed_notes(Flow("east", "west"), "west:9092", world.state)
    assert note.startswith("east.orders on west takes no records (max.message.bytes = 0): an engine closed it")
    assert note.endswith("--entity-name east.orders --alter --delete-config max.message.bytes")


def test_what_has_the_name_of_a_copy_that_was_closed_is_left_alone(world: World) -> None:
    world.state.apply(*ClosedCopy("east.orders", ANEW, None).record())
    world.most_bytes["east.orders"] = "0"
    world.stopped.clear()
    assert world.look().problems == ()
    assert (world.most_bytes, world.state.closed) == ({"east.orders": "0"}, {})


def test_what_may_be_of_another_cluster_is_kept(world: World) -> None:
    """The source was lost and built anew, or its address in the file is another one's."""
    world.state.apply(*source_record("the east", former=["the lost east"]))
    (problem,) = world.look().problems
    assert problem.startswith("east.orders on west is not deleted to be made anew: east is cluster the east, and was")
    world.state.apply(*source_record("the lost east"))
    assert world.look().problems == ()
    assert (world.deleted, world.written) == ([], [])


@pytest.mark.parametrize("other", ["same", "gone", "without an id", "another"])
def test_where_every_topic_that_was_copied_is_another_one_the_copies_are_kept(world: World, other: str) -> None:
    """The source was lost, and built anew under its former cluster id: the copies are all that is left of it."""
    before = "" if other == "without an id" else OLD
    world.state.apply(*Position(1, 1, 0, True, topic_id=before).record(TopicPartition("stays", 0)))
    world.ids |= {} if other == "gone" else {"stays": NEW if other == "another" else OLD}
    report = world.look()
    if other not in ("another", "gone"):
        assert (report.problems, len(world.deleted)) == ((), 1)
        return
    (problem,) = report.problems
    assert problem.startswith(
        "east.orders on west is not deleted to be made anew: no topic of east that was copied is the one that it was"
    )
    assert (world.deleted, world.written, world.most_bytes) == ([], [], {})
    # One that is translated goes on with the new topic, as does one whose copy somebody has deleted: that says nothing.
    stays = TopicPartition("stays", 0)
    world.state.apply(*Position(1, 1, 0, True, topic_id=NEW).record(stays))
    world.state.apply(*Gap(stays, 0, 5, "created anew", 1, GapKind.RECREATED, 5, OLD).record())
    assert (world.look().problems, world.deleted) == ((problem,), [])


def test_nothing_is_deleted_before_all_brokers_of_the_source_know_the_new_topic(world: World) -> None:
    for told in ({NEW, OLD}, {NEW, ""}, {OLD}, set()):
        world.told["orders"] = frozenset(told)
        assert (world.look().done, world.deleted, world.written) == (0, [], [])


def test_nothing_is_deleted_while_a_partition_may_be_appended_to_or_is_paused(world: World) -> None:
    world.stopped.clear()
    assert (world.look().done, world.deleted) == (0, [])


def test_a_copy_is_kept_if_the_flow_is_cut_while_it_is_being_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut is confirmed meanwhile, since nothing is appended; then applications go on with the copy."""
    monkeypatch.setattr(world, "pause", lambda _: world.stopped.clear())
    world.begin_anew(*ASKED)
    (problem,) = world.look().problems
    assert problem.startswith("east.orders on west is not deleted to be made anew: the flow was paused or cut")
    assert (world.deleted, world.written, world.most_bytes) == ([], [], {"east.orders": ""})
    assert world.state.closed == {}


def test_a_copy_is_kept_if_the_flow_is_cut_while_it_is_put_on_record_what_is_gone_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = World.append

    def cut(made: World, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        found = append(made, topic, partition, records)
        if made.state.gaps:
            made.stopped.clear()
        return found

    monkeypatch.setattr(World, "append", cut)
    (problem,) = world.look().problems
    assert problem.startswith("east.orders on west cannot be deleted to be made anew: the flow was paused or cut")
    assert (world.deleted, world.most_bytes, world.state.closed) == ([], {"east.orders": ""}, {})
    assert all("it is still there, with what it has" in gap.reason for gap in world.state.open_gaps)
