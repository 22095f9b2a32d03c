"""Positions of groups, translated by what each group has read: not by where flows have put it.

A group that a flow has put somewhere on its target has read nothing there. Led back by that position it would pass
records on the source wherever it was put behind some: at the start of a log that is shorter on the target. And a group
that was set back on the source would be carried forward again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.translation import Bounded, Exact, NothingRead, TooOld, Translation, Translator


class GroupTranslator:
    """Translates positions of groups on a flow's source."""

    def __init__(
        self,
        flow: FlowTranslator,
        between: Translator | None = None,
        *,
        others: Sequence[str] = (),
        find: Callable[[str], FlowLog | None] = lambda _: None,
    ) -> None:
        """Translate as ``between`` does, which knows more clusters than ``flow``, by what groups have read.

        Parameters
        ----------
        others
            the clusters, besides the target, from which flows lead to the source.
        find
            returns the state of the flow from such a cluster to the source, None as long as there is none.
        """
        self._flow = flow
        self._between = between or flow
        self._find = find
        self._others: dict[str, FlowLog | None] = dict.fromkeys(others)

    def refresh(self) -> None:
        """Take in what all flows have recorded by now; to be called when the groups' positions have been read.

        A placement is recorded before it is made, so none of those positions is one that is not known.

        Raises
        ------
        KafkaProblem
            if a cluster does not answer.
        """
        self._flow.refresh()
        for alias, log in self._others.items():
            found = log or self._find(alias)
            if found is not None:
                found.poll()
            self._others[alias] = found

    def placements(self) -> Iterable[Placement]:
        """Return where the flow in the other direction has put groups on the source."""
        return self._flow.opposite.placements() if self._flow.opposite else ()

    def translate(self, group: str, source: TopicPartition, position: int) -> Translation:
        """Return where ``group``, at upstream ``position`` of the partition ``source``, goes on downstream."""
        opposite = self._flow.opposite
        logs = [log for log in self._others.values() if log is not None]
        found = translate_read(
            self._between,
            source,
            position,
            opposite.placement(group, source) if opposite else None,
            [found for log in logs if (found := log.placement(group, source))],
        )
        if not isinstance(found, NothingRead):
            return found
        own = self._flow.forward.offset_map(source)
        copied = _translated_or_first(own.translate, position) if own is not None else None
        return replace(found, first_copied=copied.downstream) if isinstance(copied, Exact) else found

    def close(self) -> None:
        """Close the connections to the source."""
        self._flow.close()
        for log in self._others.values():
            if log is not None:
                log.close()


def sources_of(alias: str, flows: Iterable[FlowSettings], but: str) -> list[str]:
    """Return the clusters from which ``flows`` lead to the cluster ``alias``, without one."""
    return sorted({each.flow.source for each in flows if each.flow.target == alias} - {but})


def translate_read(
    translator: Translator,
    source: TopicPartition,
    position: int,
    from_target: Placement | None,
    from_other_flows: Iterable[Placement] = (),
) -> Translation:
    """Return where a group at upstream ``position`` goes on downstream, no further than it has read.

    Parameters
    ----------
    from_target, from_other_flows
        where flows from the target, and from other clusters, have put the group on the partition ``source``.
    """
    # One that is pending may not have been written: then the one before it counts.
    possible = from_target.possible if from_target is not None else ()
    for put in possible:
        if position == put.written:
            leads_to = _translated_or_first(partial(translator.translate, source), position)
            bound = leads_to.downstream if isinstance(leads_to, Exact | Bounded) else None
            return NothingRead(position, put.upstream, bound)
    others = (each for placement in from_other_flows for each in placement.possible)
    begun_behind = min((each.downstream for each in others if each.is_raised), default=position)
    found = translator.translate(source, min(position, begun_behind))
    unread = min((each.upstream for each in possible if each.is_raised), default=None)
    if not isinstance(found, Exact | Bounded) or unread is None or found.downstream <= unread:
        return found
    # What the target has from there on it was put behind on the source.
    behind = found.behind_records if isinstance(found, Bounded) else 0
    return Bounded(unread, behind + found.downstream - unread)


def _translated_or_first(translate: Callable[[int], Translation], position: int) -> Translation:
    """Return where a position leads to; where all that is copied lies behind it, where that begins."""
    found = translate(position)
    return translate(found.oldest) if isinstance(found, TooOld) else found
