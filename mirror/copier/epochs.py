"""Epochs on Spark: an epoch is one job of a few tasks, each copying its share of the partitions for some seconds."""

from __future__ import annotations

import os
from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mirror.copier.task import copy
from mirror.copier.work import TaskResult, TaskWork
from mirror.spark import spark_session


class EpochFailed(Exception):
    """A task died with its worker or its executor; what it had written is found by matching the tail."""


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
            if Spark could not finish the job.
        """
        if self._spark is None:
            raise EpochFailed("Spark is not running")
        try:
            return list(self._spark.sparkContext.parallelize(list(works), len(works)).map(copy).collect())
        except (PySparkException, Py4JError, OSError) as error:
            said = str(error).strip().splitlines()
            raise EpochFailed(said[-1] if said else type(error).__name__) from error

    def stop(self) -> None:
        """Stop Spark."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None
