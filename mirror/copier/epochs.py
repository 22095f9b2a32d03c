"""Epochs on Spark: an epoch is one job of a few tasks, each copying its share of the partitions for some seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mirror.copier.loop import GRACE_SECONDS
from mirror.copier.task import copy
from mirror.copier.work import TaskResult, TaskWork
from mirror.spark import discard_session, jvm_has_ended, spark_session
from mirror.waiting import wait_until


class EpochFailed(Exception):
    """A task died with its worker or its executor; what it had written is found by matching the tail."""


class AlreadyTried(Exception):
    """Spark runs a task again: from where the first attempt began it would write everything twice."""


class Epochs:
    """Runs epochs on one Spark session."""

    def __init__(self, master: str | None, tasks: int) -> None:
        """Run on ``master``, by default on this machine, in ``tasks`` tasks an epoch (0: as many as cores)."""
        self.tasks = tasks or os.cpu_count() or 1
        self._master = master or f"local[{self.tasks}]"
        self._spark: SparkSession | None = None

    def start(self) -> None:
        """Start Spark; takes seconds.

        Raises
        ------
        SparkDidNotStart
            if its JVM cannot be started.
        """
        self._spark = spark_session("mirror", self._master)

    def run(self, works: Sequence[TaskWork]) -> list[TaskResult]:
        """Run one epoch to its end and return what each task hands back, in the order of ``works``.

        Raises
        ------
        EpochFailed
            if Spark could not finish the job; a JVM that has ended is replaced by the next epoch. Raised when the
            other tasks have ended too, so that none of them goes on writing beside the next epoch.
        """
        if self._spark is None:
            self.start()
        assert self._spark is not None
        seconds = max(work.seconds for work in works) + GRACE_SECONDS
        over_at = time.monotonic() + seconds
        try:
            return list(self._spark.sparkContext.parallelize(list(works), len(works)).map(_copy_once).collect())
        except (PySparkException, Py4JError, OSError) as error:
            wait_until(lambda: time.monotonic() >= over_at, "the other tasks of the epoch", timeout_seconds=2 * seconds)
            said = str(error).strip().splitlines()
            if jvm_has_ended():
                self._forget()
                said = ["Spark's JVM has ended; the next epoch starts another"]
            raise EpochFailed(said[-1] if said else type(error).__name__) from error

    def stop(self) -> None:
        """Stop Spark."""
        if self._spark is not None and jvm_has_ended():
            self._forget()
        elif self._spark is not None:
            self._spark.stop()
            self._spark = None

    def _forget(self) -> None:
        discard_session()
        self._spark = None


def _copy_once(work: TaskWork) -> TaskResult:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise AlreadyTried("a task of an epoch is not run again; the next epoch finds out what it has written")
    return copy(work)
