"""Replication policies and topic selection: sections 2.1 and 2.2 of the inventory."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.flow import Flow
from mirror.model.patterns import PatternFilter
from mirror.model.topics import (
    DefaultReplicationPolicy,
    Generation,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    is_cycle,
    replicates,
)
from tests.strategies import SEPARATORS, TOPIC_NAMES, aliases

DEFAULT = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source_alias="A")
A_TO_B = Flow("A", "B")
EVERYTHING = PatternFilter()
NOTHING = PatternFilter(include=())


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original", "is_heartbeats"),
    [
        ("orders", None, None, "orders", False),
        ("A.orders", "A", "orders", "orders", False),
        ("B.A.orders", "B", "A.orders", "orders", False),
        ("orders.v1", "orders", "v1", "v1", False),
        (".b", "", "b", "b", False),
        ("a.", None, None, "a.", False),
        ("a..b", "a", ".b", "b", False),
        ("heartbeats", None, None, "heartbeats", True),
        ("A.heartbeats", "A", "heartbeats", "heartbeats", True),
        ("myheartbeats", None, None, "myheartbeats", False),
        ("app.internal", "app", "internal", "internal", False),
        ("A.checkpoints.internal", "A", "checkpoints.internal", "internal", False),
    ],
)
def test_the_default_policy_reads_the_golden_names(
    topic: str, source: str | None, upstream: str | None, original: str, is_heartbeats: bool
) -> None:
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert DEFAULT.original_topic(topic) == original
    assert DEFAULT.is_heartbeats_topic(topic) is is_heartbeats


@pytest.mark.parametrize(
    ("topic", "remote", "source", "upstream"),
    [
        ("orders", "orders", "A", "orders"),
        ("A.orders", "A.orders", "A", "A.orders"),
        ("heartbeats", "A.heartbeats", None, None),
        ("A.heartbeats", "A.A.heartbeats", "A", "heartbeats"),
        ("myheartbeats", "A.myheartbeats", None, None),
    ],
)
def test_the_identity_policy_renames_only_what_ends_in_heartbeats(
    topic: str, remote: str, source: str | None, upstream: str | None
) -> None:
    """POL-01, POL-02."""
    assert IDENTITY.format_remote_topic("A", topic) == remote
    assert IDENTITY.topic_source(topic) == source
    assert IDENTITY.upstream_topic(topic) == upstream


@pytest.mark.parametrize(
    ("separator", "syncs", "checkpoints"),
    [
        ("_", "mm2-offset-syncs_B_internal", "A_checkpoints_internal"),
        ("__", "mm2-offset-syncs__B__internal", "A__checkpoints__internal"),
        ("-", "mm2-offset-syncs-B-internal", "A-checkpoints-internal"),
    ],
)
def test_internal_names_follow_the_separator_of_both_policies(separator: str, syncs: str, checkpoints: str) -> None:
    """POL-03, CFG-007."""
    for policy in (DefaultReplicationPolicy(separator), IdentityReplicationPolicy(separator, source_alias="A")):
        assert (policy.offset_syncs_topic("B"), policy.checkpoints_topic("A")) == (syncs, checkpoints)
        dotted = replace(policy, internal_separator_enabled=False)
        assert dotted.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
        assert dotted.checkpoints_topic("A") == "A.checkpoints.internal"
        assert dotted.heartbeats_topic() == "heartbeats"


@given(separator=SEPARATORS, topic=TOPIC_NAMES, data=st.data())
def test_a_copy_of_the_default_policy_leads_back_to_its_source(separator: str, topic: str, data: st.DataObject) -> None:
    """Where neither the alias nor the topic adds separators of its own at the seam."""
    policy = DefaultReplicationPolicy(separator)
    alias = data.draw(aliases(separator))
    plain = topic.strip("".join(set(separator))) or "t"
    remote = policy.format_remote_topic(alias, plain)
    assert policy.topic_source(remote) == alias
    assert policy.upstream_topic(remote) == plain


@given(separator=SEPARATORS, topic=TOPIC_NAMES)
def test_the_original_topic_is_no_copy_and_ends_the_name(separator: str, topic: str) -> None:
    policy = DefaultReplicationPolicy(separator)
    original = policy.original_topic(topic)
    assert policy.upstream_topic(original) is None
    assert topic.endswith(original)


@given(topic=TOPIC_NAMES)
def test_policies_survive_pickling(topic: str) -> None:
    for policy in (DEFAULT, IDENTITY):
        assert pickle.loads(pickle.dumps(policy)).format_remote_topic("A", topic) == policy.format_remote_topic(
            "A", topic
        )


@pytest.mark.parametrize(
    ("topic", "of_3_9", "newer"),
    [
        ("__consumer_offsets", True, True),
        (".hidden", True, True),
        ("mm2-offsets.B.internal", True, True),
        ("A.checkpoints.internal", True, True),
        ("app.internal", True, False),
        ("app-internal", True, False),
        ("x_internal", False, False),
    ],
)
def test_what_is_internal_depends_on_the_generation(topic: str, of_3_9: bool, newer: bool) -> None:
    """SEL-04, VER-17."""
    assert DefaultReplicationPolicy(generation=Generation.V3_9).is_internal_topic(topic) is of_3_9
    assert DefaultReplicationPolicy(generation=Generation.V4_3).is_internal_topic(topic) is newer
    assert IdentityReplicationPolicy(generation=Generation.NEWEST).is_internal_topic(topic) is newer


@pytest.mark.parametrize(
    ("topic", "of_4_3", "newest"),
    [
        ("orders", False, False),
        ("B.orders", True, True),
        ("C.B.orders", True, True),
        ("C.orders", False, False),
        ("A.orders", False, True),
        ("C.A.orders", False, True),
    ],
)
def test_a_topic_that_has_been_there_is_a_cycle(topic: str, of_4_3: bool, newest: bool) -> None:
    """SEL-05 to SEL-07, VER-21."""
    assert is_cycle(topic, policy=DEFAULT, flow=A_TO_B, generation=Generation.V4_3) is of_4_3
    assert is_cycle(topic, policy=DEFAULT, flow=A_TO_B) is newest


@pytest.mark.parametrize(("separator", "alias"), [(".", "us.west"), ("_", "us_west"), ("--", "us--west")])
def test_an_alias_with_the_separator_in_it_does_not_hide_a_cycle(separator: str, alias: str) -> None:
    """POL-04: Java reads only its beginning, and would send records back once more."""
    policy = DefaultReplicationPolicy(separator)
    copy = policy.format_remote_topic(alias, "orders")
    assert policy.topic_source(copy) == "us"
    for flow in (Flow("B", alias), Flow(alias, "B")):
        assert is_cycle(copy, policy=policy, flow=flow)
        assert is_cycle(policy.format_remote_topic("C", copy), policy=policy, flow=flow)
        assert not is_cycle("us", policy=policy, flow=flow)
        assert not is_cycle(policy.format_remote_topic("us", "orders"), policy=policy, flow=flow)


def test_the_identity_policy_sees_only_cycles_of_heartbeats() -> None:
    """SEL-09: it takes the source for the source of every topic, which must not stop the flow."""
    assert not is_cycle("orders", policy=IDENTITY, flow=A_TO_B)
    assert not is_cycle("B.orders", policy=IDENTITY, flow=A_TO_B)
    assert is_cycle("B.heartbeats", policy=IDENTITY, flow=A_TO_B)


@pytest.mark.parametrize("topic", ["heartbeats", "C.heartbeats", "D.C.heartbeats"])
@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
def test_heartbeats_pass_whatever_the_filter_says_unless_switched_off(topic: str, policy: ReplicationPolicy) -> None:
    """SEL-02, SEL-08, CFG-035."""

    def selected(topic_filter: PatternFilter, *, heartbeats_replication: bool) -> bool:
        return replicates(
            topic,
            policy=policy,
            topic_filter=topic_filter,
            flow=A_TO_B,
            heartbeats_replication=heartbeats_replication,
        )

    assert selected(NOTHING, heartbeats_replication=True)
    assert not selected(NOTHING, heartbeats_replication=False)
    assert selected(EVERYTHING, heartbeats_replication=False)


@given(topic=TOPIC_NAMES)
def test_neither_internal_topics_nor_cycles_are_ever_replicated(topic: str) -> None:
    """SEL-02."""
    chosen = replicates(topic, policy=DEFAULT, topic_filter=EVERYTHING, flow=A_TO_B, heartbeats_replication=True)
    assert chosen == (not DEFAULT.is_internal_topic(topic) and not is_cycle(topic, policy=DEFAULT, flow=A_TO_B))
