"""Which positions of the source's groups become checkpoints, and which checkpoints are written (CKP)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import cast

import pytest

from mirror.control.checkpoints import (
    CheckpointDecision,
    CheckpointsTick,
    last_checkpoints,
    plan_checkpoints,
    remote_partition,
    rereads,
)
from mirror.control.plan import _groups
from mirror.kafka.answers import Found
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupListing, GroupPosition, Topic
from mirror.kafka.log import NewRecord
from mirror.kafka.problems import ClusterError
from mirror.model.checkpoint import Checkpoint, CheckpointedCopy, CopyId
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.state_record import StateRecord
from mirror.model.state_values import checkpointed_record
from mirror.model.translation import Bounded, Exact, NothingRead, NotMirrored, TooOld, Translation
from tests.unit.control.builders import Table, at, flow_settings

ORDERS = TopicPartition("orders", 3)
COPY = TopicPartition("east.orders", 3)


def checkpoint(upstream: int, downstream: int, metadata: str = "") -> Checkpoint:
    return Checkpoint("billing", COPY, upstream, downstream, metadata)


def plan_one(position: GroupPosition, translation: Translation, last: Checkpoint | None = None) -> CheckpointDecision:
    known = {("billing", COPY): last} if last is not None else {}
    translator = Table({("orders", 3, position.position): translation})
    (decision,) = plan_checkpoints({"billing": {ORDERS: position}}, known, translator, flow_settings())
    return decision


def test_a_position_that_translates_becomes_a_checkpoint_with_its_text() -> None:
    """CKP-05, CKP-08."""
    decision = plan_one(at(100, "note"), Exact(42))
    assert decision.checkpoint == checkpoint(100, 42, "note")
    assert decision.is_news


def test_a_bounded_translation_is_a_checkpoint_too() -> None:
    decision = plan_one(at(100), Bounded(40, behind_records=2))
    assert decision.checkpoint == checkpoint(100, 40)
    assert decision.is_news


def test_a_position_that_cannot_be_translated_is_no_checkpoint_and_says_why() -> None:
    """CKP-10."""
    for refusal in (NotMirrored(), TooOld(500)):
        decision = plan_one(at(100), refusal, last=checkpoint(50, 20))
        assert decision.checkpoint is None
        assert not decision.is_news
        assert decision.reason


@pytest.mark.parametrize(
    ("position", "begin", "downstream"),
    [(99, Exact(7), 7), (100, Exact(7), None), (99, Exact(42), None), (99, NotMirrored(), None)],
)
def test_a_group_that_is_set_back_to_before_all_that_is_copied_goes_on_where_the_copy_begins(
    position: int, begin: Translation, downstream: int | None
) -> None:
    """By the checkpoint that it had a failover without the source would have put it behind what it is to read again."""
    translator = Table({("orders", 3, position): TooOld(500), ("orders", 3, 500): begin})
    (decision,) = plan_checkpoints(
        {"billing": {ORDERS: at(position)}}, {("billing", COPY): checkpoint(100, 42)}, translator, flow_settings()
    )
    assert decision.is_news is (downstream is not None)
    assert decision.checkpoint == (None if downstream is None else checkpoint(position, downstream))


def test_what_a_group_would_read_again_is_what_it_has_read_since_its_last_checkpoint() -> None:
    last = {("billing", COPY): checkpoint(100, 42)}
    assert rereads([plan_one(at(110), Exact(52))], last) == {"billing": 10}
    assert rereads([plan_one(at(110), Bounded(50, behind_records=2))] * 2, last) == {"billing": 20}
    assert rereads([plan_one(at(90), Exact(32))], last) == {"billing": 0}, "it went back by itself"
    for unknown in (NotMirrored(), TooOld(500)):
        assert rereads([plan_one(at(110), unknown)], last) == {}
    assert rereads([plan_one(at(110), Exact(52))], {}) == {}, "it has none that it could go on from"


def test_checkpoints_are_written_forwards_or_when_the_group_itself_went_back() -> None:
    """CKP-05, CKP-06: downstream went forward, or upstream went back; nothing else."""
    last = checkpoint(100, 42)
    assert plan_one(at(101), Exact(43), last).is_news
    assert plan_one(at(100), Exact(43), last).is_news
    assert plan_one(at(99), Exact(41), last).is_news
    assert not plan_one(at(100), Exact(42), last).is_news
    assert not plan_one(at(101), Exact(42), last).is_news
    assert not plan_one(at(101), Exact(41), last).is_news


def test_only_topics_that_pass_the_topic_filter_count() -> None:
    """SEL-10: the filter alone; heartbeats get no exception."""
    settings = flow_settings("topics = orders, app.internal")
    partitions = [TopicPartition(name, 0) for name in ("orders", "app.internal", "refunds", "heartbeats")]
    positions = {"billing": {partition: at(1) for partition in partitions}}
    translator = Table({(partition.topic, 0, 1): Exact(1) for partition in partitions})
    decisions = plan_checkpoints(positions, {}, translator, settings)
    assert [decision.source.topic for decision in decisions] == ["app.internal", "orders"]


def test_a_group_goes_on_with_the_copy_or_with_the_original_of_a_copy_from_the_target() -> None:
    """CKP-07."""
    settings = flow_settings()
    assert remote_partition(ORDERS, settings) == COPY
    assert remote_partition(TopicPartition("west.orders", 2), settings) == TopicPartition("orders", 2)
    assert remote_partition(TopicPartition("south.orders", 2), settings) == TopicPartition("east.south.orders", 2)


def test_the_last_record_of_a_group_and_partition_counts_and_what_does_not_parse_is_skipped() -> None:
    """CKP-03."""
    written = [checkpoint(1, 1), checkpoint(5, 4), checkpoint(3, 2)]
    records = [record(each.key_bytes(), each.value_bytes()) for each in written]
    records.insert(2, record(b"not", b"ours"))
    records.append(record(None, None))
    assert last_checkpoints(records) == {("billing", COPY): checkpoint(3, 2)}
    records.append(record(checkpoint(4, 4).key_bytes(), b"too short"))
    records.append(record(checkpoint(4, 4).key_bytes(), None))
    assert last_checkpoints(records) == {("billing", COPY): checkpoint(3, 2)}, "the last that is one"
    later = record(checkpoint(9, 9).key_bytes(), checkpoint(9, 9).value_bytes())
    assert last_checkpoints([later], last_checkpoints(records)) == {("billing", COPY): checkpoint(9, 9)}


class Source:
    """A cluster with three groups, of which one, and one partition of another, cannot be read."""

    def groups(self) -> list[GroupListing]:
        return [GroupListing(name, "consumer", "Empty", "classic") for name in ("audit", "billing", "stock")]

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        assert set(names) == {"audit", "billing", "stock"}
        return Found(
            {
                "billing": Found({ORDERS: at(5)}),
                "stock": Found({ORDERS: at(7)}, {TopicPartition("orders", 4): "UNKNOWN_TOPIC_OR_PARTITION"}),
            },
            {"audit": "GROUP_AUTHORIZATION_FAILED"},
        )


class Checkpoints:
    """The checkpoints topic: nothing in it yet, and what is appended."""

    loss: str | None = None

    def __init__(self) -> None:
        self.written: list[Checkpoint | None] = []

    def poll(self) -> list[Record]:
        return []

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        assert (topic, partition) == ("east.checkpoints.internal", 0)
        self.written += [Checkpoint.parse(key, value) for key, value, *_ in records]
        return 0


def test_a_group_that_cannot_be_read_is_told_and_the_others_get_their_checkpoints() -> None:
    """CKP-04."""
    log = Checkpoints()
    translator = Table({(*ORDERS, 5): Exact(2), (*ORDERS, 7): Exact(4)})
    tick = CheckpointsTick(flow_settings(), cast(Cluster, Source()), translator, log, log, clock=lambda: 9)
    report = tick.tick()
    assert log.written == [Checkpoint("billing", COPY, 5, 2, ""), Checkpoint("stock", COPY, 7, 4, "")]
    assert (report.done, report.problems) == (
        2,
        (
            "group audit on east: GROUP_AUTHORIZATION_FAILED",
            "group stock on east, orders-4: UNKNOWN_TOPIC_OR_PARTITION",
        ),
    )


class PutThere(Table):
    """A translator by which every group was put where it is by the flow in the other direction."""

    def placements(self) -> tuple[Placement, ...]:
        return tuple(Placement(group, ORDERS, 40, 5, 5) for group in ("billing", "stock"))

    def translate(self, group: str, source: TopicPartition, position: int) -> Translation:
        return NothingRead(position, 40) if position == 5 else super().translate(group, source, position)


def test_where_a_group_was_put_it_has_a_checkpoint_but_is_not_moved_by_it_nor_by_older_ones() -> None:
    """Applications that go on by it are told where it was; its own position on the target may be another by now."""
    older, later = Checkpoint("gone", COPY, 5, 30), Checkpoint("stock", COPY, 3, 35)
    log = Written(older, later)
    tick = CheckpointsTick(flow_settings(), cast(Cluster, Source()), PutThere({(*ORDERS, 7): Exact(44)}), log, log)
    assert tick.tick().done == 2
    assert log.written == [checkpoint(5, 40), Checkpoint("stock", COPY, 7, 44)]
    assert [(each.group, each.downstream) for each in tick.writable()] == [("gone", 30), ("stock", 44)]
    before_any_round = CheckpointsTick(flow_settings(), cast(Cluster, Source()), PutThere({}), log, log)
    before_any_round.latest = {("stock", COPY): later, ("gone", COPY): older}
    assert before_any_round.writable() == [older]


class Earlier:
    """Knows that all that was written before an offset is of an earlier copy, and by which it is to be replaced."""

    def __init__(self, since: int, *replaced_by: Checkpoint) -> None:
        self._since = since
        self._by = {(each.group, each.topic_partition): each for each in replaced_by}

    def is_current(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.offset is None or checkpoint.offset >= self._since

    def unrecorded(self, targets: Iterable[TopicPartition], since: int) -> list[CheckpointedCopy]:
        return [CheckpointedCopy(each, CopyId("source", "new", 1), since) for each in sorted(set(targets))]

    def lowered(self, checkpoint: Checkpoint) -> Checkpoint | None:
        return self._by.get((checkpoint.group, checkpoint.topic_partition))


class Written(Checkpoints):
    """A checkpoints topic with these, in which what is appended stands behind them."""

    def __init__(self, *there: Checkpoint) -> None:
        super().__init__()
        self._there = list(there)

    def poll(self) -> list[Record]:
        there, self._there = self._there, []
        return [Record(at, 0, each.key_bytes(), each.value_bytes(), (), -1) for at, each in enumerate(there)]

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        super().append(topic, partition, records)
        return 100


def test_checkpoints_of_an_earlier_copy_give_way_to_lower_ones_also_of_groups_that_are_gone() -> None:
    """And what they are of is on record before the first of them stands there."""
    old, gone, lost = checkpoint(5, 900), Checkpoint("gone", COPY, 7, 800), Checkpoint("lost", COPY, 7, 800)
    log, recorded = Written(old, gone, lost), list[StateRecord]()
    lower = Checkpoint("gone", COPY, 7, 40)
    tick = CheckpointsTick(
        flow_settings(),
        cast(Cluster, Source()),
        Table({(*ORDERS, 5): Exact(2), (*ORDERS, 7): Exact(4)}),
        log,
        log,
        copies=Earlier(3, lower),
        record=recorded.extend,
    )
    assert tick.tick().done == 3
    assert log.written == [checkpoint(5, 2), Checkpoint("stock", COPY, 7, 4), lower]
    assert recorded == [checkpointed_record(CheckpointedCopy(COPY, CopyId("source", "new", 1), 3))]
    # What nothing takes the place of is written for nobody.
    assert sorted(each.group for each in tick.writable()) == ["billing", "gone", "stock"]
    assert tick.tick().done == 0


class Growing(Checkpoints):
    """A checkpoints topic that may be deleted, and keeps from which offset on checkpoints count."""

    since = 300

    def __init__(self) -> None:
        super().__init__()
        self.there: list[Checkpoint] = []
        self._end = 300

    def poll(self) -> list[Record]:
        there, self.there = self.there, []
        return [Record(at, 0, each.key_bytes(), each.value_bytes(), (), -1) for at, each in enumerate(there)]

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        super().append(topic, partition, records)
        first, self._end = self._end, self._end + len(records)
        return first

    def is_deleted(self, *but: Checkpoint) -> None:
        self.there, self._end, self.written = list(but), len(but), []

    def is_current(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.offset is None or checkpoint.offset >= self.since

    def unrecorded(self, targets: Iterable[TopicPartition], since: int) -> list[CheckpointedCopy]:
        return [CheckpointedCopy(COPY, CopyId("s", "t", 0), since)] if self.since > since else []

    def lowered(self, checkpoint: Checkpoint) -> Checkpoint | None:
        return None

    def record(self, records: Sequence[StateRecord]) -> None:
        for _, value in records:
            self.since = json.loads(value or b"")["since"]


def of_a_growing_topic(log: Growing, positions: dict[int, int], *groups: str) -> tuple[CheckpointsTick, Changing]:
    source = Changing(*groups)
    table = Table({(*ORDERS, up): Exact(down) for up, down in positions.items()})
    tick = CheckpointsTick(flow_settings(), cast(Cluster, source), table, log, log, copies=log, record=log.record)
    return tick, source


def test_a_checkpoints_topic_that_was_deleted_gets_its_checkpoints_again_also_of_groups_that_are_gone() -> None:
    log = Growing()
    tick, source = of_a_growing_topic(log, {5: 2}, "billing", "gone")
    assert (tick.tick().done, log.since) == (2, 0), "the topic was younger than what was on record of it"
    source.names = ("billing",)
    log.is_deleted()
    log.loss = "it was deleted"
    assert tick.tick().done == 2
    assert log.written == [checkpoint(5, 2), Checkpoint("gone", COPY, 5, 2)]
    assert sorted(each.group for each in tick.writable()) == ["billing", "gone"]
    assert (log.loss, tick.tick().done) == (None, 0)


def test_what_a_checkpoints_topic_has_lost_is_written_by_a_later_round_if_the_source_is_away() -> None:
    log = Growing()
    tick, source = of_a_growing_topic(log, {5: 2}, "billing", "gone")
    tick.tick()
    source.names = ("billing",)
    log.is_deleted(Checkpoint("gone", COPY, 4, 1))
    log.loss, source.is_away = "it was truncated", True
    assert not tick.tick().is_ok
    log.is_deleted(Checkpoint("other", COPY, 4, 1))
    log.loss, source.is_away = "it was truncated again", False
    tick.tick()
    assert log.written == [checkpoint(5, 2), Checkpoint("gone", COPY, 5, 2)]


def test_of_what_a_checkpoints_topic_has_lost_that_of_an_earlier_copy_is_not_written_again() -> None:
    log = Growing()
    log.there = [Checkpoint("gone", COPY, 5, 900)]
    tick, _ = of_a_growing_topic(log, {5: 2}, "billing")
    log.since = 1
    tick.tick()
    log.is_deleted()
    log.loss = "it was deleted"
    tick.tick()
    assert log.written == [checkpoint(5, 2)]


def test_where_checkpoints_come_to_stand_in_a_topic_that_was_deleted_meanwhile_goes_on_record() -> None:
    """Between reading and writing, or by a cluster without topic ids that tells no loss."""
    log = Growing()
    tick, source = of_a_growing_topic(log, {5: 2, 6: 3}, "billing")
    tick.tick()
    log.since = 200
    log.is_deleted()
    source.at = 6
    tick.tick()
    assert (log.written, log.since) == ([checkpoint(6, 3)], 0)
    assert [each.downstream for each in tick.writable()] == [3]


class Changing:
    """A cluster whose groups change, and where a group moves on while it is looked at."""

    def __init__(self, *groups: str) -> None:
        self.names = groups
        self.seen: list[str] = []
        self.is_hanging = self.is_away = False
        self.at = 5

    def groups(self) -> list[GroupListing]:
        if self.is_hanging:
            raise ClusterError("east", "listing groups", "no answer")
        return [GroupListing(name, "consumer", "Empty", "classic") for name in self.names]

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        self.seen.append("positions")
        if self.is_away:
            raise ClusterError("east", "reading positions", "no answer")
        self.asked = tuple(names)
        return Found({name: Found({ORDERS: at(self.at)}) for name in names})


def test_a_group_that_came_later_gets_its_checkpoint_too_unless_groups_are_not_refreshed() -> None:
    """CKP-01."""
    for lines, groups in ((), {"billing", "stock"}), (("refresh.groups.enabled = false",), {"billing"}):
        source, log = Changing("billing"), Checkpoints()
        tick = CheckpointsTick(flow_settings(*lines), cast(Cluster, source), Table({(*ORDERS, 5): Exact(2)}), log, log)
        tick.tick()
        source.names = ("billing", "stock")
        tick.tick()
        assert {each.group for each in log.written if each} == groups


def test_while_a_broker_does_not_say_which_groups_it_has_those_known_before_go_on() -> None:
    """A list that may be short is not given; without one before there is nothing to go on with."""
    source, log = Changing("billing"), Checkpoints()
    tick = CheckpointsTick(flow_settings(), cast(Cluster, source), Table({(*ORDERS, 5): Exact(2)}), log, log)
    source.is_hanging = True
    assert not tick.tick().is_ok
    assert log.written == []
    source.is_hanging = False
    tick.tick()
    source.is_hanging = True
    before = len(source.seen)
    (problem,) = tick.tick().problems
    assert problem == "groups that are new are not looked for: cluster east: listing groups: no answer"
    assert (source.seen[before:], source.asked) == (["positions"], ("billing",))


def test_what_is_not_known_of_groups_is_noted_where_there_are_positions() -> None:
    source, log = Changing("billing"), Checkpoints()
    table, notes = Table({(*ORDERS, 5): Exact(2)}), lambda: ("a state is hidden",)
    tick = CheckpointsTick(flow_settings(), cast(Cluster, source), table, log, log, notes=notes)
    source.names = ()
    assert tick.tick().notes == ()
    source.names = ("billing",)
    assert (tick.tick().notes, tick.tick().problems) == (("a state is hidden",), ())


def test_positions_are_read_before_what_is_known_to_be_copied() -> None:
    """The other way round a position may be ahead of the map."""
    source, log = Changing("billing"), Checkpoints()
    CheckpointsTick(
        flow_settings(),
        cast(Cluster, source),
        Table({}),
        log,
        log,
        before_translating=lambda: source.seen.append("maps"),
    ).tick()
    assert source.seen == ["positions", "maps"]


def test_a_group_whose_position_is_known_gets_its_checkpoint_by_that_and_not_by_the_one_of_an_earlier_copy() -> None:
    log = Written(checkpoint(5, 900))
    tick = CheckpointsTick(
        flow_settings(),
        cast(Cluster, Changing("billing")),
        Table({(*ORDERS, 5): Exact(2)}),
        log,
        log,
        copies=Earlier(3, checkpoint(5, 1)),
    )
    assert tick.tick().done == 1
    assert log.written == [checkpoint(5, 2)]


def test_of_the_groups_of_a_cluster_the_consumers_that_pass_the_filter_count() -> None:
    """CKP-01, GOS-09: positions of others are not even asked for."""

    class Mixed(Changing):
        def groups(self) -> list[GroupListing]:
            kinds = {"billing": "consumer", "sharing": "share", "excluded": "consumer"}
            return [GroupListing(name, kind, "Empty", "classic") for name, kind in kinds.items()]

        def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
            assert set(names) == {"billing"}
            return super().positions_of_groups(names)

    log = Checkpoints()
    settings = flow_settings("groups.exclude = excluded")
    tick = CheckpointsTick(settings, cast(Cluster, Mixed()), Table({(*ORDERS, 5): Exact(2)}), log, log)
    assert tick.tick().done == 1
    assert log.written == [checkpoint(5, 2)]


def test_groups_that_pass_the_filter_and_are_not_mirrored_for_their_kind_are_named_with_the_reason() -> None:
    """GOS-09: the note stays while a broker does not say which groups it has."""
    source = OfAllKinds("billing")
    tick = CheckpointsTick(
        flow_settings("groups.exclude = excluded"), cast(Cluster, source), Table({}), Checkpoints(), Checkpoints()
    )
    shared, streaming = tick.tick().notes
    assert shared.startswith(
        "share groups (KIP-932) match the flow's groups and are not mirrored: "
        "queue-0, queue-1, queue-2, queue-3, queue-4 and 1 more; "
    )
    assert streaming.startswith("streams groups (KIP-1071) match the flow's groups and are not mirrored: stock; ")
    assert "set on west where they begin" in streaming
    source.is_hanging = True
    assert tick.tick().notes == (shared, streaming)


def test_a_plan_names_the_groups_that_are_not_mirrored_for_their_kind() -> None:
    source = OfAllKinds("billing")
    shared, streaming = _groups(cast(Cluster, source), flow_settings("groups = queue-.*|stock"))
    assert ("queue-0" in shared, ": stock; " in streaming) == (True, True)
    assert _groups(cast(Cluster, source), flow_settings("groups = billing")) == ()
    assert _groups(cast(Cluster, source), flow_settings("emit.checkpoints.enabled = false")) == ()
    source.is_hanging = True
    (unknown,) = _groups(cast(Cluster, source), flow_settings())
    assert unknown == "whether all groups can be mirrored is not known: cluster east: listing groups: no answer"


class OfAllKinds(Changing):
    """A source with groups of all kinds beside its consumers, and no flow into it."""

    alias = "east"

    def topics(self, names: Collection[str]) -> Found[str, Topic]:
        return Found()

    def groups(self) -> list[GroupListing]:
        kinds = {**{f"queue-{number}": "share" for number in range(6)}, "stock": "streams", "excluded": "share"}
        return [*super().groups(), *(GroupListing(name, kind, "Empty", kind) for name, kind in kinds.items())]


def test_where_there_is_no_news_nothing_is_written_nor_read_again() -> None:
    source, log, reads = Changing("billing"), Checkpoints(), list[None]()
    tick = CheckpointsTick(
        flow_settings(),
        cast(Cluster, source),
        Table({(*ORDERS, 5): Exact(2)}),
        log,
        log,
        before_translating=lambda: reads.append(None),
        copies=Earlier(0),
    )
    tick.tick()
    assert (len(log.written), len(reads)) == (1, 2), "what the new checkpoints are of is read back before they count"
    log.append = None  # type: ignore[assignment,method-assign]
    assert tick.tick().done == 0
    assert len(reads) == 3


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, 0, key, value, (), -1)
