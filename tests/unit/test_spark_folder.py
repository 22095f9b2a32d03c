"""The folder of a process's Spark: it has room for sockets, whose names a system limits, and nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirror import spark
from mirror.spark_folder import SparkFolder

# As Spark names a socket.
SOCKET = f"/.{'0' * 36}.sock"
HOLDER = """
import sys, pathlib
from mirror.spark_folder import SparkFolder
folder = SparkFolder([pathlib.Path(sys.argv[1])])
folder.log.touch()
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_it_is_in_the_first_folder_whose_name_leaves_room_for_sockets(tmp_path: Path, short_folder: Path) -> None:
    too_long = tmp_path / ("a" * 120)
    too_long.mkdir()
    folder = SparkFolder([too_long, tmp_path / "nowhere", short_folder])
    assert folder.path.parent == short_folder
    assert folder.has_room_for_sockets
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_without_room_for_sockets_it_is_in_the_first(tmp_path: Path) -> None:
    too_long = tmp_path / ("a" * 120)
    too_long.mkdir()
    folder = SparkFolder([too_long])
    assert folder.path.parent == too_long
    assert not folder.has_room_for_sockets


@pytest.mark.parametrize("character", ["a", "é"])
def test_room_is_measured_in_bytes(character: str, short_folder: Path) -> None:
    for length in range(1, 30):
        parent = short_folder / (character * length)
        parent.mkdir()
        folder = SparkFolder([parent])
        assert folder.has_room_for_sockets == (len(os.fsencode(f"{folder.path}{SOCKET}")) <= 103)


def test_what_a_killed_process_has_left_the_next_one_removes(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    left = Path(holder.stdout.readline().strip())
    other = tmp_path / "mirror-spark-notes"
    other.mkdir()
    first = SparkFolder([tmp_path])
    assert (left / "spark.log").exists(), "its process runs"
    holder.kill()
    holder.communicate()
    second = SparkFolder([tmp_path])
    assert sorted(tmp_path.iterdir()) == sorted([first.path, second.path, other])


def test_one_that_another_process_took_for_left_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def mkdtemp(prefix: str, dir: Path) -> str:  # noqa: A002  # as the library names it
        made.append(dir / f"{prefix}{len(made)}")
        made[-1].mkdir()
        return str(made[-1])

    def flock(*_: object) -> None:
        if len(made) == 1:
            (made[0] / "lock").unlink(missing_ok=True)

    monkeypatch.setattr("mirror.spark_folder.tempfile.mkdtemp", mkdtemp)
    monkeypatch.setattr("mirror.spark_folder.fcntl.flock", flock)
    assert SparkFolder([tmp_path]).path == made[1]


def test_the_temporary_files_of_a_jvm_are_in_it_unless_somebody_says_otherwise(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror.spark_folder.tempfile.tempdir", str(short_folder))
    settings: list[dict[str, str]] = []

    def launched(conf: spark.SparkConf, _streams: object) -> object:
        settings.append(dict(conf.getAll()))
        raise OSError("not today")

    monkeypatch.setattr(spark, "_launched", launched)
    # Other tests of this process may have a Spark that runs.
    monkeypatch.setattr(spark, "end_spark", lambda: None)
    monkeypatch.setattr(spark, "_folder", None)
    for options in ({}, {"spark.driver.extraJavaOptions": "-Djava.io.tmpdir=/elsewhere"}):
        with pytest.raises(spark.SparkDidNotStart):
            spark._start("test", None, options, None)
    own, given = (each["spark.driver.extraJavaOptions"] for each in settings)
    folder = settings[0]["spark.python.unix.domain.socket.dir"]
    assert f'"-Djava.io.tmpdir={folder}"' in own
    assert settings[0]["spark.sql.warehouse.dir"].startswith(folder)
    assert given == "-Djava.io.tmpdir=/elsewhere"
