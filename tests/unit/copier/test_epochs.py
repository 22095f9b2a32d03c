"""What becomes of a job beside the epochs when these give their Spark up, and the time between two epochs."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

from mirror.copier.epoch_channel import EpochChannelListener
from mirror.copier.epochs import EpochFailed, Epochs
from mirror.copier.work import TaskResult, TaskWork
from mirror.waiting import wait_until

NOTHING = TaskWork(flows=(), partitions=(), seconds=0.0, commit_seconds=1.0)


class HalfGone:
    """A Spark in which something is missing, as in one that is being ended."""

    def __init__(self, epochs: Epochs, *, is_given_up: bool) -> None:
        self._epochs = epochs
        self._is_given_up = is_given_up

    def parallelize(self, *_: object) -> Any:
        if self._is_given_up:
            self._epochs._spark = None
        raise AttributeError("'NoneType' object has no attribute 'parallelize'")


@pytest.mark.parametrize(("is_given_up", "met"), [(True, EpochFailed), (False, AttributeError)])
def test_a_takeover_on_a_spark_that_is_given_up_fails_and_a_defect_stays_a_defect(
    is_given_up: bool, met: type[Exception]
) -> None:
    epochs = Epochs(None, 1)
    epochs._spark = HalfGone(epochs, is_given_up=is_given_up)  # type: ignore[assignment]
    with pytest.raises(met, match="'NoneType' object has no attribute"):
        epochs.take_over(NOTHING)


class Failing:
    """A Spark that says what became of a job as Java says it."""

    def __init__(self, *said: str) -> None:
        self._said = "\n".join(said)

    def parallelize(self, *_: object) -> Any:
        raise EOFError(self._said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            ("PythonException: Traceback", "    run()", "AttributeError: no begun", " SQLSTATE: 38000", "\tat Runner"),
            "AttributeError: no begun",
        ),
        (
            ("SparkException: worker crashed", "Caused by: java.io.EOFException", "", "Driver stacktrace:", "\tat Dag"),
            "SparkException: worker crashed",
        ),
        (
            ("", ": SparkException: [SPARK_JOB_CANCELLED] Job 1 cancelled as part of all SQLSTATE: XXKDA", "\tat Dag"),
            "a task that has said nothing for long was given up: it stands still, or is cut off from this process",
        ),
    ],
)
def test_why_a_task_failed_is_told_and_not_what_java_says_behind_it(said: tuple[str, ...], told: str) -> None:
    epochs = Epochs(None, 1)
    epochs._spark = Failing(*said)  # type: ignore[assignment]
    with pytest.raises(EpochFailed, match=f"^{told}$"):
        epochs.take_over(NOTHING)


class OneTask:
    """A Spark whose only task listens to the driver, and ends."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self._works: list[TaskWork] = []

    def parallelize(self, works: list[TaskWork], _: int) -> OneTask:
        self._works = works
        return self

    def map(self, _: object) -> OneTask:
        return self

    def collect(self) -> list[TaskResult]:
        (work,) = self._works
        assert work.epoch_channel is not None
        epoch_channel = self._epochs._epoch_channel
        assert epoch_channel is not None
        with closing(EpochChannelListener(work.epoch_channel)):
            wait_until(lambda: epoch_channel.listeners, "the driver to know its task", timeout_seconds=5)
        return [TaskResult(())]


def test_the_seam_is_the_time_between_the_end_of_a_task_and_the_beginning_of_the_next_epochs() -> None:
    epochs = Epochs("local[1]", 1)
    epochs._spark = OneTask(epochs)  # type: ignore[assignment]
    epochs.run([NOTHING])
    assert epochs.seam_seconds is None
    ended = time.monotonic()
    epochs.run([NOTHING])
    seam = epochs.seam_seconds
    assert seam is not None
    assert seam >= 0
    epochs._alone_since = ended - 100
    epochs.run([NOTHING])
    assert (epochs.seam_seconds or 0) >= 100


class Executors:
    """A Spark cluster whose executors have so many cores."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._jsc = self

    def sc(self) -> Executors:
        return self

    def resourceProfileManager(self) -> Executors:  # noqa: N802 - Spark's name
        return self

    def defaultResourceProfile(self) -> str:  # noqa: N802 - Spark's name
        return "default"

    def maxNumConcurrentTasks(self, _: str) -> int:  # noqa: N802 - Spark's name
        return self.cores


def test_on_a_cluster_tasks_follow_the_cores_of_the_executors_unless_somebody_says_how_many() -> None:
    epochs, told = Epochs("spark://host:7077", 0), Epochs("spark://host:7077", 2)
    assert epochs.at_once() == 1
    for cores in (7, 3, 0):
        epochs._spark = told._spark = Executors(cores)  # type: ignore[assignment]
        assert (epochs.at_once(), told.at_once()) == (max(cores, 1), 2)
