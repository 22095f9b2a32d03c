"""Rings of flows with unchanged names are refused, with the line and the keys to change (WANT-17)."""

from __future__ import annotations

import pytest

from mirror.config.errors import ConfigError
from tests.unit.config.files import flows_of

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
RING = ("A->B", "B->C", "C->A")


@pytest.mark.parametrize("topics", ["", "topics = orders", "topics = orders, .*", "topics = shop.*"])
def test_a_ring_is_refused(topics: str) -> None:
    with pytest.raises(ConfigError) as refused:
        flows_of(*RING, more=f"{IDENTITY}\n{topics}")
    assert str(refused.value.key).endswith(".enabled")
    assert refused.value.line is not None
    for key in ("A->C.enabled", "B->A.enabled", "C->B.enabled"):
        assert key in str(refused.value)
    assert "mirror.mirrored.records = skip" in str(refused.value)


@pytest.mark.parametrize(
    "more",
    [
        "",
        f"{IDENTITY}\nA->B.topics = orders\nB->C.topics = bills\nC->A.topics = shops",
        f"{IDENTITY}\nA->B.mirror.mirrored.records = skip\nB->C.mirror.mirrored.records = skip",
    ],
    ids=["renamed", "other topics", "local records alone"],
)
def test_what_does_not_go_round_is_no_ring(more: str) -> None:
    assert len(flows_of(*RING, more=more)) == 3


def test_both_ways_among_all_clusters_is_no_ring() -> None:
    assert len(flows_of(*RING, "B->A", "C->B", "A->C", more=IDENTITY)) == 6


def test_a_router_that_takes_the_alias_off_makes_names_unchanged() -> None:
    router = [
        line.replace("FLOW", flow)
        for flow in RING
        for line in (
            "FLOW.transforms = r",
            "FLOW.transforms.r.type = org.apache.kafka.connect.transforms.RegexRouter",
            "FLOW.transforms.r.regex = [ABC]\\\\.(.*)",
            "FLOW.transforms.r.replacement = $1",
        )
    ]
    with pytest.raises(ConfigError, match="would go round"):
        flows_of(*RING, more="\n".join(router))


def test_what_becomes_of_mirrored_records_is_one_of_three() -> None:
    with pytest.raises(ConfigError, match="auto, forward, skip"):
        flows_of("A->B", more="A->B.mirror.mirrored.records = keep")
