"""Work spread over Spark tasks, and somebody told how far it is."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mirror.model.progress import Watch, nobody
from mirror.waiting import wait_until, within_a_wait

T = TypeVar("T")
U = TypeVar("U")


def in_tasks(
    spark: SparkSession, work: Sequence[T], do: Callable[[T], U], doing: str, watch: Watch = nobody
) -> list[U]:
    """Do each piece of work in a Spark task of its own, and return what came of it, in order.

    An interruption cancels what is under way.
    """
    if not work:
        return []
    context, group = spark.sparkContext, f"{doing} {uuid.uuid4()}"

    def each(portion: Iterable[T]) -> Iterable[U]:
        return map(do, portion)

    tasks = context.parallelize(work, len(work)).mapPartitions(each)
    if watch is nobody:
        return tasks.collect()

    def run() -> list[U]:
        context.setJobGroup(group, doing)
        return tasks.collect()

    watch(doing, 0, len(work))
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(run)

        def has_ended() -> bool:
            watch(doing, _completed(context, group), len(work))
            return answer.done()

        try:
            # Who watches the work is not told of it a second time, as a wait.
            with within_a_wait():
                wait_until(has_ended, doing, timeout_seconds=math.inf)
        except BaseException:
            context.cancelJobGroup(group)
            raise
        return answer.result()


def _completed(context: SparkContext, group: str) -> int:
    """Return how many tasks of a job group have ended."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
