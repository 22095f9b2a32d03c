"""The ticks that keep up who may do what on a flow's target: ACLs, client quotas and SCRAM users."""

from __future__ import annotations

from mirror.config.settings import FlowSettings
from mirror.control.acls import AclsTick
from mirror.control.flow_log import FlowLog
from mirror.control.flow_tick import FlowTick
from mirror.control.quotas import QuotasTick
from mirror.control.users import UsersTick
from mirror.engine.flow_pauses import unless_cut
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.ticking import Timed
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter


def access_ticks(
    runtime: FlowRuntime, settings: FlowSettings, source: Cluster, target: Cluster, log: FlowLog, writer: LogWriter
) -> list[Timed]:
    """Return what keeps up who may do what on the target; the first round comes at once (RUN-01)."""
    ends = (source, target, settings)
    if not settings.sync_topic_acls:
        return []
    ticks: list[FlowTick] = [AclsTick(*ends, log, writer)]
    if settings.acls.client_quotas:
        ticks.append(QuotasTick(*ends, log, writer))
    if settings.acls.scram_users:
        ticks.append(UsersTick(*ends))
    return [(settings.sync_topic_acls_interval_seconds, unless_cut(runtime, tick)) for tick in ticks]
