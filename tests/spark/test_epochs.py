"""Nothing of value lives in Spark: its JVM may be killed at any moment."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark


def test_an_epoch_whose_jvm_is_killed_fails_and_the_next_one_runs_on_another() -> None:
    """``kill -9``; stopping afterwards, when there is no JVM left to stop, is no failure either."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.losing_the_jvm"], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    failed = 'EpochFailed("Spark\'s JVM has ended; the next epoch starts another")'
    assert told == {"failure": failed, "results": 1, "another_jvm": True}
