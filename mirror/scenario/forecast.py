"""What a failover will cost each group, said just before the disaster: to be held against what it did cost."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirror.config.errors import ConfigError
from mirror.engine.rehearsal_plan import RehearsalPlan, plan_rehearsal
from mirror.kafka.channel import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.kafka.cluster import ClusterError
from mirror.model.flow import Flow
from mirror.model.shadow import Forecast
from mirror.scenario.declaration import Replicator
from mirror.scenario.stage import Stage


def forecast(stage: Stage) -> tuple[Mapping[str, Forecast], str | None]:
    """Forecast, as a rehearsal does, what every group of the active cluster would skip and read again.

    Returns
    -------
    tuple
        a forecast by group, and why there is none where there is none: the exact positions that it rests on are kept by
        this engine alone, and by then the cluster may not answer any more.
    """
    if stage.replicator is not Replicator.MIRROR:
        return {}, None
    scenario = stage.scenario
    way = Flow(scenario.active, scenario.standby)
    names = [group.name for group in scenario.groups if group.cluster == scenario.active]
    (settings,) = (each for each in stage.settings.enabled_flows if each.flow == way)
    try:
        plan = plan_rehearsal(stage.settings, settings, pattern="|".join(map(re.escape, names)))
    except (ConfigError, ClusterError, ConnectionFailed, BrokerRefused, LeaderUnknown) as problem:
        return {}, str(problem)
    return {group: total for group in plan.groups if (total := _total(plan, group)) is not None}, None


def _total(plan: RehearsalPlan, group: str) -> Forecast | None:
    """Return the forecast of a whole group; None unless there is one for each of its partitions."""
    found = [each.forecast for each in plan.partitions if each.group == group]
    known = [each for each in found if each is not None and each.read_again is not None]
    if len(known) < len(found):
        return None
    return Forecast(sum(each.skipped for each in known), sum(each.read_again or 0 for each in known))
