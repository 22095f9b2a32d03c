"""The ticks that keep up who may do what on a flow's target: ACLs, client quotas and SCRAM users."""

from __future__ import annotations

from mirror.config.settings import FlowSettings
from mirror.control.acls import AclsTick
from mirror.control.flow_log import FlowLog
from mirror.control.quotas import QuotasTick
from mirror.control.users import UsersTick
from mirror.engine.ticking import Timed
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter


def access_ticks(
    settings: FlowSettings, source: Cluster, target: Cluster, log: FlowLog, writer: LogWriter
) -> list[Timed]:
    """Return what keeps up who may do what on the target; the first round comes at once (RUN-01)."""
    ends = (source, target, settings)
    if not settings.sync_topic_acls:
        return []
    ticks = [AclsTick(*ends, log, writer).tick]
    if settings.acls.client_quotas:
        ticks.append(QuotasTick(*ends, log, writer).tick)
    if settings.acls.scram_users:
        ticks.append(UsersTick(*ends).tick)
    return [(settings.sync_topic_acls_interval_seconds, tick) for tick in ticks]
