"""Which topics a flow creates, grows and configures on its target (TOP, TCS, SEL-02)."""

from __future__ import annotations

from mirror.control.topics import Growth, expected_problems, plan_internal_topics, plan_topics
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from tests.unit.control.builders import cluster, entry, flow_settings, topic

DEFAULT = "DEFAULT_CONFIG"


def test_a_missing_copy_is_created_with_the_partitions_of_the_source_and_the_factor_of_the_flow() -> None:
    """TOP-01, SEL-02: selected topics only, heartbeats always, nothing internal, nothing that came from the target."""
    source = cluster(
        "east",
        *(topic("orders", 3), topic("heartbeats"), topic("west.orders"), topic("mm2-offset-syncs.west.internal")),
        topic("refunds"),
    )
    settings = flow_settings("topics = orders, west.*, mm2.*", "replication.factor = 2")
    plan = plan_topics(source, cluster("west", brokers=2), settings)
    assert plan.creates == (NewTopic("east.heartbeats", 1, 2, {}), NewTopic("east.orders", 3, 2, {}))
    assert plan.problems == ()


def test_a_copy_is_grown_to_the_source_and_never_shrunk() -> None:
    """TOP-02."""
    source = cluster("east", topic("more", 5), topic("less", 1), topic("same", 2))
    target = cluster("west", topic("east.more", 3), topic("east.less", 4), topic("east.same", 2))
    plan = plan_topics(source, target, flow_settings())
    assert plan.growths == (Growth("east.more", 3, 5),)
    assert plan.creates == ()


def test_with_unchanged_names_the_topic_of_the_same_name_is_the_copy() -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    plan = plan_topics(
        cluster("east", topic("orders", 2)), cluster("west", topic("orders", 1)), flow_settings(identity)
    )
    assert plan.growths == (Growth("orders", 1, 2),)


