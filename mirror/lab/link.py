"""A line between clients and a broker that can be made long or narrow, and cut: a relay as a managed process.

Clients connect to the link's port instead of the broker's. For a cluster, where clients go to whatever addresses the
brokers advertise, see ``linked`` of ``mirror.lab.clusters.up``.
"""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mirror.lab import ports, processes
from mirror.lab.errors import LabError
from mirror.lab.processes import ManagedProcess
from mirror.lab.relay import ANSWERS, RESET, SILENT, Line
from mirror.waiting import WaitTimeout, wait_until

_READY_SECONDS = 120.0
_STOP_SECONDS = 20.0
_ANSWER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Link:
    """One link; the handle may be made anew by any process that knows these values.

    Attributes
    ----------
    directory, name
        of its process, state file and log; see ``mirror.lab.processes``.
    listen_port
        where clients connect.
    control_port
        where the relay takes orders.
    target
        ``host:port`` of what clients are connected to.
    """

    directory: Path
    name: str
    listen_port: int
    control_port: int
    target: str

    @property
    def address(self) -> str:
        """Return ``host:port`` for clients."""
        return f"{ports.LOOPBACK}:{self.listen_port}"

    @property
    def process(self) -> ManagedProcess | None:
        """Return its process as last started, running or not."""
        return processes.find(self.directory, self.name)

    def is_alive(self) -> bool:
        """Tell whether its process runs."""
        process = self.process
        return process is not None and process.is_alive()

    def start(self, line: Line = Line(), *, seed: int = 0, owner_pid: int | None = None) -> None:  # noqa: B008  # frozen
        """Start it, unless it runs, and return when it accepts connections; ``seed`` decides over jitter.

        Raises
        ------
        LabError
            if it does not start.
        """
        if self.is_alive():
            return
        host, _, port = self.target.rpartition(":")
        settings = {
            "listen_port": self.listen_port,
            "control_port": self.control_port,
            "target": (host, int(port)),
            "line": asdict(line),
            "seed": seed,
        }
        command = [sys.executable, "-m", "mirror.lab.relay", json.dumps(settings)]
        process = processes.start(self.directory, self.name, command, owner_pid=owner_pid)
        try:
            wait_until(
                lambda: not process.is_alive() or self._answers(),
                f"the link {self.name} to accept connections",
                timeout_seconds=_READY_SECONDS,
            )
        except WaitTimeout as late:
            process.kill()
            raise LabError(str(late)) from late
        if not process.is_alive():
            raise LabError(f"the link {self.name} on port {self.listen_port} ended:\n{process.log_tail()}")

    def stop(self) -> None:
        """End it and every connection over it, unless it does not run."""
        process = self.process
        if process is not None and process.is_alive() and not process.terminate(_STOP_SECONDS):
            process.kill()

    def under_way(self) -> int:
        """Return how many bytes are on the line: sent, and not arrived.

        Raises
        ------
        LabError
            if the relay does not run.
        """
        return int(self._order({})["bytes"])

    def set(self, **changes: float | None) -> None:
        """Change what is named of the line (:class:`mirror.lab.relay.Line`), for connections that stand, too.

        Raises
        ------
        LabError
            if the relay does not run or does not understand.
        """
        self._order(changes)

    def cut(self, *, silently: bool = True) -> None:
        """Let nothing pass: as if the line were dead, or, not ``silently``, with connections reset and refused.

        What is under way on a silent line arrives when it is healed.

        Raises
        ------
        LabError
            if the relay does not run.
        """
        self._order({"cut": SILENT if silently else RESET})

    def cut_answers(self) -> None:
        """Let what clients send arrive, and nothing of what they are answered, until it is healed.

        Raises
        ------
        LabError
            if the relay does not run.
        """
        self._order({"cut": ANSWERS})

    def heal(self) -> None:
        """Let everything pass again; delay and bandwidth stay as they were.

        Raises
        ------
        LabError
            if the relay does not run.
        """
        self._order({"cut": None})

    def _order(self, changes: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._ask(changes)
        except (OSError, ValueError) as problem:
            raise LabError(f"the link {self.name} (port {self.listen_port}) does not answer: {problem}") from problem
        if "problem" in answer:
            raise LabError(f"the link {self.name} refuses {changes}: {answer['problem']}")
        return answer

    def _ask(self, changes: dict[str, Any]) -> dict[str, Any]:
        with socket.create_connection((ports.LOOPBACK, self.control_port), timeout=_ANSWER_SECONDS) as control:
            control.sendall(json.dumps(changes).encode() + b"\n")
            with control.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
                return answer

    def _answers(self) -> bool:
        try:
            return "problem" not in self._ask({})
        except (OSError, ValueError):
            return False
