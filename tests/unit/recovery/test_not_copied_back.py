"""What others have written to the standby, and no flow copies back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config.resolving import load
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import EARLIEST, LATEST
from mirror.model.failover import Phase
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import Run, SparseOffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.model.state_values import chunk_record, sparse_map_record
from mirror.recovery import cluster_ends, written_by_others
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.state_followers import StateFollowers
from tests.unit.recovery.world import ENTRY, ORDERS

COPY = TopicPartition("east.orders", 0)
CUT = PauseWish("cut", None, True, "mirror failover", 1_000, True, {COPY.topic: [10]})
FILE = "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true\n"


class OnRecord(StateFollowers):
    """The flow is failed over, and cut, unless somebody has ended that by hand."""

    def __init__(self, cut: PauseWish | None = CUT, *, is_failed_over: bool = True) -> None:
        super().__init__()
        self._cut = cut
        self._is_failed_over = is_failed_over

    def state(self, clusters: Mapping[str, Any], flow: Flow) -> FlowState:
        state = FlowState()
        if flow == Flow("east", "west"):
            state.positions[ORDERS] = Position(10, 10, 0, True, 0, "here", "there", target=COPY.topic)
            state.apply(*chunk_record(ORDERS, 0, [Run(0, 0, 10)]))
            if self._is_failed_over:
                state.failovers["one"] = replace(ENTRY, run="one", phase=Phase.DONE, at_ms=1_000)
            state.wishes = Pauses(cut=self._cut)
        return state


class Standby:
    """The logs of west, and the id of all its topics."""

    def __init__(self, ends: Mapping[TopicPartition, int], topic_id: str, since: int = 0) -> None:
        self._ends = ends
        self._topic_id = topic_id
        self._since = since

    def close(self) -> None:
        pass

    def absent(self, partitions: Any) -> set[TopicPartition]:
        return set(partitions) - self._ends.keys()

    def topic_id(self, _: str) -> str:
        return self._topic_id

    def offsets(self, partitions: Any, at: int, _view: object = None) -> dict[TopicPartition, int]:
        # From ``since`` on, -1: nowhere, records bear a time behind the failover: by default all do.
        by_time = {LATEST: None, EARLIEST: 0, 1_000: self._since}[at]
        return {each: self._ends[each] if by_time is None else by_time for each in partitions}


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
    monkeypatch.setattr(written_by_others, "holds_record", lambda *_, **__: True)
    monkeypatch.setattr(ClusterEnds, "_target", lambda _: closing(Standby({COPY: end}, topic_id)))
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
        def find_offsets(self, partitions: Any, _: int) -> PartitionAnswers[int]:
            return PartitionAnswers(dict.fromkeys(partitions, 0))

        def offsets(self, partitions: Any, _: int) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 10)

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


SILENT = replace(CUT, log_ends={COPY.topic: [10], ORDERS.topic: [None]})
WHOLE = replace(CUT, log_ends={COPY.topic: [10], ORDERS.topic: [5]})
ANEW = replace(WHOLE, log_ids={COPY.topic: "there", ORDERS.topic: "another"})
STILL = replace(WHOLE, log_ids={COPY.topic: "there", ORDERS.topic: "there"})
LONGER = replace(CUT, log_ends={COPY.topic: [10], ORDERS.topic: [9]})


@pytest.mark.parametrize(
    ("cut", "since", "found", "untold"),
    [
        pytest.param(WHOLE, -1, {}, {}, id="on record, and nothing is written since"),
        pytest.param(STILL, -1, {}, {}, id="on record with its id"),
        pytest.param(ANEW, -1, {ORDERS: (0, 5)}, {}, id="created anew, and as long by now"),
        pytest.param(LONGER, -1, {ORDERS: (0, 5)}, {}, id="on record, and another log by now"),
        pytest.param(CUT, 0, {ORDERS: (0, 5)}, {}, id="not there at the cut"),
        pytest.param(SILENT, 0, {ORDERS: (0, 5)}, {}, id="a silent leader, and all bears later times"),
        pytest.param(SILENT, 3, {ORDERS: (3, 5)}, {ORDERS: (0, 3)}, id="a silent leader, and some does"),
        pytest.param(SILENT, -1, {}, {ORDERS: (0, 5)}, id="a silent leader, and times of events"),
        pytest.param(None, 0, {ORDERS: (0, 5)}, {}, id="ended by hand, and all bears later times"),
        pytest.param(None, -1, {}, {ORDERS: (0, 5)}, id="ended by hand, and times of events"),
    ],
)
def test_where_the_end_of_a_log_at_the_cut_is_not_on_record_times_tell_and_of_the_rest_nobody_knows(
    cut: PauseWish | None,
    since: int,
    found: Mapping[TopicPartition, tuple[int, int]],
    untold: Mapping[TopicPartition, tuple[int, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`mirror resume` of all topics, for a pause by hand of before the failover, ends the cut as well."""
    ends = failed_over(OnRecord(cut), since, tmp_path, monkeypatch)
    assert (ends.not_copied_back(), ends.untold_since_cut()) == (found, untold)


def test_of_a_flow_that_is_neither_cut_nor_failed_over_nothing_is_untold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = failed_over(OnRecord(None, is_failed_over=False), -1, tmp_path, monkeypatch)
    assert (ends.not_copied_back(), ends.untold_since_cut()) == ({}, {})


class CopiedOn(OnRecord):
    """Somebody has ended the cut by hand, and the flow has copied on: 10 records before, 5 from 14 on since.

    Between those two lie four records of others, and a marker.
    """

    def state(self, clusters: Mapping[str, Any], flow: Flow) -> FlowState:
        state = super().state(clusters, flow)
        if flow == Flow("east", "west"):
            state.positions[ORDERS] = Position(15, 20, 0, True, 0, "here", "there", target=COPY.topic)
            state.apply(*chunk_record(ORDERS, 0, [Run(0, 0, 10), Run(10, 14, 3), Run(13, 18, 2)]))
        return state


