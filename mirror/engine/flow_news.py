"""What the log says of a flow's copy: each change of its condition once, partitions in the same condition together."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mirror.control.foreign_records import foreign_records
from mirror.control.tick import now_ms, shortened
from mirror.copier.work import PartitionResult
from mirror.engine import flow_messages
from mirror.engine.cluster_news import NO_OUTAGES, Outages
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.run_log import logger_of
from mirror.kafka.batch import NO_PRODUCER
from mirror.model.counts import first_of
from mirror.model.flow import Flow
from mirror.model.gap import Gap, GapKey, GapKind

# What may be wrong: of what kind, and with what: a partition, or the flow itself (empty).
Condition: TypeAlias = tuple[str, str]

# A condition that comes and goes, or whose words change, is reported anew no sooner.
_AGAIN_SECONDS = 60.0


# What a cluster that is away brings about in partitions, and what is said when a condition ends.
_MAY_COME_OF_OUTAGE = frozenset({"waits", "is not written until what was sent before is refused"})
_GOES_ON = "goes on"
_OVER = {
    "waits": _GOES_ON,
    "is stopped": _GOES_ON,
    "is not written until what was sent before is refused": "is written again",
    "copy": "copy: recovered",
    "tasks": "tasks: all are heard of again",
    "takeover": "takeover: recovered",
    "state topic": "state topic: recovered",
    "quotas": "quotas: no longer throttled",
}
_FAILING_SECONDS = 1.0
# So often it is reported anew what waits for a cluster: an hour later the first line is far above.
_REMINDER_SECONDS = 300.0
# Of a flow none of whose partitions is known yet.
_BEGINNING: Condition = ("begins", "")
# Partitions that were told of in one line end in one, if they end together.
_TOGETHER_SECONDS = 10.0
_NAMED_PLACES = 5


@dataclass(slots=True)
class _Logged:
    reason: str
    at: float
    #: All that the line was about.
    subjects: tuple[str, ...]
    #: Since when it is not so any more, and whether that was reported.
    ended_at: float | None = None
    is_over: bool = False


class FlowNews:
    """Tells the log what has changed since it last looked."""

    def __init__(
        self,
        runtime: FlowRuntime,
        outages: Outages = NO_OUTAGES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look at ``runtime``; ``clock`` gives seconds, the same as those of ``outages``."""
        self._runtime = runtime
        self._outages = outages
        self._clock = clock
        self._log = logger_of(runtime.settings.flow)
        self._begin_anew(None)

    def _begin_anew(self, term: int | None) -> None:
        # What another engine copies is that one's news.
        self._term, self._reported = term, False
        self._logged: dict[Condition, _Logged] = {}
        # What is not reported yet, since when it is seen; and what waits for a cluster that is away, by its alias.
        self._met: dict[Condition, float] = {}
        self._waiting_for: dict[str, set[Condition]] = {}
        # Since when, and when that was last reported.
        self._waits_since: dict[str, tuple[float, float]] = {}
        self._gaps: dict[GapKey, Gap] = {}

    def look(self) -> None:
        """Log what is new."""
        runtime = self._runtime
        with runtime.lock:
            term, has_reported, partitions = runtime.term, runtime.has_reported, runtime.partitions
            now, gaps = conditions(runtime), {gap.key: gap for gap in runtime.open_gaps}
            # Only where something may have ended: partitions may be many.
            copied = {str(each) for each, *_ in partitions if not runtime.is_idle(each)} if self._logged else set()
        if term != self._term:
            self._begin_anew(term)
        if term is None:
            return
        if has_reported and not self._reported:
            self._reported = True
            topics = len({source.topic for source, *_ in partitions})
            self._log.info("the first epoch has reported; partitions copied: %s, topics: %s", len(partitions), topics)
        self._log_begun(self._without_outages(now, has_reported=has_reported))
        self._log_ended(now, copied)
        self._log_gaps(gaps)

    def _without_outages(self, now: Mapping[Condition, str], *, has_reported: bool) -> dict[Condition, str]:
        """Return what is to be told by itself: not what comes of a cluster that is away, which is reported for all at
        once.

        Of what is new it may not be known yet.
        """
        at, flow = self._clock(), self._runtime.settings.flow
        self._met = {condition: since for condition, since in self._met.items() if condition in now}
        own = {}
        if not has_reported:
            # A source that lets nobody in does not even tell which partitions there are.
            for alias in filter(self._outages.is_known, (flow.source, flow.target)):
                self._waits(alias, _BEGINNING)
        for condition, reason in now.items():
            logged = self._logged.get(condition)
            if condition[0] not in _MAY_COME_OF_OUTAGE or (logged is not None and not logged.is_over):
                own[condition] = reason
                continue
            since = self._met.setdefault(condition, at) + _FAILING_SECONDS
            explained = {alias: self._outages.explain(alias, since) for alias in (flow.source, flow.target)}
            # One that is just back explains it only if the other is well.
            away = next((alias for alias in explained if self._outages.is_under_way(alias)), None)
            if away is None and None in explained.values():
                continue
            cause = away or next((alias for alias, is_explained in explained.items() if is_explained), None)
            if cause is not None:
                self._waits(cause, condition)
            else:
                own[condition] = reason
        for alias, waited in list(self._waiting_for.items()):
            others = waited & own.keys()
            waited.intersection_update(now.keys() - own.keys())
            if not has_reported and self._outages.is_known(alias):
                waited.add(_BEGINNING)
            if waited:
                self._remind(alias)
            else:
                del self._waiting_for[alias], self._waits_since[alias]
                but_for = f", but for {len(others):,} of its partitions" if others else ""
                # A pause, or the cut of a failover, ends the waiting as well.
                is_away = self._outages.is_under_way(alias)
                away = ", which does not answer yet: nothing is to be copied now" if is_away else ""
                self._log.info("the copy no longer waits for %s%s%s", alias, but_for, away)
        return own

    def _waits(self, alias: str, condition: Condition) -> None:
        if alias not in self._waiting_for:
            self._log.warning("the copy waits for %s", alias)
            self._waits_since[alias] = self._clock(), self._clock()
        self._waiting_for.setdefault(alias, set()).add(condition)

    def _remind(self, alias: str) -> None:
        """Tell again, with the reason, what goes on."""
        at, (since, logged_at) = self._clock(), self._waits_since[alias]
        if at - logged_at < _REMINDER_SECONDS:
            return
        self._waits_since[alias] = since, at
        why = self._outages.reason(alias)
        self._log.warning(
            "the copy has waited for %s for %.0f min%s", alias, (at - since) / 60, f": {why}" if why else ""
        )

    def _log_begun(self, now: Mapping[Condition, str]) -> None:
        at = self._clock()
        begun: dict[tuple[str, str], dict[str, str]] = {}
        for condition, reason in now.items():
            logged = self._logged.get(condition)
            if logged is None or (at - logged.at >= _AGAIN_SECONDS and (logged.is_over or logged.reason != reason)):
                kind, subject = condition
                begun.setdefault((kind, _alike(subject, reason)), {})[subject] = reason
        for (kind, _), reasons in begun.items():
            for subject, reason in reasons.items():
                self._logged[kind, subject] = _Logged(reason, at, tuple(reasons))
            self._log.warning("%s%s: %s", _named(list(reasons)), kind, reasons[min(reasons)])

    def _log_ended(self, now: Mapping[Condition, str], copied: Collection[str]) -> None:
        at = self._clock()
        lines: dict[tuple[str, tuple[str, ...]], list[tuple[str, _Logged]]] = {}
        for (kind, subject), logged in self._logged.items():
            # What waited and is stopped now, or is paused or not selected any more, does not go on.
            goes_on = subject in copied and ("is stopped", subject) not in now
            if _OVER.get(kind) == _GOES_ON and (kind, subject) not in now and not goes_on:
                logged.is_over = True
            if not logged.is_over:
                logged.ended_at = None if (kind, subject) in now else at if logged.ended_at is None else logged.ended_at
                lines.setdefault((kind, logged.subjects), []).append((subject, logged))
        for (kind, _), members in lines.items():
            ended = {subject: logged for subject, logged in members if logged.ended_at is not None}
            since = min((logged.ended_at for logged in ended.values() if logged.ended_at is not None), default=at)
            if ended and (len(ended) == len(members) or at - since >= _TOGETHER_SECONDS):
                for logged in ended.values():
                    logged.is_over = True
                self._log.info("%s%s", _named(list(ended)), _OVER.get(kind, f"{kind}: no longer seen"))
        # What came and went is reported again when it comes again.
        self._logged = {
            key: logged for key, logged in self._logged.items() if not logged.is_over or at - logged.at < _AGAIN_SECONDS
        }

    def _log_gaps(self, gaps: Mapping[GapKey, Gap]) -> None:
        new = [gap for key, gap in sorted(gaps.items()) if key not in self._gaps]
        for line in shortened([_gap_line(gap) for gap in new]):
            self._log.warning("%s", line)
        closed = [str(gap.source) for key, gap in sorted(self._gaps.items()) if key not in gaps]
        if closed:
            self._log.info("%sgaps: acknowledged", _named(closed))
        self._gaps = dict(gaps)


