"""Positions on a topic that more than two clusters copy to one another under one name.

Records of a third cluster come to source and target by flows of their own, in any order. A reader goes on where all of
them that lie before were read: what two flows of that cluster have recorded tells how far that is, or it is passed by
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.model.translation import Bounded, Exact, Translation, Translator

# A round of checkpoints asks for many positions, and what was read a moment ago is as good for all.
_FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Third:
    """The flows from a third cluster: to the source, and to the target."""

    to_source: FlowLog
    to_target: FlowLog


@dataclass(frozen=True, slots=True)
class MeshTranslator:
    """Translates as two clusters would do it, and never past what a reader lacks of others.

    Begin from what ``between`` says of the two; ``thirds`` are the other clusters that share a topic.
    """

    between: Translator
    thirds: Callable[[str], Sequence[Third]]

    def translate(self, source: TopicPartition, position: int) -> Translation:
        """Return where a reader at ``position`` of the source partition goes on, on the target."""
        translation = self.between.translate(source, position)
        if not isinstance(translation, Exact | Bounded):
            return translation
        lowest = translation.downstream
        for third in self.thirds(source.topic):
            unread = _first_unread(third, source, position)
            if unread is not None:
                lowest = min(lowest, unread)
        if lowest == translation.downstream:
            return translation
        behind = translation.behind_records if isinstance(translation, Bounded) else 0
        return Bounded(lowest, behind + translation.downstream - lowest)


def _first_unread(third: Third, partition: TopicPartition, position: int) -> int | None:
    """Return an offset on the target before which all copies of the third cluster's records were read.

    None if it has copied nothing there. Behind what it has recorded, it may have written more.
    """
    there = third.to_target.offset_map(partition)
    if there is None:
        return None
    here = third.to_source.offset_map(partition)
    back = here.translate_back(min(position, here.downstream_next)) if here is not None and here.has_copies else None
    upstream = back.downstream if isinstance(back, Exact | Bounded) else there.origin
    found = there.translate(upstream)
    if isinstance(found, Exact | Bounded):
        return found.downstream
    return 0


class Thirds:
    """The third clusters whose flows, in the same file, share topics with a flow; their states are followed."""

    def __init__(
        self,
        settings: FlowSettings,
        flows: Sequence[FlowSettings],
        source_client: Mapping[str, str],
        target_client: Mapping[str, str],
    ) -> None:
        """Find them among ``flows``; nothing is connected before it is needed."""
        self._settings = settings
        self._ends = (settings.flow.source, source_client), (settings.flow.target, target_client)
        by_ends = {(each.flow.source, each.flow.target): each for each in flows}
        self._flows = {
            alias: (by_ends[alias, settings.flow.source], by_ends[alias, settings.flow.target])
            for alias in sorted({each.flow.source for each in flows} - {settings.flow.source, settings.flow.target})
            if (alias, settings.flow.source) in by_ends and (alias, settings.flow.target) in by_ends
        }
        self._logs: dict[str, tuple[FlowLog, FlowLog]] = {}
        self._polled_at: dict[str, float] = {}

    def of_topic(self, topic: str) -> list[Third]:
        """Return those that share a topic.

        Raises
        ------
        KafkaProblem
            if what they have recorded cannot be read.
        """
        if not self._settings.keeps_name(topic):
            return []
        return [
            Third(*self._followed(alias))
            for alias, flows in self._flows.items()
            if all(each.keeps_name(topic) for each in flows)
        ]

    def close(self) -> None:
        """Close the connections."""
        for log in (log for logs in self._logs.values() for log in logs):
            log.close()
        self._logs.clear()

    def _followed(self, alias: str) -> tuple[FlowLog, FlowLog]:
        if alias not in self._logs:
            name = state_topic(alias)
            here, there = (FlowLog(client, name, alias=end) for end, client in self._ends)
            self._logs[alias] = here, there
        now = time.monotonic()
        if now - self._polled_at.get(alias, 0.0) > _FRESH_SECONDS:
            for log in self._logs[alias]:
                log.poll()
            self._polled_at[alias] = now
        return self._logs[alias]