@pytest.mark.parametrize(
    ("cut", "since", "found", "untold"),
    [
        pytest.param(None, 0, 10, None, id="all bears later times"),
        pytest.param(None, 12, 12, (10, 12), id="some does"),
        pytest.param(None, -1, None, (10, None), id="times of events"),
        pytest.param(CUT, 0, None, None, id="a cut in force, behind which nothing is copied"),
    ],
)
@pytest.mark.parametrize(
    ("most_holes", "end"), [pytest.param(1_000, 14, id="hole by hole"), pytest.param(0, 18, id="read through")]
)
def test_what_was_written_into_a_copy_before_the_flow_copied_on_is_found_among_what_was_copied(
    cut: PauseWish | None,
    since: int,
    found: int | None,
    untold: tuple[int, int | None] | None,
    most_holes: int,
    end: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Applications wrote 10 to 13 there; then mirror resume. All that others had written was said to be copied back."""

    def holds_record(_: Any, partition: TopicPartition, start: int, end: int, **__: Any) -> bool:
        return partition == COPY and start < 14 and end > 10

    ends = failed_over(CopiedOn(cut), since, tmp_path, monkeypatch, {COPY: 20})
    monkeypatch.setattr(written_by_others, "holds_record", holds_record)
    monkeypatch.setattr(written_by_others, "_MOST_HOLES", most_holes)
    assert ends.not_copied_back() == ({} if found is None else {COPY: (found, end)})
    assert ends.untold_since_cut() == ({} if untold is None else {COPY: (untold[0], untold[1] or end)})


class BegunBehindOthers(OnRecord):
    """Nothing was copied before the cut, which somebody has ended by hand; others had written 0 to 3 by then."""

    def __init__(self, runs: Sequence[Run], sparse_map: SparseOffsetMap | None, *, is_understood: bool = True) -> None:
        super().__init__(None)
        self._runs, self._sparse_map, self._is_understood = runs, sparse_map, is_understood

    def state(self, clusters: Mapping[str, Any], flow: Flow) -> FlowState:
        state = super().state(clusters, flow)
        if flow == Flow("east", "west"):
            upstream, downstream = (
                (self._runs[-1].upstream_end, self._runs[-1].downstream_end) if self._runs else (0, 4)
            )
            state.positions[ORDERS] = Position(upstream, downstream, 0, True, 0, "here", "there", target=COPY.topic)
            state.apply(*chunk_record(ORDERS, 0, self._runs))
            if self._sparse_map is not None:
                state.apply(*sparse_map_record(ORDERS, self._sparse_map))
            if not self._is_understood:
                state.apply(b'["runs","orders",0,7]', b"{}")
        return state


@pytest.mark.parametrize(
    ("runs", "sparse_map", "is_understood", "begin"),
    [
        pytest.param([], None, True, 0, id="passed by, and nothing copied since"),
        pytest.param([Run(0, 4, 6)], None, True, 0, id="copied on behind it"),
        pytest.param([Run(0, 4, 6)], None, False, 0, id="what was copied is not understood"),
        pytest.param(
            [Run(2, 4, 6)], SparseOffsetMap(0, 2, 0, 2, ()), True, 2, id="behind what Java MirrorMaker copied"
        ),
    ],
)
@pytest.mark.parametrize("since", [pytest.param(0, id="later times"), pytest.param(-1, id="times of events")])
def test_what_was_written_into_a_copy_that_had_nothing_is_found_before_the_first_record_copied(
    runs: Sequence[Run],
    sparse_map: SparseOffsetMap | None,
    is_understood: bool,
    begin: int,
    since: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An idle partition: the engine that went on passed by what others had written there, and counted no hole."""

    def holds_record(_: Any, partition: TopicPartition, start: int, end: int, **__: Any) -> bool:
        return partition == COPY and start < 4 and start < end

    end = runs[-1].downstream_end if runs else 4
    followed = BegunBehindOthers(runs, sparse_map, is_understood=is_understood)
    ends = failed_over(followed, since, tmp_path, monkeypatch, {COPY: end})
    monkeypatch.setattr(written_by_others, "holds_record", holds_record)
    written = {COPY: (begin, 4 if is_understood else end)}
    assert (ends.not_copied_back(), ends.untold_since_cut()) == ((written, {}) if since == 0 else ({}, written))


@pytest.mark.parametrize("since", [pytest.param(0, id="later times"), pytest.param(-1, id="times of events")])
def test_what_java_mirror_maker_has_copied_between_two_lives_of_the_engine_is_not_others(
    since: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = BegunBehindOthers([Run(0, 0, 4), Run(8, 9, 6)], SparseOffsetMap(4, 8, 4, 9, ()))
    ends = failed_over(followed, since, tmp_path, monkeypatch, {COPY: 15})
    assert (ends.not_copied_back(), ends.untold_since_cut()) == ({}, {})


def failed_over(
    followed: OnRecord,
    since: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logs: Mapping[TopicPartition, int] | None = None,
) -> ClusterEnds:
    monkeypatch.setattr(written_by_others, "holds_record", lambda *_, **__: True)
    monkeypatch.setattr(
        ClusterEnds, "_target", lambda _: closing(Standby(logs or {COPY: 10, ORDERS: 5}, "there", since))
    )
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + "west->east.enabled=true\nwest->east.topics=bills\n")
    settings = load(path)
    flow = settings.flow(Flow("east", "west"))
    assert flow is not None
    return ClusterEnds(settings, flow, None, None, followed=followed)  # type: ignore[arg-type]
