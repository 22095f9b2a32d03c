"""What a broker that accepts connections and answers nothing is doing, for the report of a test that failed by it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil

from mirror.kafka import wire
from mirror.lab.brokers import EmbeddedBroker
from mirror.lab.clusters import LabCluster
from mirror.waiting import WaitTimeout, wait_until

_ANSWER_SECONDS, _DUMP_SECONDS = 5.0, 5.0
_DUMP_ENDS_WITH = "class space"
_LINES, _LINES_OF_AN_END, _FRAMES = 2_000, 20, 5
ANSWERS_NOTHING, HAS_ENDED = "answers nothing", "has ended"


def unresponsive_brokers(clusters: Iterable[LabCluster]) -> Iterator[tuple[str, str]]:
    """Yield of each broker that answers nothing its name, and what it said last, or what its threads wait for."""
    for cluster in clusters:
        for broker in cluster.brokers:
            if not isinstance(broker, EmbeddedBroker) or (process := broker.process) is None:
                continue
            if not process.is_alive():
                last = process.log_tail(_LINES_OF_AN_END)
                yield f"{cluster.alias}: {broker.name} {HAS_ENDED}", f"return code {process.return_code()}\n{last}"
            elif not _answers(broker.address):
                yield f"{cluster.alias}: {broker.name} {ANSWERS_NOTHING}", _stacks(broker)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.sendall(wire.ping_request(1))
        return bool(connection.recv(4))
    return False


def _stacks(broker: EmbeddedBroker) -> str:
    process = broker.process
    assert process is not None
    state = psutil.Process(process.pid).status()
    if state == psutil.STATUS_STOPPED:
        return f"its process {process.pid} is stopped (SIGSTOP)"
    psutil.Process(process.pid).send_signal(signal.SIGQUIT)
    with suppress(WaitTimeout):
        wait_until(lambda: _DUMP_ENDS_WITH in process.log_tail(_LINES), "the stacks", timeout_seconds=_DUMP_SECONDS)
    return f"its process {process.pid} is {state}\n{in_short(process.log_tail(_LINES))}"


def in_short(dump: str) -> str:
    """Return of a JVM's dump the threads that answer requests, those that wait for a lock, the deadlocks, and the heap."""
    kept = []
    for block in dump.split("\n\n"):
        name, *lines = block.strip().splitlines() or [""]
        if name.startswith('"') and ("request-handler" in name or "network-thread" in name or "BLOCKED" in block):
            telling = [
                line for line in lines if "at java" not in line and "at jdk" not in line and "at sun" not in line
            ]
            kept += [name.split('" ')[0] + '"', *telling[:_FRAMES]]
        elif name == "Heap" or "deadlock" in name:
            kept += [name, *lines]
    return "\n".join(kept)
