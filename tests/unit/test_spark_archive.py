"""The archive of Spark's classes only saves time: a JVM that does not write it, or not to its end, stops nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from mirror import spark


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Stand in for Spark's JVM: a shell that does what the list says when its standard input ends."""
    said: list[str] = []

    def start(*_: object, settings: dict[str, str]) -> None:
        made = settings["spark.driver.extraJavaOptions"].partition("ArchiveClassesAtExit=")[2].split()[0]
        command = ["sh", "-c", f"cat; {said.pop(0)}", made]
        jvm = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(shutdown=lambda: None, proc=jvm))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(spark, "spark_session", start)
    monkeypatch.setattr(spark, "_warm_up", lambda *_: None)
    return said


def test_an_archive_that_was_written_to_its_end_is_used(endings: list[str], tmp_path: Path) -> None:
    endings.append('echo classes > "$0"')

    assert (made := spark.make_class_archive()) is not None
    assert made.read_text() == "classes\n"
    assert spark.make_class_archive() == made


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("kill -9 $$", -9),
        ('echo clas > "$0"; kill -9 $$', -9),
        ('echo clas > "$0"; exit 1', 1),
        ("true", "No such file"),
    ],
)
def test_a_jvm_that_does_not_write_it_to_its_end_leaves_one_line_and_no_archive(
    endings: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], ending: str, status: object
) -> None:
    endings.append(ending)

    assert spark.make_class_archive() is None
    (line,) = capfd.readouterr().err.splitlines()
    assert str(status) in line
    assert not list((tmp_path / "mirrorbook").glob("*.jsa*"))


def test_a_jvm_that_does_not_end_is_killed_and_said_to_be(endings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    endings.append("sleep 600")
    settings: dict[str, Any] = {"spark.driver.extraJavaOptions": "-XX:ArchiveClassesAtExit=/nowhere"}
    spark.spark_session("archive", settings=settings)

    assert spark.end_spark(patience_seconds=0.0) == -9
    assert spark.end_spark() is None
