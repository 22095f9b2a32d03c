"""Nothing of value lives in Spark: its JVM may be killed at any moment."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_epochs_whose_jvm_is_killed_fail_and_the_next_ones_run_on_another() -> None:
    """``kill -9`` at work, between two epochs, where no other can be started at first, and before the end.

    An epoch leaves nothing in Spark's folder of temporary files, as what tasks are handed holds passwords: without that
    folder it goes on.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.losing_the_jvm"], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    lost = "Spark's JVM has ended; the next epoch starts another"
    cleaned, at_work, then, between, after_that, then_without_java, still, in_the_end = told["said"]
    assert cleaned is None
    assert (at_work, then) == (lost, None)
    assert (between, after_that) == (lost, None)
    assert (then_without_java, still.split(" (")[0], in_the_end) == (lost, "Spark's JVM did not start", None)
    assert told["jvms"] == 3
