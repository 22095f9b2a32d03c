"""Ctrl-C while Spark's JVM is starting leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil

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
