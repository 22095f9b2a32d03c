"""State topics that the procedure follows: each is read once, and from then on only what is new.

A state topic holds a record for each change of each position until it is compacted: reading all of it for each question
is what most of a failover of many groups would be spent on.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import suppress

from mirror.config.settings import ClusterSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.kafka.problems import KafkaProblem
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.state_record import state_topic


class StateFollowers:
    """The state topics of flows; not for several threads at once. Connections end with it."""

    def __init__(self) -> None:
        self._logs: dict[Flow, FlowLog] = {}
        weakref.finalize(self, _close, self._logs)

    def state(self, clusters: Mapping[str, ClusterSettings], flow: Flow) -> FlowState:
        """Return what is on record of a flow by now; nothing if it has never run.

        Raises
        ------
        BrokerRefused, ConnectionFailed, LeaderUnknown
            if its target does not answer.
        """
        log = self.log(clusters, flow)
        return FlowState() if log is None else log.observed()

    def log(self, clusters: Mapping[str, ClusterSettings], flow: Flow) -> FlowLog | None:
        """Return the log of a flow as it is by now, None if it has never run; it is not to be closed.

        The exceptions are those of :meth:`state`.
        """
        log = self._logs.get(flow)
        if log is not None:
            # A connection may have ended long ago, and what was read may not be there any more: it is read anew.
            with suppress(KafkaProblem):
                log.poll()
                if log.loss is None:
                    return log
            self._logs.pop(flow).close()
        log = FlowLog(clusters[flow.target].client, state_topic(flow.source), alias=flow.target)
        try:
            log.poll()
        except NeverRun:
            log.close()
            return None
        except BaseException:
            log.close()
            raise
        self._logs[flow] = log
        return log


def _close(logs: dict[Flow, FlowLog]) -> None:
    for log in logs.values():
        log.close()
