"""Flows paused and resumed through their targets, for the procedure: what is not confirmed has not been done."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.model.flow import Flow
from mirror.model.flow_state import state_topic
from mirror.recovery.move import named
from mirror.recovery.pause import pause, resume
from mirror.waiting import WaitTimeout

_BY = "mirror failover"
_CONFIRM_SECONDS = 60.0


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
    timeout_seconds: float = _CONFIRM_SECONDS

    def pause(self, flow: Flow) -> str:
        """Return once nobody copies the flow any more; what was done, for people.

        Raises
        ------
        WaitTimeout
            if that is not confirmed.
        """
        found = pause(
            self.settings,
            self._settings_of(flow),
            timeout_seconds=self.timeout_seconds,
            by=_BY,
            awaits_open_ends=self.awaits_open_ends,
        )
        if found.confirmed_by is None:
            raise WaitTimeout(f"nobody confirms that {flow} is paused: {found.problem}")
        said = f"{flow} is paused, confirmed by {found.confirmed_by}"
        if found.open_ends:
            open_ends = [f"{each}: {why}" for each, why in sorted(found.open_ends.items())]
            said += f"; copies that may reach further than is on record: {named(open_ends)}"
        if found.limit is not None:
            said += f"; {found.limit}"
        return said

    def resume(self, flow: Flow) -> str:
        """Return once the flow may be copied again; what was done, for people.

        Raises
        ------
        WaitTimeout
            if the engine has not taken it in.
        """
        found = resume(self.settings, self._settings_of(flow), timeout_seconds=self.timeout_seconds, by=_BY)
        if found.problem is not None:
            raise WaitTimeout(f"nobody confirms that {flow} is copied again: {found.problem}")
        return f"{flow} is copied again" if found.has_engine else f"{flow} will be copied again by the next engine"

    def is_paused(self, flow: Flow) -> bool:
        """Tell whether nothing of the flow may be copied."""
        log = FlowLog(self.settings.clusters[flow.target].client, state_topic(flow.source), alias=flow.target)
        with closing(log):
            try:
                state = log.poll()
            except NeverRun:
                return False
        topics = {source.topic for source in state.positions}
        return state.pauses.pauses_any and all(state.pauses.is_paused(topic) for topic in topics)

    def _settings_of(self, flow: Flow) -> FlowSettings:
        found = self.settings.flow(flow)
        assert found is not None
        return found