def _gap_line(gap: Gap) -> str:
    verb = "copies again" if gap.kind is GapKind.COPIED_AGAIN else "lacks"
    # Of some gaps nobody knows how far they reach, or whether any record is missing.
    what = f"{verb} offsets {gap.start} to {gap.end - 1}" if gap.count else f"from offset {gap.start} on"
    return f"gap found: {gap.source} {what} ({gap.kind.value}): {gap.reason}"


def log_begun(results: Iterable[PartitionResult]) -> None:
    """Log how the copies of partitions were begun, as far as somebody should know."""
    followed: dict[Flow, list[str]] = {}
    for each in results:
        if each.note:
            logger_of(each.flow).warning("%s: %s", each.source, each.note)
        if each.followed_to is not None:
            followed.setdefault(each.flow, []).append(f"{each.source} from offset {each.followed_to}")
    for flow, places in followed.items():
        logger_of(flow).info(
            "copies from where %s->%s has copied to, what lies before that is there: %s",
            flow.target,
            flow.source,
            first_of(places, _NAMED_PLACES),
        )


def conditions(runtime: FlowRuntime) -> dict[Condition, str]:
    """Return what is wrong with a flow's copy now, but for what its ticks say themselves."""
    flow = runtime.settings.flow
    found: dict[Condition, str | None] = {
        ("copy", ""): runtime.copy_trouble,
        ("tasks", ""): flow_messages.silence(runtime),
        ("takeover", ""): runtime.takeover_trouble,
        ("state topic", ""): runtime.loss,
        ("quotas", ""): "; ".join(runtime.throttles),
    }
    found |= {("is stopped", str(source)): reason for source, reason in runtime.stopped.items()}
    found |= {
        ("waits", str(source)): reason for source, reason in runtime.troubles.items() if not runtime.is_idle(source)
    }
    found |= {
        ("is not written until what was sent before is refused", str(target)): why
        for target, why in runtime.late.troubles.items()
    }
    found |= {
        (f"{each.copy} on {flow.target}, {_who(each.producer_id)}", ""): foreign_records(
            each, now_ms(), runtime.writers
        )
        for each in runtime.foreign
    }
    return {condition: reason for condition, reason in found.items() if reason}


def _who(producer_id: int) -> str:
    """Name a producer shortly; every one without an id is -1."""
    return "a producer without an id" if producer_id == NO_PRODUCER else f"producer {producer_id}"


def _alike(subject: str, reason: str) -> str:
    """Return what the reasons of other partitions have in common that differ in name and numbers alone."""
    return re.sub(r"\d+", "#", reason.replace(subject, "*") if subject else reason)


def _named(subjects: list[str]) -> str:
    """Name the first of some partitions, and how many more there are; nothing for the flow itself."""
    first, *others = sorted(subjects)
    if not first:
        return ""
    return f"{first} (and {len(others):,} more) " if others else f"{first} "
