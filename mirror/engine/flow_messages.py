"""What is wrong with a flow, and what else people should know of it, in words for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mirror.control.foreign_records import foreign_reasons
from mirror.control.gaps import open_gaps_reason
from mirror.control.tick import MOST_NAMED, now_ms, shortened
from mirror.copier.work import TaskResult
from mirror.engine.cluster_news import NO_OUTAGES, Outages
from mirror.engine.flow_pauses import LEFT_OUT
from mirror.engine.flow_runtime import FlowRuntime
from mirror.model.counts import are, counted
from mirror.model.flow import Flow
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition
from mirror.model.state_values import stopped_reason

# A task says twice a second that it lives, so that it is frozen, or cannot be reached; seconds.
_SILENT = 15.0


def reasons(runtime: FlowRuntime, outages: Outages = NO_OUTAGES) -> tuple[str, ...]:
    """Return everything that is wrong with the flow now, in words for people.

    What comes of a cluster that is away is one reason, whoever has met it.
    """
    flow = runtime.settings.flow
    target, away = flow.target, outages.under_way((flow.source, flow.target))
    with runtime.lock:
        messages: list[str] = [
            trouble
            for trouble in (runtime.copy_trouble, silence(runtime), runtime.takeover_trouble, runtime.loss)
            if trouble
        ]
        messages += runtime.throttles
        # What is paused, and final, is not tried again: what it had met last says nothing of now.
        troubles = {source: reason for source, reason in runtime.troubles.items() if not runtime.is_idle(source)}
        waiting = {
            source: next((alias for alias in away if _is_about(alias, reason)), None)
            for source, reason in troubles.items()
        }
        for alias, words in away.items():
            who = _named(sorted(source for source, cause in waiting.items() if cause == alias))
            messages.append(f"{words}; for it wait {who}" if who else words)
        messages += _taking_over(runtime)
        messages += shortened(
            [
                f"{copy} on {target} waits until what was sent before can no longer arrive: {why}"
                for copy, why in sorted(runtime.late.troubles.items())
            ]
        )
        messages += shortened([stopped_reason(source, reason) for source, reason in sorted(runtime.stopped.items())])
        own = {source: reason for source, reason in troubles.items() if waiting[source] is None}
        messages += shortened([f"{sources}: {reason}" for reason, sources in _alike(own).items()])
        for report in runtime.reports.values():
            if report.unreached not in away:
                messages += [f"{report.name}: {problem}" for problem in shortened(report.problems)]
        if runtime.open_gaps:
            messages.append(open_gaps_reason(runtime.open_gaps))
        messages += shortened(foreign_reasons(runtime.foreign, target, now_ms(), runtime.writers))
        return tuple(dict.fromkeys(messages))


def silence(runtime: FlowRuntime) -> str | None:
    """Say that a task which copies is not heard of any more; before the first epoch has reported it is starting."""
    with runtime.lock:
        seconds = runtime.silent_seconds() if runtime.at_work and runtime.has_reported else 0.0
    return f"a task has said nothing for {seconds:.0f} s: what it copies stands still" if seconds > _SILENT else None


def first_stopped(runtime: FlowRuntime) -> dict[TopicPartition, str]:
    """Return why partitions are stopped: those that :func:`reasons` names."""
    with runtime.lock:
        first = sorted(runtime.stopped)[:MOST_NAMED]
        return dict(zip(first, shortened([runtime.stopped[source] for source in first]), strict=True))


def notes(runtime: FlowRuntime) -> tuple[str, ...]:
    """Return what people should know of the flow although nothing is wrong."""
    with runtime.lock:
        messages = [
            f"{report.name}: {note}"
            for report in runtime.reports.values()
            # Until its tick looks again, which may take minutes, the report is of the time before.
            for note in shortened([each for each in report.notes if runtime.pauses.may_be_cut or each != LEFT_OUT])
        ]
        if alone := sorted(runtime.leaders_alone.items()):
            source, reason = alone[0]
            messages.append(
                f"{counted(len(alone), 'partition')} {are(len(alone))} read from the leader for now, and not from "
                f"the closest replica (client.rack): {source}: {reason}"
            )
        messages += runtime.translated.given_up
        if translated := sorted(runtime.translated.reasons.items()):
            source, reason = translated[0]
            messages.append(
                f"{counted(len(translated), 'partition')} {are(len(translated))} translated, since they cannot have "
                f"the source's offsets (mirror.offsets.refused): {source}: {reason}"
            )
        return tuple(dict.fromkeys(filter(None, (*runtime.late.messages, *runtime.file_notes, *messages))))


def used_meanwhile(transactional_id: str) -> str:
    """Say that somebody else has written with an id of the flow that was left until a transaction ends."""
    return (
        f"the transactional id {transactional_id} was used by another while a transaction of it had not ended: does a "
        "Java MirrorMaker run this flow, too? What both have copied meanwhile is there twice: mirror verify"
    )


def throttle_reasons(flow: Flow, results: Iterable[TaskResult], seconds: float) -> tuple[str, ...]:
    """Return for how long the most throttled task was held back by each cluster, in an epoch of so many seconds."""
    throttled = [each.throttled[flow] for each in results if flow in each.throttled]
    longest = (
        (flow.source, max((each.source_ms for each in throttled), default=0)),
        (flow.target, max((each.target_ms for each in throttled), default=0)),
    )
    return tuple(
        f"throttled by {alias} for {ms / 1000:.2f} s of the last {seconds:.1f} s: a quota of that cluster holds the "
        "copy back"
        for alias, ms in longest
        if ms
    )


def _taking_over(runtime: FlowRuntime) -> list[str]:
    """Return how far the takeovers are: of each what is known, and the number of the others."""
    # Java MirrorMaker's positions of topics that are not copied any more stay for ever.
    waiting = [
        source for source, *_ in runtime.partitions if source in runtime.takeovers and source not in runtime.stopped
    ]
    begun = [(source, taken) for source in waiting if (taken := runtime.taking.get(source)) and taken.upstream is None]
    messages = shortened(
        [
            f"{source}: matching the tail that Java MirrorMaker left: {taken.seen:,} of about "
            f"{counted(taken.span, 'record')}"
            for source, taken in begun
        ]
    )
    if len(waiting) > len(begun):
        rest = len(waiting) - len(begun)
        messages.append(f"{counted(rest, 'partition')} {are(rest)} to be taken over from Java MirrorMaker")
    return messages


def _alike(reasons: Mapping[TopicPartition, str]) -> dict[str, str]:
    """Return who waits for each reason, in order: the first, and how many more."""
    found = grouped((reason, source) for source, reason in sorted(reasons.items()))
    return {reason: _named(sources) for reason, sources in found.items()}


def _named(sources: Sequence[TopicPartition]) -> str:
    """Return the first of some partitions, and how many more there are; nothing if there are none."""
    if not sources:
        return ""
    return f"{sources[0]} (and {len(sources) - 1:,} more)" if len(sources) > 1 else str(sources[0])


def _is_about(alias: str, reason: str) -> bool:
    """Tell whether what keeps a partition waiting was met on a way to a cluster: it names that first."""
    return reason.startswith((f"{alias}: ", f"{alias}, broker "))
