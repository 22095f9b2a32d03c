"""What a failover will cost each group, said just before the disaster: to be held against what it did cost."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.config.errors import ConfigError
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import KafkaProblem
from mirror.model.flow import Flow
from mirror.model.group_pattern import pattern_of
from mirror.model.partition import TopicPartition
from mirror.model.shadow import Forecast
from mirror.recovery.rehearsal_plan import RehearsalPlan, plan_rehearsal
from mirror.scenario.declaration import Replicator
from mirror.scenario.stage import ScenarioStage


def forecast(stage: ScenarioStage) -> tuple[Mapping[str, Forecast], str | None]:
    """Forecast what every group of the active cluster would skip and read again, if it were lost now.

    As in a rehearsal, from the exact positions of what the groups have committed; and what they have read since then
    nobody but they knows: at most all there is now. The load goes on until the disaster, so that a record or two may
    come on top.

    Returns
    -------
    tuple
        a forecast by group, and why there is none where there is none: the exact positions that it rests on are kept by
        this engine alone, and by then the cluster may not answer any more.
    """
    if stage.replicator is not Replicator.MIRROR:
        return {}, None
    scenario = stage.scenario
    flow = Flow(scenario.active, scenario.standby)
    names = [group.name for group in scenario.groups if group.cluster == scenario.active]
    (settings,) = (each for each in stage.settings.enabled_flows if each.flow == flow)
    try:
        plan = plan_rehearsal(stage.settings, settings, pattern=pattern_of(names))
        with Cluster.connect(stage.settings.clusters[scenario.active]) as active:
            ends = active.offsets({each.source for each in plan.partitions}, "latest")
    except (KafkaProblem, ConfigError) as problem:
        return {}, str(problem)
    return {group: found for group in plan.groups if (found := total(plan, group, ends)) is not None}, None


def total(plan: RehearsalPlan, group: str, ends: Mapping[TopicPartition, int]) -> Forecast | None:
    """Return the forecast of a whole group; None unless there is one for each of its partitions."""
    skipped = read_again = 0
    for each in plan.partitions:
        if each.group != group:
            continue
        forecast, stands, end = each.forecast, each.processed, ends.get(each.source)
        if forecast is None or forecast.read_again is None or stands is None or end is None:
            return None
        skipped += forecast.skipped
        read_again += forecast.read_again + max(0, end - stands.high)
    return Forecast(skipped, read_again)
