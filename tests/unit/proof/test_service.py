"""The process that judges only saves time: whoever asks one that has ended judges in its own process."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing.connection import Listener
from pathlib import Path

import pytest

from mirror.drill.steps.stage import JUDGES, DrillStage
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import holder, processes
from mirror.proof.service import ask


def where(listener: Listener) -> str:
    host, port = listener.address
    return json.dumps({"host": host, "port": port, "key": b"key".hex()})


def test_a_service_that_ends_before_it_has_answered_is_done_without(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    address = tmp_path / "address.json"
    with Listener(("127.0.0.1", 0), authkey=b"key") as listener, ThreadPoolExecutor(1) as pool:
        address.write_text(where(listener))
        asked = pool.submit(ask, address, sorted, [3, 1, 2], reverse=True)
        with listener.accept() as connection:
            connection.recv()
        assert asked.result() == [3, 2, 1]
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("The process that judges has ended (")


def test_a_service_that_has_ended_or_was_never_there_is_done_without(tmp_path: Path) -> None:
    address = tmp_path / "address.json"
    assert ask(address, len, "never there") == 11
    with Listener(("127.0.0.1", 0), authkey=b"key") as listener:
        address.write_text(where(listener))
    assert ask(address, len, "ended") == 5


def test_what_a_function_raises_is_not_taken_for_the_end_of_the_service(tmp_path: Path) -> None:
    address = tmp_path / "address.json"
    with Listener(("127.0.0.1", 0), authkey=b"key") as listener, ThreadPoolExecutor(1) as pool:
        address.write_text(where(listener))
        asked = pool.submit(ask, address, len, "asked once")
        with listener.accept() as connection:
            connection.recv()
            connection.send((ConnectionError("a broker's"), None))
        with pytest.raises(ConnectionError, match="a broker's"):
            asked.result()


def test_a_drill_whose_judges_end_before_they_listen_judges_by_itself(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "drill", started_at=datetime.now(UTC))
    stage = DrillStage.of(run)
    try:
        assert stage.judge(len, "no judges") == 9
        argv = [sys.executable, "-c", "import sys; sys.exit('no Spark here')"]
        processes.start(run.logs, JUDGES, argv, owner_pid=os.getpid())
        assert stage.judge(len, "ended") == 5
    finally:
        holder.release(run.path)
