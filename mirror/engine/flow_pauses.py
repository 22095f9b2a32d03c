"""What is paused of a flow: taking it in, saying that nothing more is appended to it, and copying it on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from mirror.control.flow_log import FlowLog
from mirror.control.flow_tick import FlowTick
from mirror.control.groups import GroupOffsetsTick
from mirror.control.tick import Clock, TickReport, now_ms
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.mm2_traces import Mm2Traces, read_traces
from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, Pauses, paused_of

LEFT_OUT = "left as they are on the target while the flow is cut by a failover"
_TO_BE_COMPARED = "what lies on the target has still to be compared with the source"
_NOT_TAKEN_OVER = "it is to be taken over from Java MirrorMaker"
_NOT_BEGUN = "it is not on record yet where its copy is to begin (auto.offset.reset = latest)"


class FlowCut(Exception):
    """The flow is cut by a failover: what groups and topics have on its target is left as it is."""


def take_pauses(runtime: FlowRuntime, pauses: Pauses) -> bool:
    """Take in what is paused from the next epoch on, and have the running one end; return whether it is new."""
    with runtime.lock:
        if pauses == runtime.pauses:
            return False
        # Also what was not begun before it was paused: somebody else may have begun it.
        known = runtime.handovers.keys() | {source for source, *_ in runtime.partitions}
        idle = {source for source in known if runtime.pauses.is_paused(source.topic) and source not in runtime.at_work}
        runtime.pauses = pauses
        runtime.resumed = {each for each in runtime.resumed | idle if not pauses.is_paused(each.topic)}
        for each in runtime.resumed:
            # What kept it from being copied before it was paused need not do so any more.
            runtime.troubles.pop(each, None)
        runtime.changed()
        return True


def look_at_resumed(runtime: FlowRuntime, log: FlowLog, target: Cluster, *, matches: bool) -> int:
    """Find out whether somebody has copied what was paused, so that it is not copied once more; return of how many.

    ``matches`` is as for :func:`mirror.engine.mm2_traces.read_traces`.
    """
    with runtime.lock:
        topics = dict.fromkeys(runtime.resumed, "") | runtime.copies()
        copies = {source: runtime.copy_of(source, topics) for source in runtime.resumed} if runtime.is_known else {}
    if not copies:
        return 0
    mm2 = Mm2Traces()
    if _have_moved(runtime, copies, target.offsets(list(copies.values()), "latest")):
        mm2 = read_traces(runtime.settings, log.poll(), target, matches=matches)
    take_resumed(runtime, copies.keys(), mm2)
    return len(copies)


def _have_moved(
    runtime: FlowRuntime, copies: Mapping[TopicPartition, TopicPartition], ends: Mapping[TopicPartition, int]
) -> bool:
    """Whether somebody may have written into one of these copies behind what is known to be copied."""
    with runtime.lock:
        reached = {source: handover.position.downstream for source, handover in runtime.handovers.items()}
        return any(ends.get(copy) != reached.get(source, 0) for source, copy in copies.items())


def take_resumed(runtime: FlowRuntime, sources: Collection[TopicPartition], mm2: Mm2Traces) -> None:
    """Copy on with partitions that were paused, with what Java MirrorMaker has left of them by now.

    What it has certainly copied meanwhile is taken over from it first; where it may have, the tail is compared.
    """
    with runtime.lock:
        runtime.mm2 = replace(runtime.mm2, has_run=runtime.mm2.has_run or mm2.has_run)
        for source in runtime.resumed & set(sources):
            if runtime.has_source_offsets(source):
                continue
            if (certain := mm2.certain.get(source)) is not None:
                runtime.takeovers[source] = certain
            elif (beyond := mm2.beyond.get(source)) is not None and source in runtime.handovers:
                runtime.mm2 = replace(runtime.mm2, beyond={**runtime.mm2.beyond, source: beyond})
                runtime.handovers[source] = replace(runtime.handovers[source], clean=False)
        runtime.resumed -= set(sources)
        runtime.changed()


def unless_cut(
    runtime: FlowRuntime, tick: FlowTick | GroupOffsetsTick, clock: Clock = now_ms
) -> Callable[[], TickReport]:
    """Return what runs a tick, but not while the flow is failed over.

    What topics, applications and groups have on the target is theirs by then: the source may come back with what was
    changed there meanwhile, with rights that were taken from its writers to keep them out, or with groups that somebody
    has set to the end, or that a forgotten consumer has read on.
    """

    def run() -> TickReport:
        try:
            _require_uncut(runtime)
            return tick.tick()
        except FlowCut:
            return TickReport(f"{tick.about} {runtime.settings.flow}", clock(), 0, notes=(LEFT_OUT,))

    return run


def while_uncut(runtime: FlowRuntime, require: Callable[[], None]) -> Callable[[], None]:
    """Return what raises :class:`FlowCut` while the flow is failed over, else what ``require`` does.

    For a round that was under way when the flow was cut, which asks before each request.
    """

    def check() -> None:
        require()
        _require_uncut(runtime)

    return check


def _require_uncut(runtime: FlowRuntime) -> None:
    with runtime.lock:
        if runtime.pauses.may_be_cut:
            raise FlowCut


def pause_report(runtime: FlowRuntime, engine: str) -> PauseReport | None:
    """Return what is to be said of the paused topics; None: it is not known yet."""
    with runtime.lock:
        if not runtime.is_known:
            return None
        copies = runtime.copies() | {source: target.topic for source, target, *_ in runtime.partitions}
        paused = paused_of(runtime.pauses, copies)
        late = runtime.late
        busy = (paused & runtime.at_work) | {
            source for source in paused if runtime.copy_of(source, copies) in late.unfenced
        }
        unrefused = frozenset(
            each for each in paused - busy if each in late.kept or runtime.copy_of(each, copies) in late.all_unrefused
        )
        return PauseReport(
            engine,
            tuple(each.wish for each in runtime.pauses.known),
            busy,
            {source: _why_open(runtime, source) for source in sorted(paused - busy) if not runtime.is_final(source)},
            unrefused,
            late.limit if unrefused else "",
        )


def _why_open(runtime: FlowRuntime, source: TopicPartition) -> str:
    """Say why it is not on record how far a partition is copied."""
    if (stopped := runtime.stopped.get(source)) is not None:
        return stopped
    trouble = _NOT_TAKEN_OVER if source in runtime.takeovers else runtime.troubles.get(source)
    return trouble or (_TO_BE_COMPARED if source in runtime.handovers else _NOT_BEGUN)
