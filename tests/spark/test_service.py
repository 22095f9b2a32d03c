"""The process that judges answers what it is asked, and raises where it was asked what it could not do."""

from __future__ import annotations

import json
import os
import socket
import sys
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from mirror.lab import processes
from mirror.proof.service import ask
from mirror.waiting import wait_until


@pytest.mark.long
def test_it_calls_what_it_is_asked_to_and_passes_answers_and_errors_on(tmp_path: Path) -> None:
    address = tmp_path / "address.json"
    argv = [sys.executable, "-m", "mirror.proof.service", str(address)]
    service = processes.start(tmp_path, "judges", argv, owner_pid=os.getpid())
    wait_until(address.exists, "the service to listen", timeout_seconds=60)
    assert address.stat().st_mode & 0o077 == 0, "who can read the address can have code run"
    assert ask(address, sorted, [3, 1, 2], reverse=True) == [3, 2, 1]
    with pytest.raises(ValueError, match="invalid literal"):
        ask(address, int, "three")
    assert ask(address, len, "still there") == 11

    where = json.loads(address.read_text())
    with socket.create_connection((where["host"], where["port"])):
        # Says nothing, and stays.
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x14 not the right answer", b"\xff\xff\xff\xff"):
            with socket.create_connection((where["host"], where["port"])) as stray:
                stray.sendall(said)
        with pytest.raises(AuthenticationError), Client((where["host"], where["port"]), authkey=b"another"):
            pass
        with Client((where["host"], where["port"]), authkey=bytes.fromhex(where["key"])) as damaged:
            damaged.send_bytes(b"no pickle")
        assert ask(address, os.getpid) == service.pid, "it was done without the service"
    assert service.terminate(60)
