"""What a plan says of a flow beside the changes it lists."""

from __future__ import annotations

from mirror.control.plan import FlowPlan, _transforms
from mirror.control.topics import ClusterTopics
from mirror.kafka.cluster import Found, Topic
from mirror.model.flow import Flow
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
