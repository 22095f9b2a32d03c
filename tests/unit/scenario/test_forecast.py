"""What a failover will cost a group: no less than what it may have read since it committed last."""

from __future__ import annotations

from dataclasses import replace

from mirror.model.partition import TopicPartition
from mirror.model.shadow import Forecast, Processed, ShadowPartition, TakenFrom
from mirror.recovery.rehearsal_plan import RehearsalPlan
from mirror.scenario.forecast import total
from tests.unit.config.files import flows_of

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
ONE = ShadowPartition(
    "billing", FIRST, FIRST, 90, 90, processed=Processed(90, 100), forecast=Forecast(skipped=1, read_again=10)
)
OTHER = replace(ONE, source=SECOND, forecast=Forecast(skipped=0, read_again=0))
PLAN = RehearsalPlan(flows_of("A->B")[0], "now", TakenFrom.CHECKPOINTS, (ONE, OTHER), (), (), ())


def test_what_is_not_committed_may_be_read_again_up_to_the_end_of_the_log() -> None:
    assert total(PLAN, "billing", {FIRST: 130, SECOND: 100}) == Forecast(skipped=1, read_again=10 + 30)


def test_without_a_forecast_for_each_partition_there_is_none_for_the_group() -> None:
    assert total(PLAN, "billing", {FIRST: 130}) is None
    unknown = replace(PLAN, partitions=(ONE, replace(OTHER, forecast=None)))
    assert total(unknown, "billing", {FIRST: 130, SECOND: 100}) is None