def test_a_new_copy_gets_the_sources_own_settings_only() -> None:
    """TCS-02, TCS-03, TCS-07: not read-only, not sensitive, not from the broker's file, not excluded, no defaults."""
    entries = [
        entry("cleanup.policy", "compact"),
        entry("retention.bytes", "7", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        entry("segment.bytes", "9", DEFAULT),
        entry("compression.type", "lz4", "STATIC_BROKER_CONFIG"),
        entry("min.insync.replicas", "2"),
        entry("frozen", "1", is_read_only=True),
        entry("secret", "1", is_sensitive=True),
        entry("empty", None),
    ]
    source = cluster("east", topic("orders"), configs={"orders": entries})
    (created,) = plan_topics(source, cluster("west"), flow_settings()).creates
    assert created.configs == {"cleanup.policy": "compact", "retention.bytes": "7"}
    with_defaults = flow_settings("east->west.use.defaults.from = source")
    (created,) = plan_topics(source, cluster("west"), with_defaults).creates
    assert created.configs == {"cleanup.policy": "compact", "retention.bytes": "7", "segment.bytes": "9"}


def test_a_copys_settings_follow_the_source_and_only_differences_are_changed() -> None:
    """TCS-01, TCS-04, TCS-05, TCS-08."""
    source = cluster(
        "east",
        topic("orders"),
        configs={
            "orders": [
                entry("cleanup.policy", "compact"),
                entry("retention.ms", "60", "DYNAMIC_TOPIC_CONFIG"),
                entry("max.message.bytes", "50"),
                entry("segment.bytes", "1", DEFAULT),
                entry("segment.ms", "2", DEFAULT),
                entry("min.insync.replicas", "2"),
            ]
        },
    )
    target = cluster(
        "west",
        topic("east.orders"),
        configs={
            "east.orders": [
                entry("cleanup.policy", "delete", DEFAULT),
                entry("retention.ms", "60"),
                entry("max.message.bytes", "50", DEFAULT),
                entry("segment.bytes", "5"),
                entry("segment.ms", "2", DEFAULT),
                entry("min.insync.replicas", "1"),
            ]
        },
    )
    plan = plan_topics(source, target, flow_settings())
    wanted = ConfigChange({"cleanup.policy": "compact", "max.message.bytes": "50"}, ("segment.bytes",))
    assert plan.config_changes == {"east.orders": wanted}
    from_source = plan_topics(source, target, flow_settings("east->west.use.defaults.from = source"))
    assert from_source.config_changes == {
        "east.orders": ConfigChange(
            {"cleanup.policy": "compact", "max.message.bytes": "50", "segment.bytes": "1", "segment.ms": "2"}
        )
    }
    assert plan_topics(source, target, flow_settings("sync.topic.configs.enabled = false")).is_empty


def test_what_closes_a_topic_to_be_made_anew_is_neither_copied_to_the_other_side_nor_taken_back_there() -> None:
    """Applications on the other side go on writing, and nothing comes into what is deleted in the next moment."""
    closed, usual = entry("max.message.bytes", "0"), entry("max.message.bytes", "1048588", DEFAULT)
    retention = entry("retention.ms", "60")
    source = cluster("east", topic("orders"), configs={"orders": [closed, retention]})
    copy = cluster("west", topic("east.orders"), configs={"east.orders": [usual]})
    assert plan_topics(source, copy, flow_settings()).config_changes == {
        "east.orders": ConfigChange({"retention.ms": "60"})
    }
    (created,) = plan_topics(source, cluster("west"), flow_settings()).creates
    assert created.configs == {"retention.ms": "60"}

    closed_copy = cluster("west", topic("east.orders"), configs={"east.orders": [closed, entry("retention.ms", "7")]})
    for value in (usual, entry("max.message.bytes", "50")):
        source = cluster("east", topic("orders"), configs={"orders": [value, retention]})
        for defaults in ("target", "source"):
            changes = plan_topics(source, closed_copy, flow_settings(f"east->west.use.defaults.from = {defaults}"))
            assert changes.config_changes == {"east.orders": ConfigChange({"retention.ms": "60"})}
            assert "east.orders on west takes no records" in changes.blocked["east.orders"]


def test_a_setting_that_falls_back_to_the_sources_broker_file_leaves_the_copys_own_alone() -> None:
    """TCS-06."""
    source = cluster("east", topic("orders"), configs={"orders": [entry("retention.ms", "1", "STATIC_BROKER_CONFIG")]})
    target = cluster("west", topic("east.orders"), configs={"east.orders": [entry("retention.ms", "9")]})
    assert plan_topics(source, target, flow_settings()).is_empty


def test_where_the_targets_settings_cannot_be_read_all_are_sent() -> None:
    entries = [entry("cleanup.policy", "compact"), entry("segment.bytes", "1", DEFAULT)]
    source = cluster("east", topic("orders"), configs={"orders": entries})
    target = cluster("west", topic("east.orders"), unreadable={"east.orders": "TOPIC_AUTHORIZATION_FAILED"})
    plan = plan_topics(source, target, flow_settings())
    assert plan.config_changes == {"east.orders": ConfigChange({"cleanup.policy": "compact"}, ("segment.bytes",))}


def test_a_topic_whose_settings_cannot_be_read_is_a_problem_of_that_topic_only() -> None:
    """TOP-06 would give up on all topics."""
    source = cluster("east", topic("orders"), topic("refunds"), unreadable={"orders": "TOPIC_AUTHORIZATION_FAILED"})
    plan = plan_topics(source, cluster("west"), flow_settings())
    assert [created.name for created in plan.creates] == ["east.refunds"]
    (problem,) = plan.problems
    assert problem == (
        "the settings of topic orders on east cannot be read (TOPIC_AUTHORIZATION_FAILED): "
        "it is not created on the target until then"
    )


def test_settings_that_cannot_be_read_are_told_and_those_that_were_not_asked_for_are_not() -> None:
    target = cluster("west", topic("east.orders"), topic("east.refunds"))
    source = cluster("east", topic("orders"), topic("refunds"), unreadable={"orders": "TOPIC_AUTHORIZATION_FAILED"})
    del source.configs["refunds"]
    plan = plan_topics(source, target, flow_settings())
    assert plan.is_empty
    (problem,) = plan.problems
    assert problem.endswith("they are not synchronized until then")


def test_a_replication_factor_the_target_cannot_give_is_said_with_the_key_to_set() -> None:
    plan = plan_topics(
        cluster("east", topic("orders")), cluster("west"), flow_settings("east->west.replication.factor = 3")
    )
    assert plan.creates == ()
    assert plan.problems == (
        (
            "topic east.orders on west needs replication factor 3, but the cluster has 1 broker: "
            "set replication.factor=1"
        ),
    )
    for none in (0, -2):
        nobody_has = flow_settings(f"east->west.replication.factor = {none}")
        (problem,) = plan_topics(cluster("east", topic("orders")), cluster("west"), nobody_has).problems
        assert problem.endswith(f"cannot have replication factor {none}: set replication.factor to 1 or more")
    broker_default = flow_settings("east->west.replication.factor = -1")
    assert plan_topics(cluster("east", topic("orders")), cluster("west"), broker_default).problems == ()


def test_a_factor_that_no_new_copy_could_have_is_told_before_there_is_one() -> None:
    """The flow ran for months, and was degraded by the first topic that somebody created."""
    settings = flow_settings("replication.factor = 3")
    assert expected_problems(cluster("west", topic("east.orders")), settings) == (
        (
            "should a topic appear on east, it could not be copied: replication.factor = 3, and west has 1 broker; "
            "start the others, or set replication.factor=1"
        ),
    )
    assert expected_problems(cluster("west", brokers=3), settings) == ()
    assert expected_problems(cluster("west"), flow_settings("replication.factor = -1")) == ()
    (no_replica,) = expected_problems(cluster("west"), flow_settings("replication.factor = 0"))
    assert no_replica.endswith("it could not be copied: replication.factor = 0; set it to 1 or more")


def test_an_enabled_flow_gets_its_side_topics_compacted_each_where_it_belongs() -> None:
    """TOP-07, DED-03, section 3.1; what an engine reads at its start is compacted by small segments."""
    compact = {"cleanup.policy": "compact"}
    plan = plan_internal_topics(cluster("east"), cluster("west"), flow_settings())
    assert plan.source.creates == (NewTopic("mm2-offset-syncs.west.internal", 1, 1, compact),)
    assert {created.name: created.partitions for created in plan.target.creates} == {
        "heartbeats": 1,
        "mm2-offsets.east.internal": 25,
        "mm2-state.east.internal": 1,
        "east.checkpoints.internal": 1,
    }
    configs = {created.name: created.configs for created in plan.target.creates}
    assert configs.pop("mm2-state.east.internal") == {**compact, "segment.bytes": "16777216"}
    assert all(each == compact for each in configs.values())


def test_offset_syncs_may_live_on_the_target_or_nowhere() -> None:
    on_target = plan_internal_topics(
        cluster("east"), cluster("west"), flow_settings("offset-syncs.topic.location = target")
    )
    assert on_target.source.is_empty
    assert "mm2-offset-syncs.east.internal" in {created.name for created in on_target.target.creates}


def test_a_flow_that_only_beats_gets_the_heartbeats_topic_alone() -> None:
    """HB-02."""
    settings = flow_settings(flow="west->east")
    assert not settings.enabled
    plan = plan_internal_topics(cluster("west"), cluster("east"), settings)
    assert plan.source.is_empty
    assert [created.name for created in plan.target.creates] == ["heartbeats"]


def test_an_existing_side_topic_is_left_alone_unless_it_forgets() -> None:
    forgetful = {"heartbeats": [entry("cleanup.policy", "delete", DEFAULT)]}
    target = cluster("west", topic("heartbeats"), topic("east.checkpoints.internal"), configs=forgetful)
    plan = plan_internal_topics(cluster("east"), target, flow_settings())
    assert {created.name for created in plan.target.creates} == {"mm2-offsets.east.internal", "mm2-state.east.internal"}
    (problem,) = plan.target.problems
    assert problem.startswith("topic heartbeats on west has cleanup.policy=delete")


def test_parked_records_have_a_topic_that_keeps_them_for_good_if_they_are_to_be_parked() -> None:
    """However large they are; a topic that does not keep them is told of."""
    parks, name = flow_settings("mirror.oversized.records = park"), "mm2-parked.east.internal"
    (made,) = [
        each
        for each in plan_internal_topics(cluster("east"), cluster("west"), parks).target.creates
        if each.name == name
    ]
    assert (made.partitions, made.configs) == (
        1,
        {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": "104857600"},
    )
    kept = (entry("cleanup.policy", "delete"), entry("retention.ms", "604800000"), entry("max.message.bytes", "5"))
    target = cluster("west", topic(name), configs={name: kept})
    (problem,) = plan_internal_topics(cluster("east"), target, parks).target.problems
    assert problem.startswith(f"topic {name} on west has retention.ms=604800000")
    assert name not in str(plan_internal_topics(cluster("east"), target, flow_settings()))


def test_a_side_topics_replication_factor_is_named_by_its_own_key() -> None:
    settings = flow_settings("offset-syncs.topic.replication.factor = 3")
    plan = plan_internal_topics(cluster("east"), cluster("west"), settings)
    assert plan.source.problems == (
        (
            "topic mm2-offset-syncs.west.internal on east needs replication factor 3, "
            "but the cluster has 1 broker: set offset-syncs.topic.replication.factor=1"
        ),
    )


def test_a_plan_can_be_shown_as_a_table() -> None:
    source = cluster(
        "east",
        *(topic("new", 2), topic("grown", 3), topic("hidden")),
        configs={"new": [entry("cleanup.policy", "compact")], "grown": [entry("retention.ms", "1")]},
        unreadable={"hidden": "TOPIC_AUTHORIZATION_FAILED"},
    )
    rows = plan_topics(source, cluster("west", topic("east.grown", 1)), flow_settings()).rows()
    assert [(row["topic"], row["action"]) for row in rows] == [
        ("east.new", "create"),
        ("east.grown", "add partitions"),
        ("east.grown", "set"),
        ("east.hidden", "problem"),
    ]
    assert rows[0]["detail"] == "2 partitions, replication factor 1, cleanup.policy=compact"
    assert rows[1]["detail"] == "1 -> 3"
