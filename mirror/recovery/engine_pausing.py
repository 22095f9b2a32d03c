"""Flows paused and resumed through their targets, for the procedure: what is not confirmed has not been done."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from mirror.config.settings import MirrorSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.model.flow import Flow
from mirror.model.pause import Pauses
from mirror.model.state_record import state_topic
from mirror.recovery.flow_ends import Cut
from mirror.recovery.pause import pause, resume
from mirror.recovery.step_facts import named
from mirror.waiting import WaitTimeout

_BY = "mirror failover"
_CONFIRM_SECONDS = 60.0
# An engine that is gone is silent for as long as its right to lead lasts, and where nothing refuses what it sends its
# right to write has to run out as well.
_GONE_TIMEOUTS = 2.0


@dataclass(frozen=True, slots=True)
class EnginePausing:
    """Pauses flows of a properties file; see `mirror.recovery.flow_ends.Pausing`.

    Attributes
    ----------
    awaits_open_ends
        whether a pause is waited for until it is known of each partition how far it is copied, which takes the source.
    """

    settings: MirrorSettings
    awaits_open_ends: bool

    @property
    def timeout_seconds(self) -> float:
        """For how long a confirmation is waited for: longer than an engine that is gone may keep others waiting."""
        return _CONFIRM_SECONDS + _GONE_TIMEOUTS * self.settings.engine.leader_timeout_seconds

    def pause(self, flow: Flow) -> Cut:
        """Return once nobody copies the flow any more.

        Raises
        ------
        WaitTimeout
            if that is not confirmed.
        """
        found = pause(
            self.settings,
            self.settings.known(flow),
            timeout_seconds=self.timeout_seconds,
            by=_BY,
            awaits_open_ends=self.awaits_open_ends,
            is_cut=True,
        )
        if found.confirmed_by is None:
            raise WaitTimeout(f"nobody confirms that {flow} is paused: {found.problem}")
        confirmed = f", confirmed by {found.confirmed_by}" if found.has_engine else f": {found.confirmed_by}"
        return Cut(f"{flow} is paused{confirmed}", found.open_ends, found.limit)

    def resume(self, flow: Flow) -> str:
        """Return once the cut is ended; what was done, for people. What was paused by hand stays so, and is named.

        Raises
        ------
        WaitTimeout
            if the engine has not taken it in.
        """
        pauses = self._pauses(flow)[0]
        by_hand = pauses.without_cut().descriptions()
        left = f"; paused by hand as before: {named(by_hand)}" if by_hand else ""
        if not pauses.is_cut:
            return f"{flow} is not cut{left}"
        found = resume(
            self.settings, self.settings.known(flow), timeout_seconds=self.timeout_seconds, by=_BY, is_cut=True
        )
        if found.problem is not None:
            raise WaitTimeout(f"nobody confirms that {flow} is copied again: {found.problem}")
        again = "is copied again" if found.has_engine else "will be copied again by the next engine"
        return f"{flow} {again}{left}"

    def is_paused(self, flow: Flow) -> bool:
        """Tell whether nothing of the flow may be copied."""
        pauses, topics = self._pauses(flow)
        return pauses.pauses_any and all(pauses.is_paused(topic) for topic in topics)

    def is_cut(self, flow: Flow) -> bool:
        """Tell whether the cut is in force; behind its end the flow may have been copied before a pause by hand."""
        return self._pauses(flow)[0].may_be_cut

    def _pauses(self, flow: Flow) -> tuple[Pauses, set[str]]:
        """Return what is paused, and the topics on record."""
        log = FlowLog(self.settings.clusters[flow.target].client, state_topic(flow.source), alias=flow.target)
        with closing(log):
            try:
                state = log.observe()
            except NeverRun:
                return Pauses(), set()
        return state.pauses, {source.topic for source in state.positions}
