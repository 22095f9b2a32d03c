"""What copies with the source's offsets cost, and what keeps a partition from having them."""

from __future__ import annotations

from dataclasses import replace

from mirror.config.settings import SameOffsets
from mirror.control.same_offsets import (
    Begun,
    Logs,
    begun_copies,
    compacted,
    copies_with_same_offsets,
    from_origins,
    needed_rights,
    plan_same_offsets,
)
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.patterns import PatternList
from mirror.model.position import Position
from mirror.same_offsets.filling import Bounds
from tests.unit.control.builders import cluster, entry, flow_settings, topic

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
COPIED = Begun("go on", "copied already")
FLOW = Flow("east", "west")
EVERYTHING = SameOffsets(PatternList((".*",)), 1_000_000_000)


def row(
    source: Bounds, copy: Bounds, share: float = 0.0, limit: int = 1_000_000_000, *, is_cleaned: bool = False
) -> dict[str, str]:
    cleaned = frozenset({"east.orders"}) if is_cleaned else frozenset()
    logs = {ORDERS: Logs(source, copy, share)}
    (found,) = plan_same_offsets({ORDERS: COPY}, logs, cleaned, SameOffsets(PatternList((".*",)), limit), FLOW, {})
    return found


def test_a_dense_topic_that_has_its_first_record_costs_nothing() -> None:
    found = row(Bounds(0, 500), Bounds(0, 0))
    assert (found["action"], found["to pad"], found["markers"], found["minutes"]) == ("copy", "0", "none", "0.0")


def test_a_head_costs_offsets_bytes_and_minutes() -> None:
    found = row(Bounds(300_000_000, 300_000_500), Bounds(0, 0))
    assert (found["action"], found["to pad"], found["bytes"]) == ("fill", "300,000,000", "198,000,000")
    assert found["minutes"] == "5.0"


def test_holes_cost_markers_and_on_a_compacted_copy_tombstones() -> None:
    found = row(Bounds(0, 12_000), Bounds(0, 0), share=0.1)
    assert (found["action"], found["markers"], found["minutes"]) == ("fill", "about 1,200", "0.4")
    cleaned = row(Bounds(0, 12_000), Bounds(0, 0), share=0.1, is_cleaned=True)
    assert (cleaned["action"], cleaned["markers"], cleaned["bytes"]) == ("fill", "none", "480")
    assert "tombstones" in cleaned["detail"]


def test_a_partition_that_cannot_have_them_is_a_problem_by_name() -> None:
    over = row(Bounds(300, 400), Bounds(0, 0), limit=299)
    assert (over["partition"], over["action"]) == ("orders-0", "problem")
    assert "300 offsets are to be padded" in over["detail"]
    assert "mirror.offsets.pad.limit is 299" in over["detail"]
    filled = row(Bounds(0, 400), Bounds(0, 7))
    assert filled["action"] == "problem"
    assert filled["detail"].startswith("east.orders-0 on west: the copy holds the offsets 0 to 7")
    assert "original" not in filled["detail"]
    (untold,) = plan_same_offsets({ORDERS: COPY}, {}, frozenset(), EVERYTHING, FLOW, {})
    assert untold["action"] == "problem"


def test_under_an_unchanged_name_what_is_to_be_deleted_may_be_the_original() -> None:
    logs = {ORDERS: Logs(Bounds(0, 400), Bounds(0, 7), 0.0)}
    (found,) = plan_same_offsets({ORDERS: ORDERS}, logs, frozenset(), EVERYTHING, FLOW, {})
    assert found["detail"].startswith("orders-0 on west: the copy holds the offsets 0 to 7")
    assert "it may be the original: delete it only if all that is to be kept is on east" in found["detail"]


def test_a_partition_that_cannot_have_them_is_translated_where_that_is_asked_for() -> None:
    logs = {ORDERS: Logs(Bounds(0, 400), Bounds(0, 7), 0.0)}
    (found,) = plan_same_offsets({ORDERS: COPY}, logs, frozenset(), EVERYTHING, FLOW, {}, {"orders"})
    assert (found["partition"], found["action"]) == ("orders-0", "translate")
    assert "holds the offsets 0 to 7" in found["detail"]


def test_a_copy_that_is_gone_on_with_is_no_problem() -> None:
    logs = {ORDERS: Logs(Bounds(0, 400), Bounds(0, 7), 0.0)}
    (found,) = plan_same_offsets({ORDERS: COPY}, logs, frozenset(), EVERYTHING, FLOW, {ORDERS: COPIED})
    assert (found["action"], found["detail"]) == ("go on", "copied already")
    empty = {ORDERS: Logs(Bounds(0, 400), Bounds(0, 0), 0.0)}
    (found,) = plan_same_offsets({ORDERS: COPY}, empty, frozenset(), EVERYTHING, FLOW, {ORDERS: COPIED})
    assert found["action"] == "copy"


