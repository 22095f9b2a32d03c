"""What a plan says of a flow beside the changes it lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from mirror.control.plan import FlowPlan, _aborted, _groups, _heartbeats_alone, _routes, _transforms
from mirror.control.topics import ClusterTopics
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import Topic
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from tests.unit.control.builders import flow_settings, topic

SMT = "org.apache.kafka.connect.transforms"


def notes(pattern: str, *more: str) -> tuple[str, ...]:
    settings = flow_settings(
        "topics = orders|bills",
        "east->west.transforms = mark",
        f"east->west.transforms.mark.type = {SMT}.InsertHeader",
        "east->west.transforms.mark.header = seen",
        "east->west.transforms.mark.value.literal = yes",
        "east->west.transforms.mark.predicate = chosen",
        "east->west.predicates = chosen",
        f"east->west.predicates.chosen.type = {SMT}.predicates.TopicNameMatches",
        f"east->west.predicates.chosen.pattern = {pattern}",
        *more,
    )
    topics: dict[str, Topic] = {name: topic(name, 1) for name in ("orders", "bills", "secret", "heartbeats")}
    return _transforms(ClusterTopics("east", Found(topics), Found(), 1), settings)


def test_each_transform_is_said_with_the_topics_it_gets() -> None:
    """Predicates see names on the target, as Connect's do: a pattern on the source's name chooses nothing."""
    assert notes("east[.].*") == ("transform mark gets bills, orders",)
    (none,) = notes("orders")
    assert none.startswith("transform mark gets NO topic: ")
    assert "like east.bills" in none
    assert notes("orders", "east->west.transforms.mark.negate = true") == ("transform mark gets bills, orders",)


def test_a_topic_that_a_router_sends_where_nothing_is_stands_in_the_way_of_the_plan() -> None:
    """Nobody creates it: the plan of a flow that got a router had no changes, and its engine copied nothing."""
    router = (
        "east->west.transforms = route",
        f"east->west.transforms.route.type = {SMT}.RegexRouter",
        r"east->west.transforms.route.regex = east\\.(.*)",
        "east->west.transforms.route.replacement = paid.$1",
    )
    east, west = (
        ClusterTopics(alias, Found({name: topic(name) for name in names}), Found(), 1)
        for alias, names in (("east", ("orders", "bills")), ("west", ("east.orders", "east.bills", "paid.bills")))
    )
    (row,) = _routes(east, west, flow_settings(*router), FlowState())
    assert (row["cluster"], row["action"]) == ("west", "problem")
    assert "orders is not copied: the transforms send it to paid.orders, which does not exist on west" in row["detail"]
    assert FlowPlan(Flow("east", "west"), [row], [], [], []).has_problems
    assert _routes(east, west, flow_settings(), FlowState()) == []


def test_a_flow_whose_topics_cannot_be_made_has_a_problem_of_its_own_in_json() -> None:
    """Whoever looked at that alone took the plan for one that can be carried out."""
    found = FlowPlan(
        Flow("east", "west"),
        [
            {"cluster": "west", "topic": "east.orders", "action": "create", "detail": "1 partition"},
            {"cluster": "west", "topic": "east.bills", "action": "problem", "detail": "it needs 3 brokers"},
            {"cluster": "west", "topic": "east.odd", "action": "problem", "detail": "it needs 4 brokers"},
        ],
        [],
        [],
        [],
    )
    assert found.as_json()["problem"] == "it needs 3 brokers (and 1 more)"
    assert FlowPlan(Flow("east", "west"), found.topics[:1], [], [], []).as_json()["problem"] is None


def test_of_a_flow_that_is_not_enabled_it_is_said_what_an_engine_writes_and_what_ends_that() -> None:
    """HB-02."""
    assert _heartbeats_alone(flow_settings(flow="west->east")) == (
        "west->east.enabled is not true, so no topic is copied; as in MirrorMaker an engine writes heartbeats of the "
        "flow to heartbeats on east all the same, unless west->east.emit.heartbeats.enabled = false"
    )


def test_that_aborted_records_are_ordinary_on_copies_with_the_source_s_offsets_is_said() -> None:
    """REC-08: readiness named it, and the plan of a flow whose offsets are to be the same did not."""
    same, committed = "mirror.offsets = same", "east.consumer.isolation.level = read_committed"
    (note,) = _aborted(flow_settings(same))
    assert note.startswith("records of aborted transactions of east are ordinary records on west")
    assert note.endswith(f"(isolation.level = read_uncommitted); to leave them out: {committed}")
    assert (_aborted(flow_settings(same, committed)), _aborted(flow_settings())) == ((), ())


def test_that_the_state_of_the_flow_back_is_hidden_is_said_with_the_right_that_tells() -> None:
    """It passed for a flow that never ran: groups that it had put on the source were carried on, and nobody knew."""
    state = "mm2-state.west.internal"
    source = SimpleNamespace(alias="east", groups=list, topics=lambda _: Found({}, {state: "not authorized"}))
    (note,) = _groups(cast(Any, source), flow_settings())
    assert note.startswith("whether a flow to east has put groups there")
    assert note.endswith(f"Describe and Read the topic {state} on east")
    assert _groups(cast(Any, source), flow_settings("emit.checkpoints.enabled = false")) == ()
