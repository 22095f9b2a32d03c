"""Policies and filters of one's own, and the old names of the policy of unchanged names (POL-05, CFG-005, CFG-022)."""

from __future__ import annotations

import pickle

import pytest

from mirror.config.connector_keys import IDENTITY_CLASSES
from mirror.config.errors import ConfigError
from mirror.model.references import Unusable
from mirror.model.topics import IdentityReplicationPolicy, is_cycle
from tests.unit.config.files import flows_of

POLICY = "replication.policy.class = "


@pytest.mark.parametrize("form", ["python:tests.naming:Suffixed", "tests.naming:Suffixed"])
def test_a_class_names_copies_and_reads_their_names(form: str) -> None:
    """It needs three methods; for the rest hold Java's defaults, whatever the separator is."""
    (flow,) = flows_of("A->B", more=f"{POLICY}{form}\nreplication.policy.separator = _")
    policy = flow.policy
    assert flow.copy_of("orders") == "orders@A"
    assert (policy.topic_source("orders@A"), policy.upstream_topic("orders@B@A")) == ("A", "orders@B")
    assert (policy.original_topic("orders@B@A"), policy.topic_source("orders")) == ("orders", None)
    assert (flow.offset_syncs_topic, flow.checkpoints_topic, flow.heartbeats_topic) == (
        "mm2-offset-syncs.B.internal",
        "A.checkpoints.internal",
        "heartbeats",
    )
    assert policy.is_heartbeats_topic("heartbeats@C")
    assert [
        policy.is_internal_topic(name) for name in ("__x", ".x", "mm2-a.internal", "a.checkpoints.internal", "x")
    ] == [*(True, True, True, True, False)]
    assert [is_cycle(name, policy=policy, flow=flow.flow) for name in ("orders", "orders@B", "orders@B@C", "x@C")] == [
        *(False, True, True, False)
    ]


def test_it_is_given_the_settings_of_its_connector_and_may_answer_everything_else_too() -> None:
    flows = flows_of("A->B", "B->A", more=f"{POLICY}tests.naming:Regional\nreplication.policy.region = eu")
    assert [flow.copy_of("orders") for flow in flows] == ["orders@eu-A", "orders@eu-B"]
    assert flows[0].heartbeats_topic == "pulse"


def test_settings_with_classes_of_one_s_own_go_to_other_processes() -> None:
    more = f"{POLICY}tests.naming:Suffixed\nA->B.topic.filter.class = python:tests.naming:Short"
    (flow,) = pickle.loads(pickle.dumps(flows_of("A->B", more=more)))
    assert (flow.copy_of("orders"), flow.replicates("orders"), flow.replicates("refunds")) == ("orders@A", True, False)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("com.example.MyPolicy", "one of your own is written python:package.module:Class"),
        ("python:nowhere_at_all:Policy", "cannot be imported"),
        ("tests.naming:Absent", "has no class Absent"),
        ("tests.naming:NOT_A_CLASS", "has no class NOT_A_CLASS"),
        ("tests.naming:Short", "has no method format_remote_topic"),
        ("tests.naming:Regional", "cannot be made: KeyError"),
        ("tests.naming:Mute", "returned '', which is not the name of a topic"),
        ("tests.naming:Angry", "raised LookupError: no such region"),
        ("tests.naming:Endless", "on and on"),
    ],
)
def test_a_policy_that_cannot_be_had_is_refused_with_its_line_and_key(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        flows_of("A->B", more=f"{POLICY}{name}")
    assert (refused.value.key, refused.value.line) == ("replication.policy.class", 5)
    assert said in str(refused.value)


def test_what_it_raises_later_names_it() -> None:
    (flow,) = flows_of("A->B", more=f"{POLICY}tests.naming:Suffixed")
    with pytest.raises(Unusable, match=r"tests\.naming:Suffixed: topic_source"):
        flow.policy.topic_source(7)  # type: ignore[arg-type]


def test_unchanged_names_of_one_s_own_policy_are_rings_as_well() -> None:
    more = f"{POLICY}tests.naming:Unchanged"
    assert len(flows_of("A->B", "B->A", more=more)) == 2
    with pytest.raises(ConfigError, match="would go round"):
        flows_of("A->B", "B->C", "C->A", more=more)


@pytest.mark.parametrize("name", IDENTITY_CLASSES)
def test_the_policy_of_unchanged_names_has_had_other_names(name: str) -> None:
    (flow,) = flows_of("A->B", more=f"{POLICY}{name}")
    assert isinstance(flow.policy, IdentityReplicationPolicy)
    assert (flow.copy_of("orders"), flow.copy_of("heartbeats")) == ("orders", "A.heartbeats")


def test_filters_of_one_s_own_for_topics_groups_and_settings() -> None:
    classes = "\n".join(f"{kind}.filter.class = tests.naming:Short" for kind in ("topic", "group", "config.property"))
    (flow,) = flows_of("A->B", more=f"{classes}\nA->B.letters = 5\nA->B.use.defaults.from = source")
    assert [flow.topic_filter.matches(name) for name in ("bills", "orders")] == [True, False]
    assert [flow.group_filter.matches(name) for name in ("bills", "orders")] == [True, False]
    assert not flow.config_property_filter.should_replicate("segment.bytes")
    assert flow.use_defaults_from == "source"
    assert flow.replicates("heartbeats"), "heartbeats pass whatever the filter says"


@pytest.mark.parametrize("key", ["topic.filter.class", "group.filter.class", "config.property.filter.class"])
def test_a_filter_that_cannot_be_had_is_refused_with_its_key(key: str) -> None:
    for name in ("com.example.MyFilter", "tests.naming:Suffixed"):
        with pytest.raises(ConfigError) as refused:
            flows_of("A->B", more=f"{key} = {name}")
        assert refused.value.key == key


def test_the_retention_that_kip_382_names_is_read_at_the_top_and_of_a_flow() -> None:
    more = "heartbeats.topic.retention.ms = 1000\nA->B.checkpoints.topic.retention.ms = -1"
    one, other = flows_of("A->B", "B->A", more=more)
    assert (one.heartbeats_retention_ms, one.checkpoints_retention_ms, one.offset_syncs_retention_ms) == (
        1000,
        -1,
        None,
    )
    assert (other.heartbeats_retention_ms, other.checkpoints_retention_ms) == (1000, None)
    with pytest.raises(ConfigError, match="at least -1"):
        flows_of("A->B", more="offset.syncs.topic.retention.ms = -2")
