"""Where Spark and its Python workers have their sockets, whose names a system limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirror.spark import _socket_settings

ENABLED, FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
# As Spark names one.
NAME = f".{'0' * 36}.sock"


def test_they_are_in_the_first_folder_whose_name_leaves_room_for_theirs(tmp_path: Path) -> None:
    short = Path("/tmp")  # the one that is always there
    too_long = tmp_path / ("a" * 120)
    too_long.mkdir()
    assert _socket_settings([too_long, short]) == {ENABLED: "true", FOLDER: str(short)}
    assert _socket_settings([too_long / "nowhere", tmp_path / "nowhere", short])[FOLDER] == str(short)


def test_where_there_is_no_such_folder_there_are_no_sockets(tmp_path: Path) -> None:
    assert _socket_settings([tmp_path / "nowhere"]) == {ENABLED: "false"}


@pytest.mark.parametrize(("length", "is_taken"), [(60, True), (61, False)])
def test_a_name_is_measured_in_bytes(length: int, is_taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)
    folder = Path("/" + "é" * ((length - 1) // 2) + "a" * ((length - 1) % 2))
    assert len(os.fsencode(folder)) == length
    assert (_socket_settings([folder])[ENABLED] == "true") is is_taken
    assert not is_taken or len(os.fsencode(folder / NAME)) <= 103
