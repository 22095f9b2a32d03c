"""Ctrl-C while Spark's JVM is starting leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import psutil
import pytest

import mirror.spark
from mirror.waiting import wait_until


def test_a_start_that_is_interrupted_leaves_no_jvm() -> None:
    """It went on for hours: PySpark takes away what it would fail to write to, before it looks who has started it."""
    code = "from mirror.spark import spark_context; spark_context('interrupted')"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as starting:
        try:
            (jvm,) = wait_until(psutil.Process(starting.pid).children, "the JVM", timeout_seconds=60)
            starting.send_signal(signal.SIGINT)
            assert starting.wait(60) != 0
        finally:
            starting.kill()
    try:
        jvm.wait(60)
    except psutil.TimeoutExpired:
        jvm.kill()
        raise


def test_a_process_that_is_seen_between_fork_and_exec_or_within_an_exec_is_ended_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its command line is then its parent's, or empty: 3 of 100 looks at a script that does nothing but exec."""
    own = ["python", "-m", "mirror", "run"]
    started: list[subprocess.Popen[bytes]] = []
    seen = [own, [], ["bash", "bin/spark-submit"]]

    def interrupted(*_: object, popen_kwargs: dict[str, Any]) -> None:
        started.append(subprocess.Popen(["sleep", "60"], **popen_kwargs))
        raise KeyboardInterrupt

    def command(process: psutil.Process) -> list[str]:
        return seen.pop(0) if started and process.pid == started[0].pid else own

    monkeypatch.setattr(mirror.spark, "launch_gateway", interrupted)
    monkeypatch.setattr(psutil.Process, "cmdline", command)
    try:
        with pytest.raises(KeyboardInterrupt):
            mirror.spark._launched(mirror.spark.SparkConf(loadDefaults=False), {})
        (process,) = started
        assert not psutil.pid_exists(process.pid)
    finally:
        for each in started:
            each.kill()
            each.wait()
