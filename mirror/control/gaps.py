"""The gaps on record, for people: what the copies of a flow lack, and that somebody knows of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.state_record import state_topic

_JSON_KEYS = (
    *("flow", "topic", "partition", "from", "to", "count", "kind", "reason", "found_at", "downstream", "topic_id"),
    *("stops_the_copy", "acknowledged"),
)
# So many gaps are named where they are counted; "mirror gaps" lists all.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class GapEntry:
    """One gap of a flow, who has acknowledged it, if anybody has, and whether the copy has stopped at it.

    What is on record of a gap may not be understood, of a newer version or damaged: then nobody can acknowledge it.
    """

    flow: Flow
    gap: Gap
    acknowledgement: Acknowledgement | None
    stops: bool = False
    is_understood: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the form ``mirror gaps --json`` prints; offsets from ``from`` up to, not including, ``to``."""
        gap, known = self.gap, self.acknowledgement
        return {
            "flow": str(self.flow),
            "topic": gap.source.topic,
            "partition": gap.source.partition,
            "from": gap.start,
            "to": gap.end,
            "count": gap.count,
            "kind": gap.kind.value,
            "reason": gap.reason,
            "found_at": iso_time(gap.found_at_ms),
            "downstream": gap.downstream,
            "topic_id": gap.topic_id or None,
            "stops_the_copy": self.stops,
            "acknowledged": known and {"by": known.by, "at": iso_time(known.at_ms), "reason": known.reason},
        }


def never_run_as_json(flow: Flow, never: NeverRun) -> dict[str, Any]:
    """Return the entry of a flow that has never run: of the same form, and of the kind ``never-run``."""
    return dict.fromkeys(_JSON_KEYS) | {
        "flow": str(flow),
        "count": 0,
        "kind": "never-run",
        "reason": str(never),
        "stops_the_copy": False,
    }


@dataclass(frozen=True, slots=True)
class Choice:
    """Which gaps are meant: those of one topic of the source, or one partition, or all."""

    topic: str | None = None
    partition: int | None = None

    def takes(self, gap: Gap) -> bool:
        """Tell whether ``gap`` is meant."""
        return self.topic in (None, gap.source.topic) and self.partition in (None, gap.source.partition)


def open_gaps_reason(gaps: Sequence[Gap]) -> str:
    """Return for people that these gaps wait for somebody to acknowledge them, and where the first of them are."""
    count = sum(gap.count for gap in gaps)
    named = [gap.where for gap in sorted(gaps, key=lambda gap: gap.key)[:MOST_NAMED]]
    more = f", and {len(gaps) - MOST_NAMED} more" if len(gaps) > MOST_NAMED else ""
    return (
        f"{counted(len(gaps), 'gap')} in the copy: {', '.join(named)}{more}; {counted(count, 'offset')} "
        f"in all, not acknowledged: mirror gaps FILE "
        "lists them"
    )


def entries(flow: Flow, state: FlowState, choice: Choice) -> list[GapEntry]:
    """Return the chosen gaps of a flow, by partition and offset."""
    barriers = set(state.barriers.values())
    understood = [
        GapEntry(flow, gap, state.acknowledgements.get(key), gap in barriers) for key, gap in state.gaps.items()
    ]
    others = [GapEntry(flow, each, None, stops=True, is_understood=False) for each in _not_understood(state)]
    return sorted((each for each in (*understood, *others) if choice.takes(each.gap)), key=lambda each: each.gap.key)


def _not_understood(state: FlowState) -> Iterator[Gap]:
    """Yield the gaps of whose records only the keys are understood."""
    for key, each in state.not_understood.items():
        match json.loads(key):
            case ["gap", _, _, int(start), int(found_at_ms)] if each.source is not None:
                why = f"what is on record of it is not understood ({each.problem}): run the version that wrote it"
                yield Gap(each.source, start, start, why, found_at_ms, GapKind.OTHER, passed=False)


def list_gaps(flow: FlowSettings, clusters: Mapping[str, ClusterSettings], choice: Choice) -> list[GapEntry]:
    """Read the chosen gaps of a flow from its target; works without the source, whether or not an engine runs.

    Raises
    ------
    NeverRun
        if no engine has ever run the flow, so that nobody has looked for gaps.
    KafkaProblem
        if the target cannot be read.
    """
    target, topic = clusters[flow.flow.target], state_topic(flow.flow.source)
    with Cluster.connect(target) as cluster:
        if topic not in cluster.topics([topic]):
            raise NeverRun(flow.flow.target, topic)
    with closing(FlowLog(target.client, topic, alias=flow.flow.target)) as log:
        return entries(flow.flow, log.poll(), choice)


def has_topic(flow: FlowSettings, clusters: Mapping[str, ClusterSettings], topic: str) -> bool:
    """Tell whether a flow has a topic of its source on record; the exceptions are those of :func:`list_gaps`."""
    log = FlowLog(clusters[flow.flow.target].client, state_topic(flow.flow.source), alias=flow.flow.target)
    with closing(log):
        state = log.poll()
        return any(each.topic == topic for each in (*state.positions, *(gap.source for gap in state.gaps.values())))


def acknowledge(
    flow: FlowSettings, clusters: Mapping[str, ClusterSettings], gaps: Iterable[GapEntry], known: Acknowledgement
) -> list[GapEntry]:
    """Acknowledge those of ``gaps``, all of ``flow``, that nobody has, and return them as they are then.

    What is not understood stays as it is.

    Raises
    ------
    KafkaProblem
        if the target does not take it.
    """
    unknown = [entry for entry in gaps if entry.acknowledgement is None]
    chosen = [replace(entry, acknowledgement=known) for entry in unknown if entry.is_understood]
    if chosen:
        with closing(LogWriter(clusters[flow.flow.target].client, alias=flow.flow.target)) as writer:
            records = [(*known.record(gap.key), (), known.at_ms) for gap in (entry.gap for entry in chosen)]
            writer.append(state_topic(flow.flow.source), 0, records)
    return [*chosen, *(entry for entry in unknown if not entry.is_understood)]


def iso_time(at_ms: int) -> str:
    """Return a time given in ms since the epoch as people and programs read it: UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
