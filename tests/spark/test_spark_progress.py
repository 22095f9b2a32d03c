"""Who watches work in Spark tasks sees how far it is, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from mirror.proof.spark_progress import in_tasks
from mirror.waiting import OnLook, outermost, watched

pytestmark = pytest.mark.spark


def test_work_that_is_watched_is_no_wait_to_be_shown_beside(spark: SparkSession) -> None:
    """It was shown a second time, as "waiting for comparing batches"."""
    seen: list[tuple[str, int, int]] = []
    waits: list[str] = []

    @outermost
    @contextmanager
    def watcher(what: str) -> Iterator[OnLook]:
        waits.append(what)
        yield lambda _: None

    with watched(watcher):
        done = in_tasks(spark, [1, 2, 3], lambda each: each * 2, "doubling", lambda *at: seen.append(at))
    assert (done, seen[0], waits) == ([2, 4, 6], ("doubling", 0, 3), [])
