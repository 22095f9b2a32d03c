"""What becomes of a job beside the epochs when these give their Spark up."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.copier.epochs import EpochFailed, Epochs
from mirror.copier.work import TaskWork

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