def test_copies_are_gone_on_with_that_this_flow_or_under_one_name_the_flow_back_has_begun() -> None:
    lines = (
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "mirror.offsets = same",
    )
    settings, pairs, east = flow_settings(*lines), {ORDERS: ORDERS}, cluster("east", topic("orders"))
    position = Position(7, 7, 0, True, same_offsets=True)
    assert begun_copies(pairs, east, settings, None, {ORDERS: position}) == {ORDERS: COPIED}
    assert begun_copies(pairs, east, settings, None, {ORDERS: replace(position, same_offsets=False)}) == {}
    (told,) = begun_copies(pairs, east, settings, settings, {}).values()
    assert told.action == "go on"
    assert "once west->east has copied it to east; else it may be the original" in told.detail
    assert begun_copies({ORDERS: COPY}, east, settings, settings, {}) == {}
    assert begun_copies(pairs, east, settings, flow_settings(lines[0]), {}) == {}


def test_the_copy_of_a_recreated_topic_is_a_problem_or_made_anew_as_the_file_says() -> None:
    position = Position(7, 7, 0, True, topic_id="O" * 22, same_offsets=True)
    east = cluster("east", replace(topic("orders"), topic_id="N" * 22))

    def action(*lines: str) -> str:
        settings = flow_settings("mirror.offsets = same", *lines)
        (told,) = begun_copies({ORDERS: COPY}, east, settings, None, {ORDERS: position}).values()
        assert "orders on east was deleted and created anew" in told.detail
        return told.action

    assert action() == "problem"
    assert action("mirror.offsets.recreated = make-anew") == "make anew"
    settings = flow_settings("mirror.offsets = same")
    same = {ORDERS: replace(position, topic_id="N" * 22)}
    assert begun_copies({ORDERS: COPY}, east, settings, None, same) == {ORDERS: COPIED}


def test_only_topics_that_are_chosen_have_them() -> None:
    upstream = cluster("east", topic("orders", 2), topic("bills"), topic("heartbeats"), topic("secret"))
    settings = flow_settings("topics = orders, bills", "mirror.offsets = same", "mirror.offsets.topics = ord.*")
    assert settings.same_offsets is not None
    assert copies_with_same_offsets(upstream, settings) == {
        TopicPartition("orders", number): TopicPartition("east.orders", number) for number in (0, 1)
    }


def test_a_copy_is_compacted_as_the_target_has_it_or_as_the_source_does_if_it_is_yet_to_be_made() -> None:
    clean = {"orders": [entry("cleanup.policy", "compact,delete")], "bills": [entry("cleanup.policy", "compact")]}
    upstream = cluster("east", topic("orders"), topic("bills"), configs=clean)
    downstream = cluster("west", topic("east.bills"), configs={"east.bills": [entry("cleanup.policy", "delete")]})
    assert compacted(upstream, downstream, flow_settings()) == {"east.orders"}


def test_rights_are_named_with_what_they_are_for() -> None:
    flow = Flow("east", "west")
    needed, many = needed_rights(flow, pads=True, writes_many=False)
    assert needed == (
        "needed on west: Write and Describe on the transactional id mm2-offsets.east.internal.west and Delete on the "
        "copies whose head is padded"
    )
    assert "grant Alter on the cluster" in many
    needed, many = needed_rights(flow, pads=False, writes_many=True)
    assert "Delete" not in needed
    assert many == "west lets the flow write many markers at once (Alter on the cluster)"
    needed, _ = needed_rights(flow, pads=False, writes_many=True, remakes=True)
    assert needed.endswith("; AlterConfigs, Delete and Create on the copies, to make those of recreated topics anew")


def test_with_latest_the_plan_counts_from_where_the_source_ends() -> None:
    """The plan said that nothing is to be padded, and the engine padded billions of offsets, or refused."""
    upstream, pairs = cluster("east", topic("orders", 1)), {ORDERS: COPY}
    logs = {ORDERS: Logs(Bounds(0, 5_000_000_000), Bounds(0, 0), 0.0)}
    for reset, action in (("earliest", "copy"), ("latest", "problem")):
        settings = flow_settings(f"east.consumer.auto.offset.reset = {reset}")
        counted = from_origins(logs, pairs, upstream, settings, None, {})
        (found,) = plan_same_offsets(pairs, counted, frozenset(), EVERYTHING, FLOW, {})
        assert found["action"] == action
    assert "5000000000 offsets are to be padded" in found["detail"]
