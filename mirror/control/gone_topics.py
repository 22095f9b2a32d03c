"""What is on record of topics that are gone from both clusters: dropped, so that the state topic does not only grow.

Dropped too early it would be copied twice, or lost. So both clusters must say of the topic and of its copy, asked by
name, that there are none such; no answer (an outage, an ACL) says nothing, nor does a topic filter. They must
go on saying so for an hour.

Invariants:

(a) State of a topic is dropped when both clusters say by name, for an hour, that there is neither it nor its copy
    (``control/gone_topics.py``), MirrorMaker's position first.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from mirror.control.flow_tick import RecordingTick
from mirror.control.tick import TickReport
from mirror.model import connect_offsets
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic

GONE_SECONDS = 3600.0

_OF_SOURCE = frozenset({"position", "runs", "sketch", "gap", "acknowledged", "takeover"})
# These name a partition of the target; a placement names the group before it.
_OF_COPY = frozenset({"foreign", "checkpointed"})


@dataclass(eq=False, repr=False)
class GoneTopicsTick(RecordingTick):
    """Looks for topics of the flow's past that neither cluster has any more, and drops what is on record of them.

    The partitions that are dropped are given to ``forget``; ``log`` is read as it was last polled.
    """

    about = "gone topics"

    forget: Callable[[Collection[TopicPartition]], None]
    _: KW_ONLY
    seconds: float = GONE_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    _gone_since: dict[str, float] = field(default_factory=dict, init=False)

    def tick(self) -> TickReport:
        """Run one round; after one that failed the hour begins anew."""
        report = super().tick()
        if not report.is_ok:
            self._gone_since.clear()
        return report

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        copies = self._copies()
        there = self.source.topics(list(copies))
        candidates = {topic for topic in copies if topic not in there and topic not in there.problems}
        names = sorted({name for topic in candidates for name in copies[topic]})
        copied = self.target.topics(names) if names else there
        gone = {
            topic
            for topic in candidates
            if not any(name in copied or name in copied.problems for name in copies[topic])
        }
        now = self.monotonic()
        self._gone_since = {topic: self._gone_since.get(topic, now) for topic in gone}
        due = {topic for topic, since in self._gone_since.items() if now - since >= self.seconds}
        if due:
            self._drop(due, {name for topic in due for name in copies[topic]}, at_ms)
        return len(due), ()

    def _copies(self) -> dict[str, set[str]]:
        """Return the topics of which anything is on record, and where they were, or would be, copied to."""
        state = self.log.state
        found: dict[str, set[str]] = defaultdict(set)
        for source, position in state.positions.items():
            found[source.topic].add(position.target or self.settings.copy_of(source.topic))
        others = (*state.chunks, *state.sparse_maps, *state.takeovers, *(gap.source for gap in state.gaps.values()))
        for topic in {source.topic for source in others} - found.keys():
            found[topic].add(self.settings.copy_of(topic))
        policy = self.settings.policy
        placed = (copy for _, copy in state.placements)
        for copy in {each.topic for each in (*placed, *state.checkpointed)} - set().union(*found.values()):
            # Groups on copies that come back to their original go on there; no flow copies those.
            topic = policy.upstream_topic(copy) or policy.format_remote_topic(self.settings.flow.target, copy)
            found[topic].add(copy)
        return found

    def _drop(self, topics: Collection[str], copies: Collection[str], at_ms: int) -> None:
        state, settings = self.log.state, self.settings
        partitions = {source for source in state.positions if source.topic in topics}
        # A topic of that name that is made later is not to begin at MirrorMaker's position either.
        for source in sorted(partitions):
            key = connect_offsets.source_key(settings.flow.source, source)
            partition = connect_offsets.partition_of(key, settings.offset_storage_partitions)
            self.writer.append(settings.offset_storage_topic, partition, [(key, None, (), at_ms)])
        keys = [key for key, _ in self.log.records() if _is_of(key, topics, copies)]
        self.writer.append(state_topic(settings.flow.source), 0, [(key, None, (), at_ms) for key in keys])
        self.forget(partitions)
        counts = Counter(source.topic for source in partitions)
        self._notes = tuple(
            f"{topic} and its copy have been on neither cluster for {self.seconds / 60:.0f} min: what was on record "
            f"of {counted(counts[topic], 'partition') if counts[topic] else 'them'} is dropped"
            for topic in sorted(topics)
        )


def _is_of(key: bytes, topics: Collection[str], copies: Collection[str]) -> bool:
    try:
        names: Any = json.loads(key)
    except ValueError:
        return False
    match names:
        case ["placement", str(_), str(topic), int(_)]:
            return topic in copies
        case [str(kind), str(topic), int(_), *_]:
            return (kind in _OF_SOURCE and topic in topics) or (kind in _OF_COPY and topic in copies)
    return False
