"""What others have written to the standby, and no flow copies back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config.resolving import load
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST
from mirror.model.failover import Phase
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.recovery import cluster_ends
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.state_followers import StateFollowers
from tests.unit.recovery.world import ENTRY, ORDERS

COPY = TopicPartition("east.orders", 0)
CUT = PauseWish("cut", None, True, "mirror failover", 1_000, True, {COPY.topic: [10]})
FILE = "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true\n"


class OnRecord(StateFollowers):
    """The flow is failed over, and cut."""

    def state(self, clusters: Mapping[str, Any], flow: Flow) -> FlowState:
        state = FlowState()
        if flow == Flow("east", "west"):
            state.positions[ORDERS] = Position(10, 10, 0, True, 0, "here", "there", target=COPY.topic)
            state.failovers["one"] = replace(ENTRY, run="one", phase=Phase.DONE, at_ms=1_000)
            state.wishes = Pauses(cut=CUT)
        return state


class Standby:
    """The logs of west, and the id of all its topics."""

    def __init__(self, ends: Mapping[TopicPartition, int], topic_id: str) -> None:
        self._ends = ends
        self._topic_id = topic_id

    def close(self) -> None:
        pass

    def absent(self, partitions: Any) -> set[TopicPartition]:
        return set(partitions) - self._ends.keys()

    def topic_id(self, _: str) -> str:
        return self._topic_id

    def offsets(self, partitions: Any, at: int, _view: object = None) -> dict[TopicPartition, int]:
        # All that was written bears a time behind the failover.
        return {each: self._ends[each] if at == LATEST else 0 for each in partitions}


@pytest.mark.parametrize(
    ("end", "topic_id", "found"),
    [
        pytest.param(10, "there", {}, id="what was copied"),
        pytest.param(14, "there", {COPY: (10, 14)}, id="written behind it"),
        pytest.param(4, "another", {COPY: (0, 4)}, id="created anew, and shorter"),
        pytest.param(14, "another", {COPY: (0, 14)}, id="created anew, and longer"),
        pytest.param(4, "there", {COPY: (0, 4)}, id="truncated"),
    ],
)
def test_what_was_written_to_copies_is_found_also_where_they_were_created_anew(
    end: int,
    topic_id: str,
    found: Mapping[TopicPartition, tuple[int, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deleted on the standby by hand, created by the first who wrote to it: nothing there was copied by the flow."""
    monkeypatch.setattr(cluster_ends, "holds_record", lambda *_, **__: True)
    monkeypatch.setattr(ClusterEnds, "_target", lambda _: Standby({COPY: end}, topic_id))
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + "west->east.enabled=true\nwest->east.topics=bills\n")
    settings = load(path)
    flow = settings.flow(Flow("east", "west"))
    assert flow is not None
    ends = ClusterEnds(settings, flow, None, None, followed=OnRecord())  # type: ignore[arg-type]
    assert ends.not_copied_back() == found


def test_records_of_aborted_transactions_of_the_standby_are_no_copies_of_stranded_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that repeats its work on the standby sends the same, and the transaction is aborted."""
    asked: list[bool] = []

    class Target:
        def find_offsets(self, partitions: Any, at: int) -> PartitionAnswers[int]:
            return PartitionAnswers(dict.fromkeys(partitions, 10 if at == LATEST else 0))

    def read_batches(*_: object, read_committed: bool = False) -> Any:
        asked.append(read_committed)
        return iter(())

    monkeypatch.setattr(cluster_ends, "read_batches", read_batches)
    path = tmp_path / "mm2.properties"
    for isolation in ("read_committed", "read_uncommitted"):
        path.write_text(f"{FILE}east.consumer.isolation.level={isolation}\n")
        settings = load(path)
        ends = ClusterEnds(settings, settings.enabled_flows[0], None, None)  # type: ignore[arg-type]
        list(ends._copies(Target(), ORDERS, 0, 10))  # type: ignore[arg-type]
    assert asked == [True, False]
