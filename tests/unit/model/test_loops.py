"""Unchanged names: every record arrives once everywhere, none comes back, and what would go round is found (WANT-17)."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.flow import Flow
from mirror.model.loops import ReplicationEdge, find_loops, flows_of, left_out

CLUSTERS = "ABCD"
GRAPHS = st.sets(st.sampled_from([Flow(*ends) for ends in permutations(CLUSTERS, 2)]), min_size=1)


def edges(*flows: str, only_local: str = "") -> list[ReplicationEdge]:
    """Flows written ``AB``."""
    return [ReplicationEdge(Flow(*flow), flow not in only_local.split()) for flow in flows]


def copied(edges: list[ReplicationEdge], rounds: int) -> dict[str, list[tuple[str, str]]]:
    """Each cluster's log, as (origin, last cluster before): one record of each, copied by all flows so many times."""
    logs = {alias: [(alias, "")] for alias in CLUSTERS}
    read = {edge.flow: 0 for edge in edges}
    for _ in range(rounds):
        for flow in read:
            refused = left_out(flow, edges)
            batches, read[flow] = logs[flow.source][read[flow] :], len(logs[flow.source])
            logs[flow.target] += [(origin, flow.source) for origin, before in batches if before not in refused]
    return logs


def reachable(edges: list[ReplicationEdge], origin: str) -> set[str]:
    found = {origin}
    for _ in CLUSTERS:
        found |= {edge.flow.target for edge in edges if edge.flow.source in found}
    return found


@given(GRAPHS)
def test_where_no_loop_is_found_every_record_arrives_wherever_flows_lead_and_none_comes_back(graph: set[Flow]) -> None:
    """By whatever flows, in whatever order: the copying ends by itself."""
    some = [ReplicationEdge(flow) for flow in sorted(graph)]
    if find_loops(some):
        return
    logs, more = copied(some, 8), copied(some, 12)
    assert logs == more
    for origin in CLUSTERS:
        for alias in CLUSTERS:
            assert any(each == origin for each, _ in logs[alias]) == (alias in reachable(some, origin))


@given(GRAPHS)
def test_what_is_called_a_loop_does_bring_records_back(graph: set[Flow]) -> None:
    some = [ReplicationEdge(flow) for flow in sorted(graph)]
    for walk in find_loops(some):
        back = copied(some, len(walk) + 1)[walk[-1]]
        assert [origin for origin, _ in back].count(walk[0]) > 1 or walk[0] != walk[-1]
        assert flows_of(walk) <= graph


@pytest.mark.parametrize(
    "flows",
    [
        ("AB", "BA"),
        ("AB", "BA", "BC", "CB"),
        ("AB", "BA", "BC", "CB", "AC", "CA"),
        ("AB", "BC", "CD"),
        ("AB", "BA", "AC", "CA", "AD", "DA"),
    ],
    ids=["two ways", "a chain", "a mesh of three", "one way", "a star"],
)
def test_trees_and_meshes_deliver_every_record_once(flows: tuple[str, ...]) -> None:
    some = edges(*flows)
    assert find_loops(some) == ()
    for batches in copied(some, 8).values():
        origins = [origin for origin, _ in batches]
        assert len(origins) == len(set(origins))


@pytest.mark.parametrize(
    ("flows", "walk"),
    [
        (("AB", "BC", "CA"), ("A", "B", "C", "A")),
        (("AB", "BA", "BC", "CB", "CD", "DC", "DA", "AD"), ("A", "B", "C", "D", "A")),
        (("AB", "BC", "CA", "CB"), ("A", "B", "C", "A")),
    ],
    ids=["one way", "both ways", "with a way back"],
)
def test_a_ring_goes_round(flows: tuple[str, ...], walk: tuple[str, ...]) -> None:
    """The last way a record came does not say where it began."""
    assert walk in find_loops(edges(*flows))


def test_a_ring_is_open_where_two_flows_copy_local_records_alone() -> None:
    """One is not enough: what begins behind it passes all the others."""
    assert find_loops(edges("AB", "BC", "CA", only_local="CA")) == (("C", "A", "B", "C"),)
    some = edges("AB", "BC", "CA", only_local="CA AB")
    assert find_loops(some) == ()
    assert left_out(Flow("C", "A"), some) == {"A", "B"}
    assert left_out(Flow("B", "C"), some) == {"C"}


def test_two_ways_to_a_cluster_bring_a_record_twice() -> None:
    some = edges("AB", "AC", "BD", "CD")
    assert [origin for origin, _ in copied(some, 8)["D"]].count("A") == 2
