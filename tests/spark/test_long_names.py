"""Spark where the names of temporary folders are longer than that of a socket may be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_COUNTS = """
from mirror.spark import end_spark, spark_context
try:
    print(spark_context("long", "local[1]").parallelize([1, 2], 1).map(lambda number: number + 1).collect())
finally:
    end_spark()
"""


@pytest.mark.long
def test_tasks_run_though_the_temporary_folder_has_a_name_too_long_for_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 120)
    folder.mkdir()
    # Java does not look at TMPDIR.
    elsewhere = {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}
    ran = subprocess.run(
        [sys.executable, "-c", _COUNTS],
        env=os.environ | elsewhere,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (ran.returncode, ran.stdout) == (0, "[2, 3]\n"), ran.stderr
    assert list(folder.iterdir()) == []
