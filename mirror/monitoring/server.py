"""An HTTP server for machines that watch an engine. It answers from memory, and nothing waits for it.

What comes over it can neither change anything nor take much: few clients are served at once, each for a limited time,
and the figures are put together once a second however many ask.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from mirror.control.flow_status import FlowStatus
from mirror.control.gaps import iso_time
from mirror.monitoring.readiness import not_ready
from mirror.monitoring.view import EngineView, FlowView

_LOG = logging.getLogger(__name__)
_MOST_CLIENTS = 16
_CLIENT_SECONDS = 30.0
_KEPT_SECONDS = 1.0
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json; charset=utf-8"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered to a request."""

    code: int
    kind: str
    content: bytes


def _reasons(found: tuple[str, ...]) -> Answer:
    message = "\n".join(found) or "ok"
    return Answer(503 if found else 200, _TEXT, f"{message}\n".encode("utf-8", "backslashreplace"))


def health(engine: EngineView) -> Answer:
    """Say whether all parts of an engine are at work: 200, or 503 with the reasons."""
    return _reasons(engine.wrong)


def readiness(engine: EngineView) -> Answer:
    """Say whether every flow is in order: 200, or 503 with the reasons."""
    return _reasons(not_ready(engine))


def metrics(engine: EngineView) -> Answer:
    """Return the samples for Prometheus."""
    from mirror.monitoring.metrics import exposition

    return Answer(200, _PROMETHEUS, exposition(engine))


def status(engine: EngineView) -> Answer:
    """Return what ``mirror status --json`` prints, as it was when the clusters were last looked at."""
    shown = {
        "version": engine.version,
        "flows": [_flow(each) for each in engine.flows],
        "history": None if engine.history is None else asdict(engine.history),
    }
    return Answer(200, _JSON, f"{json.dumps(shown, indent=2)}\n".encode())


def _flow(view: FlowView) -> dict[str, Any]:
    found = view.status or FlowStatus(view.flow, "STARTING", ("not looked at yet",), ())
    return found.as_json() | {
        "fenced_side": view.side and view.side.as_json(),
        "seen_at": None if view.seen_ms is None else iso_time(view.seen_ms),
    }


PATHS: Mapping[str, Callable[[EngineView], Answer]] = {
    "/metrics": metrics,
    "/health": health,
    "/ready": readiness,
    "/status": status,
}


class Answers:
    """Answers by path, each put together at most once in so many seconds."""

    def __init__(self, look: Callable[[], EngineView], clock: Callable[[], float] = time.monotonic) -> None:
        """Answer from what ``look`` returns; ``clock`` gives seconds."""
        self._look = look
        self._clock = clock
        self._making = {path: threading.Lock() for path in PATHS}
        self._kept: dict[str, tuple[float, Answer]] = {}

    def get(self, path: str) -> Answer:
        """Return the answer for a path; 404 for one that there is not, with those that there are."""
        if path not in PATHS:
            return Answer(404, _TEXT, f"there is no {path!r} here, but {', '.join(PATHS)}\n".encode())
        with self._making[path]:
            made_at, answer = self._kept.get(path, (-_KEPT_SECONDS, None))
            if answer is None or self._clock() >= made_at + _KEPT_SECONDS:
                answer = PATHS[path](self._look())
                self._kept[path] = self._clock(), answer
            return answer


class StatusServer(ThreadingHTTPServer):
    """Serves the answers on one address; of too many clients the one that has been served longest gives way."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str, port: int, answers: Answers) -> None:
        """Listen on ``port``, 0: any free one, of ``address``.

        Raises
        ------
        OSError
            if that cannot be.
        """
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        self.answers = answers
        self._clients: dict[socket.socket, None] = {}
        self._changing = threading.Lock()
        super().__init__((str(place[0]), int(place[1])), _Handler)

    @property
    def where(self) -> str:
        """Where it listens, as an address for browsers."""
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if self.address_family == socket.AF_INET6 else str(host)
        return f"http://{shown}:{port}"

    def server_bind(self) -> None:
        """Bind; no name server is asked what this machine is called."""
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve one more client in a thread of its own."""
        with self._changing:
            if len(self._clients) >= _MOST_CLIENTS:
                oldest = next(iter(self._clients))
                del self._clients[oldest]
                _hang_up(oldest)
            self._clients[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a client that was served."""
        with self._changing:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's
        """Let a client that went away go; anything else is reported, and is nobody else's matter."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            _LOG.warning("status: serving %s failed", client_address, exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    """One request, one answer."""

    server: StatusServer
    server_version = "mirror"
    sys_version = ""
    timeout = _CLIENT_SECONDS

    def do_GET(self) -> None:
        """Answer."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """Answer without the content."""
        self._answer(with_content=False)

    def _answer(self, *, with_content: bool) -> None:
        try:
            answer = self.server.answers.get(self.path.partition("?")[0])
        except Exception as defect:  # noqa: BLE001 - who watches is told; what is watched goes on
            _LOG.warning("status: %s cannot be answered", self.path, exc_info=defect)
            answer = Answer(500, _TEXT, f"a defect of the engine's: {defect!r}\n".encode())
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_content:
            self.wfile.write(answer.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer what cannot be understood; another method than GET and HEAD is not allowed."""
        is_method = code == HTTPStatus.NOT_IMPLEMENTED
        text = "only GET and HEAD are answered here" if is_method else message or "bad request"
        self.send_response(HTTPStatus.METHOD_NOT_ALLOWED if is_method else code, None)
        if is_method:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", _TEXT)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f"{text}\n".encode("utf-8", "backslashreplace"))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Write nothing down: somebody asks every few seconds."""


def _hang_up(client: socket.socket) -> None:
    # It may have gone by itself.
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
