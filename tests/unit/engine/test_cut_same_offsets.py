"""A flow is cut while something is on its way to a copy with the source's offsets: that is no confirmed cut."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from mirror.config.resolving import load
from mirror.copier.lane import Lane
from mirror.copier.resume import Ready
from mirror.copier.share import Share
from mirror.copier.work import PartitionResult, PartitionWork
from mirror.engine.flow_pauses import pause_report, take_pauses
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.run import Engine
from mirror.kafka.problems import ConnectionFailed
from mirror.model.pause import PauseReport, Pauses, PauseWish
from mirror.same_offsets.chain import producer_of
from tests.flows import EAST_WEST
from tests.unit.copier.lanes import SOURCE, TARGET
from tests.unit.copier.same_copy import Copy


@pytest.fixture
def runtime(tmp_path: Path) -> FlowRuntime:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\nmirror.offsets = same\n"
    )
    (made,) = Engine(load(file))._runtimes.values()
    made.lead(1, was_settled=True, lease=Lease())
    made.partitions, made.is_known = ((SOURCE, TARGET, "", ""),), True
    return made


def begun(*, is_compacted: bool) -> Copy:
    copy = Copy()
    copy.begin(start=0, is_compacted=is_compacted, writes_many=False, skips=False, stops=False)
    return copy


def cut(runtime: FlowRuntime) -> None:
    take_pauses(runtime, Pauses((PauseWish("cut", None, True, "ann", 1),)))


def ended(lane: Lane) -> PartitionResult:
    """Return the result of an epoch, as a task puts it together."""
    share = Share.__new__(Share)
    share.flow, share._idle, share.waiting, share.lanes, share.filler = EAST_WEST, [], [], [lane], None
    share.transactions = None
    handover = lane.result().handover
    assert handover is not None
    share._begun = {SOURCE: Ready(handover)}
    share._target = cast(Any, SimpleNamespace(largest_batches={}))
    (result,) = share.close()
    return result


def report_of(runtime: FlowRuntime) -> PauseReport:
    report = pause_report(runtime, "me")
    assert report is not None
    return report


def test_a_batch_without_an_answer_may_arrive_behind_the_cut(runtime: FlowRuntime) -> None:
    """A source's records lay among those of the applications, and the failover had said PASS."""
    copy = begun(is_compacted=False)
    with copy._patch:
        copy.source.write([None] * 2)
        copy.the_source_is_read(1)
        copy.a_batch_goes_out(is_answered_at_once=True)
        copy.a_commit_goes_out(is_answered_at_once=True)
        copy.source.write([None] * 2)
        copy.the_source_is_read(1)
        copy.a_batch_goes_out()
        copy.lane.stream.lost("no answer")
        copy.lane.stream.wind_down()
        copy.lane.stream.give_up()
        cut(runtime)
        runtime.take_result(first := ended(copy.lane))
        work = PartitionWork(
            EAST_WEST,
            SOURCE,
            TARGET,
            "of the source",
            first.handover,
            target_id="of the copy",
            pad_limit=9,
            is_paused=True,
        )
        place = copy._place(work, producer_of(EAST_WEST, "of the copy"))
        assert isinstance(place, Ready)
        runtime.take_result(PartitionResult(EAST_WEST, SOURCE, place.handover))
    assert (report_of(runtime).unrefused, runtime.is_settled) == (frozenset({SOURCE}), False)


@pytest.mark.parametrize("is_answered", [True, False])
def test_so_may_what_fills_a_hole(runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch, *, is_answered: bool) -> None:
    def sent_without_an_answer(*_: object) -> NoReturn:
        raise ConnectionFailed("no answer yet")

    copy = begun(is_compacted=True)
    with copy._patch:
        for _ in range(3):
            copy.source.write([None] * 2)
        copy.source.compact(1, set())
        copy.the_source_is_read(3)
        copy.a_batch_goes_out(is_answered_at_once=True)
        if is_answered:
            copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
        else:
            copy.a_hole_is_handed_to_who_fills_it()
            monkeypatch.setattr(copy.requests, "append", sent_without_an_answer)
            with suppress(ConnectionFailed):
                assert copy.hole is not None
                copy.filler.fill([copy.hole])
        copy.lane.stream.wind_down()
        cut(runtime)
        runtime.take_result(ended(copy.lane))
    assert (SOURCE in report_of(runtime).unrefused) is not is_answered
