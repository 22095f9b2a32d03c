"""A reader that moves between clusters of a mesh misses nothing that a third one has written."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirror.control import mesh
from mirror.control.mesh import MeshTranslator, Third, Thirds
from mirror.model.offset_map import OffsetMap, Run, Runs, extend
from mirror.model.partition import TopicPartition
from mirror.model.translation import Bounded, Exact, NotMirrored, Translation
from tests.unit.control.builders import flow_settings

ORDERS = TopicPartition("orders", 0)


@dataclass
class Flow:
    """Copies a third cluster's records, numbered from 0, into a log; what it records may lag behind."""

    runs: list[Run] = field(default_factory=list)
    copied: int = 0
    recorded: OffsetMap | None = None

    def copy(self, log: list[tuple[str, int]]) -> None:
        extend(self.runs, Run(self.copied, len(log), 1))
        log.append(("third", self.copied))
        self.copied += 1

    def record(self) -> None:
        if self.runs:
            self.recorded = OffsetMap(0, True, Runs.of(self.runs), self.copied, self.runs[-1].downstream_end)

    def offset_map(self, _source: TopicPartition) -> OffsetMap | None:
        return self.recorded


class Says:
    """What two clusters alone would say."""

    def __init__(self, translation: Translation) -> None:
        self._translation = translation

    def translate(self, _source: TopicPartition, _position: int) -> Translation:
        return self._translation


@given(
    steps=st.lists(
        st.sampled_from(["here", "there", "own here", "own there", "record here", "record there"]), max_size=40
    ),
    share=st.floats(0, 1),
)
# What has come to the source since it was recorded may be read there, and is met again.
@example(steps=["here", "record here", "here", "there", "there"], share=1.0)
def test_nothing_of_a_third_cluster_is_passed(steps: list[str], share: float) -> None:
    here, there = Flow(), Flow()
    source: list[tuple[str, int]] = []
    target: list[tuple[str, int]] = []
    for number, step in enumerate(steps):
        match step:
            case "here":
                here.copy(source)
            case "there":
                there.copy(target)
            case "own here":
                source.append(("source", number))
            case "own there":
                target.append(("target", number))
            case "record here":
                here.record()
            case _:
                there.record()
    there.record()
    position = int(share * len(source))
    read = set(source[:position])
    said = MeshTranslator(Says(Exact(len(target))), lambda _: [Third(here, there)]).translate(ORDERS, position)
    assert isinstance(said, Exact | Bounded)
    passed = {record for record in target[: said.downstream] if record[0] == "third"}
    assert passed <= read
    again = sum(1 for record in target[said.downstream :] if record in read)
    assert again <= (said.behind_records if isinstance(said, Bounded) else 0)


def test_without_third_clusters_nothing_changes() -> None:
    for said in (Exact(5), Bounded(5, 2), NotMirrored()):
        assert MeshTranslator(Says(said), lambda _: []).translate(ORDERS, 7) == said


def copied(first: int, at: int, count: int, *, upstream_next: int | None = None) -> OffsetMap:
    """Return the map of a flow that copied ``count`` records from ``first`` on, and nothing before."""
    end = first + count if upstream_next is None else upstream_next
    return OffsetMap(first, False, Runs.of([Run(first, at, count)]), end, at + count)


def third(here: OffsetMap, there: OffsetMap) -> Third:
    return Third(Flow(recorded=here), Flow(recorded=there))


def test_of_several_third_clusters_the_one_of_which_least_is_read_counts() -> None:
    all_read, half_read = third(copied(0, 0, 4), copied(0, 4, 4)), third(copied(0, 4, 2), copied(0, 0, 4))
    for thirds in ([all_read, half_read], [half_read, all_read]):
        assert MeshTranslator(Says(Exact(8)), lambda _, found=thirds: found).translate(ORDERS, 6) == Bounded(2, 6)


def test_where_a_third_cluster_s_flow_no_longer_tells_what_is_not_read_nothing_is_passed() -> None:
    """The target has its records from 100 on; at the source those from 50 on are not read."""
    thirds = [third(copied(0, 0, 50), copied(100, 7, 10))]
    assert MeshTranslator(Says(Exact(20)), lambda _: thirds).translate(ORDERS, 50) == Bounded(0, 20)


def test_what_a_third_cluster_s_flow_left_out_at_the_source_was_not_read_there() -> None:
    """It has passed a gap of two records, which the target has."""
    thirds = [third(copied(0, 0, 3, upstream_next=5), copied(0, 0, 5))]
    assert MeshTranslator(Says(Exact(6)), lambda _: thirds).translate(ORDERS, 4) == Bounded(3, 3)


class FollowedLog(SimpleNamespace):
    """In the place of what is read of a state topic: how often it was polled."""

    def __init__(self, _client: object, topic: str, *, alias: str) -> None:
        super().__init__(topic=topic, alias=alias, polled=0)

    def poll(self) -> None:
        self.polled += 1

    def close(self) -> None: ...


def test_what_third_clusters_have_recorded_is_read_again_of_topics_that_both_their_flows_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a second it is as good for all positions; a topic that comes from there to one side alone is not shared."""
    clock: Any = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(mesh, "FlowLog", FollowedLog)
    monkeypatch.setattr(mesh, "time", clock)
    lines = (
        "clusters = east, west, south",
        "south.bootstrap.servers = south:9092",
        "south->east.enabled = true",
        "south->west.enabled = true",
        "south->west.topics = orders",
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    settings, *others = (flow_settings(*lines, flow=each) for each in ("east->west", "south->east", "south->west"))
    thirds = Thirds(settings, [settings, *others], {}, {})
    assert thirds.of_topic("bills") == []
    polled = []
    for clock.now in (100.0, 100.5, 101.5):
        (found,) = thirds.of_topic("orders")
        polled.append((vars(found.to_source)["polled"], vars(found.to_target)["polled"]))
    assert polled == [(1, 1), (1, 1), (2, 2)]
    assert (vars(found.to_source)["alias"], vars(found.to_target)["alias"]) == ("east", "west")
