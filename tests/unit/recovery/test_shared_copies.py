"""Which copies others may write to, by the file and by what is on record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import pytest
from kafka.errors import TopicAuthorizationFailedError

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.engine.mirrors import Mirrors
from mirror.kafka.problems import BrokerRefused
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.writers import KnownWriters
from mirror.recovery.shared_copies import mirrored_by_other_flows, shared_copies
from tests.unit.control.builders import flow_settings

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
ORDERS = TopicPartition("orders", 0)


@dataclass
class OnSource(Mirrors):
    """What was once mirrored back to the source."""

    back: frozenset[str] = frozenset()

    def was_mirrored_back(self, topic: str) -> bool:
        return topic in self.back


def is_shared(
    settings: FlowSettings,
    *others: FlowSettings,
    copied: dict[TopicPartition, TopicPartition] | None = None,
    phase: Phase | None = None,
    back: frozenset[str] = frozenset(),
    mirrored: frozenset[str] = frozenset(),
) -> bool:
    """Whether others may write to the copy of the partition ``orders-0``."""
    copies = copied or {ORDERS: TopicPartition(settings.copy_of("orders"), 0)}
    runs = {} if phase is None else {"run": FailoverEntry("run", "planned", phase, "here", 1)}
    state = FlowState(failovers=runs)
    return copies[ORDERS] in shared_copies(settings, [settings, *others], state, copies, OnSource(back), mirrored)


def test_a_topic_with_the_name_of_a_copy_is_the_flows_alone() -> None:
    back = flow_settings("west->east.enabled = true", flow="west->east")
    everything = frozenset({"orders", "east.orders"})
    assert not is_shared(flow_settings(), back, phase=Phase.DONE, back=everything, mirrored=everything)


def test_an_unchanged_name_that_nobody_else_is_known_to_write_to_is_the_flows_alone() -> None:
    assert not is_shared(flow_settings(IDENTITY))
    assert not is_shared(flow_settings(IDENTITY), back=frozenset({"bills"}), mirrored=frozenset({"bills"}))


@pytest.mark.parametrize(("phase", "shared"), [(Phase.UNDER_WAY, False), (Phase.DONE, True), (Phase.RETURNING, True)])
def test_once_the_applications_have_moved_they_write_to_it(phase: Phase, shared: bool) -> None:
    assert is_shared(flow_settings(IDENTITY), phase=phase) is shared


def test_what_is_mirrored_to_the_source_somebody_writes() -> None:
    both = IDENTITY, "west->east.enabled = true"
    assert is_shared(flow_settings(*both), flow_settings(*both, flow="west->east"))
    assert not is_shared(
        flow_settings(*both, "west->east.topics = bills"),
        flow_settings(*both, "west->east.topics = bills", flow="west->east"),
    )
    assert is_shared(flow_settings(IDENTITY), back=frozenset({"orders"}))


def test_other_flows_into_the_target_and_other_partitions_of_the_flow_write_to_it() -> None:
    fan_in = (
        IDENTITY,
        "clusters = east, west, north",
        "north.bootstrap.servers = north:9092",
        "north->west.enabled = true",
    )
    assert is_shared(flow_settings(*fan_in), flow_settings(*fan_in, flow="north->west"))
    assert is_shared(flow_settings(IDENTITY), mirrored=frozenset({"orders"}))
    only_bills = (
        *fan_in,
        "north->west.topics = bills",
        "north->west.transforms = route",
        "north->west.transforms.route.type = org.apache.kafka.connect.transforms.RegexRouter",
        "north->west.transforms.route.regex = bills",
        "north->west.transforms.route.replacement = invoices",
    )
    assert not is_shared(flow_settings(*only_bills), flow_settings(*only_bills, flow="north->west"))
    together = TopicPartition("all", 0)
    assert is_shared(flow_settings(), copied={ORDERS: together, TopicPartition("bills", 0): together})


class OnTarget:
    """State topics on the target: who keeps them, and to which topics they have copied."""

    known: ClassVar = {
        "mm2-state.north.internal": KnownWriters(source_id="id of north"),
        "mm2-state.twin.internal": KnownWriters(source_id="id of east"),
    }

    def catch_up(self, topics: Collection[str]) -> dict[str, Exception]:
        assert set(topics) == {*self.known, "mm2-state.secret.internal"}
        return {
            "mm2-state.secret.internal": BrokerRefused("west: mm2-state.secret.internal", TopicAuthorizationFailedError)
        }

    def copied(self, topic: str) -> Collection[str]:
        return {"mm2-state.north.internal": ["bills"], "mm2-state.twin.internal": ["orders"]}[topic]

    def close(self) -> None: ...


def test_who_mirrors_the_same_cluster_under_another_alias_is_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirror.recovery.shared_copies.WriterLogs", lambda *_: OnTarget())
    topics = {"orders", "mm2-state.east.internal", "mm2-state.secret.internal", *OnTarget.known}
    names, unknown = mirrored_by_other_flows(flow_settings(IDENTITY), ClusterSettings("west", {}), "id of east", topics)
    assert names == {"bills"}
    (why,) = unknown
    assert "mm2-state.secret.internal" in why
