"""What the log says of a flow's copy: each change of its condition once, partitions in the same condition together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mirror.control.foreign import foreign_reasons
from mirror.control.tick import now_ms, shortened
from mirror.engine.run_log import logger_of
from mirror.engine.standing import FlowStanding
from mirror.model.flow_state import Gap, GapKey

# What may be wrong: of what kind, and with what: a partition, or the flow itself (empty).
Condition: TypeAlias = tuple[str, str]

# A condition that comes and goes, or whose words change, is told anew no sooner.
_AGAIN_SECONDS = 60.0


@dataclass(slots=True)
class _Told:
    reason: str
    at: float
    holds: bool = True


class FlowNews:
    """Tells the log what has changed since it last looked."""

    def __init__(self, standing: FlowStanding, clock: Callable[[], float] = time.monotonic) -> None:
        """Look at ``standing``; ``clock`` gives seconds."""
        self._standing = standing
        self._clock = clock
        self._log = logger_of(standing.settings.flow)
        self._told: dict[Condition, _Told] = {}
        self._gaps: dict[GapKey, Gap] = {}
        self._term: int | None = None
        self._reported = False

    def look(self) -> None:
        """Log what is new."""
        standing = self._standing
        with standing.lock:
            term, has_reported, partitions = standing.term, standing.has_reported, standing.partitions
            now, gaps = conditions(standing), {gap.key: gap for gap in standing.open_gaps}
        if term != self._term:
            # What another engine copies is that one's news.
            self._term, self._reported, self._told, self._gaps = term, False, {}, {}
        if term is None:
            return
        if has_reported and not self._reported:
            self._reported = True
            topics = len({source.topic for source, *_ in partitions})
            self._log.info("the first epoch has reported; partitions copied: %s, topics: %s", len(partitions), topics)
        self._tell_conditions(now)
        self._tell_gaps(gaps)

    def _tell_conditions(self, now: Mapping[Condition, str]) -> None:
        at = self._clock()
        begun: dict[tuple[str, str], list[str]] = {}
        ended: dict[str, list[str]] = {}
        for condition, reason in now.items():
            told = self._told.get(condition)
            if told is None or (at - told.at >= _AGAIN_SECONDS and not (told.holds and told.reason == reason)):
                self._told[condition] = _Told(reason, at)
                kind, subject = condition
                begun.setdefault((kind, reason), []).append(subject)
        for condition, told in self._told.items():
            if told.holds and condition not in now:
                told.holds = False
                kind, subject = condition
                ended.setdefault(kind, []).append(subject)
        # What came and went is told again when it comes again.
        self._told = {key: told for key, told in self._told.items() if told.holds or at - told.at < _AGAIN_SECONDS}
        for (kind, reason), subjects in begun.items():
            self._log.warning("%s%s: %s", _named(subjects), kind, reason)
        for kind, subjects in ended.items():
            self._log.info("%s%s: no longer", _named(subjects), kind)

    def _tell_gaps(self, gaps: Mapping[GapKey, Gap]) -> None:
        new = [gap for key, gap in sorted(gaps.items()) if key not in self._gaps]
        said = [
            f"gap found: {each.source} lacks offsets {each.start} to {each.end - 1} ({each.kind.value}): {each.reason}"
            for each in new
        ]
        for line in shortened(said):
            self._log.warning("%s", line)
        closed = [str(gap.source) for key, gap in sorted(self._gaps.items()) if key not in gaps]
        if closed:
            self._log.info("%sgaps: acknowledged", _named(closed))
        self._gaps = dict(gaps)


def conditions(standing: FlowStanding) -> dict[Condition, str]:
    """Return what is wrong with a flow's copy now, but for what its ticks say themselves."""
    flow = standing.settings.flow
    found: dict[Condition, str | None] = {
        ("copy", ""): standing.copy_trouble,
        ("takeover", ""): standing.takeover_trouble,
        ("state topic", ""): standing.loss,
        ("quotas", ""): "; ".join(standing.throttles),
    }
    found |= {("is stopped", str(source)): reason for source, reason in standing.stopped.items()}
    found |= {("waits", str(source)): reason for source, reason in standing.troubles.items()}
    found |= {
        ("is not written until what was sent before is refused", str(target)): why
        for target, why in standing.fence_troubles.items()
    }
    found |= {
        (f"writer {each.producer_id} in {each.copy}", ""): "; ".join(
            foreign_reasons([each], flow.target, now_ms(), standing.writers)
        )
        for each in standing.foreign
    }
    return {condition: reason for condition, reason in found.items() if reason}


def _named(subjects: list[str]) -> str:
    """Name the first of some partitions, and how many more there are; nothing for the flow itself."""
    first, *others = sorted(subjects)
    if not first:
        return ""
    return f"{first} (and {len(others):,} more) " if others else f"{first} "
