"""Every partition of the source goes to one partition of the target, and none of the target has two sources."""

from __future__ import annotations

from mirror.control.routes import plan_routes
from mirror.kafka.cluster_model import Topic
from mirror.model.partition import TopicPartition
from tests.unit.control.builders import flow_settings, topic

CONNECT = "org.apache.kafka.connect.transforms."


def router(regex: str, replacement: str) -> tuple[str, ...]:
    return (
        "east->west.transforms = r",
        f"east->west.transforms.r.type = {CONNECT}RegexRouter",
        f"east->west.transforms.r.regex = {regex}",
        f"east->west.transforms.r.replacement = {replacement}",
    )


def named(*topics: Topic) -> dict[str, Topic]:
    return {each.name: each for each in topics}


def test_copies_that_are_still_to_be_created_or_to_grow_are_waited_for() -> None:
    source = named(topic("bills"), topic("orders", 3))
    routes = plan_routes(source, named(topic("east.orders", 2)), flow_settings())
    assert [(str(each), str(copy)) for each, copy, *_ in routes.partitions] == [
        ("orders-0", "east.orders-0"),
        ("orders-1", "east.orders-1"),
    ]
    assert routes.problems == ()


def test_a_topic_sent_elsewhere_is_copied_there() -> None:
    source, target = named(topic("orders", 2)), named(topic("east.orders", 2), topic("orders", 2))
    routes = plan_routes(source, target, flow_settings(*router("east\\\\.(.*)", "$1")))
    assert [str(copy) for _, copy, *_ in routes.partitions] == ["orders-0", "orders-1"]
    assert routes.problems == ()


def test_where_it_is_sent_must_be_there_with_all_partitions() -> None:
    source = named(topic("bills"), topic("orders", 3))
    routes = plan_routes(source, named(topic("orders", 2)), flow_settings(*router("east\\\\.(.*)", "$1")))
    assert [str(copy) for _, copy, *_ in routes.partitions] == ["orders-0", "orders-1"]
    missing, small = routes.problems
    assert "bills is not copied: the transforms send it to bills, which does not exist on west" in missing
    assert "orders is not copied whole" in small
    assert "create it with 3 partitions" in small


def test_two_topics_sent_to_one_are_not_mixed() -> None:
    """The one that was copied before goes on; a new topic does not stop it."""
    source, target = named(topic("bills"), topic("orders")), named(topic("all", 1))
    settings = flow_settings(*router(".*", "all"))
    first = plan_routes(source, target, settings)
    assert [str(each) for each, *_ in first.partitions] == ["bills-0"]
    assert (
        "orders is not copied: the transforms send it to all, which is the copy of bills already" in first.problems[0]
    )
    later = plan_routes(source, target, settings, {TopicPartition("orders", 0)})
    assert [str(each) for each, *_ in later.partitions] == ["orders-0"]
