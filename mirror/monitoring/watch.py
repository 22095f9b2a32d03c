"""Watching an engine while it runs: threads look at the clusters now and then; requests, and its history, read that.

Invariants:

(a) Who watches an engine never waits for a cluster, nor anybody for who watches. A thread a flow looks at the
    clusters as ``mirror status`` does; requests read what it saw. It reads the oldest record that waits of no more
    than 50 partitions a look, each once as long as it stands still; what moves, tasks tell. An exception in a thread
    ends an engine, so this one lets none out.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from mirror.config.errors import ConfigError
from mirror.config.properties import read
from mirror.config.settings import FlowSettings
from mirror.control.flow_status import FlowStatus
from mirror.control.status import FlowObserver
from mirror.control.tick import TickReport, now_ms
from mirror.engine.run import Engine
from mirror.engine.run_log import logger_of
from mirror.history.kept import Bounds
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.monitoring.server import Answers, StatusServer
from mirror.monitoring.view import CONNECTORS, EngineView, FlowView
from mirror.recovery.fenced_side import FencedSide, look_at_fenced_side, with_fenced_side

if TYPE_CHECKING:
    from mirror.history.store import HistoryWriter

_LOG = logging.getLogger(__name__)
_INTERVAL_SECONDS = 5.0
# Of the time of a core a flow's looks take no more than a part in so many.
_SHARE = 20
# Of so many partitions in a look the oldest record that is not copied is read, if nobody knows its time.
_MOST_READ = 50
_END_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Look:
    status: FlowStatus
    side: FencedSide | None
    at_ms: int


class Watching:
    """Looks at the flows of an engine, in a thread each, until told to stop; what is seen goes to the history."""

    def __init__(self, engine: Engine, stop: threading.Event) -> None:
        """Look at what ``engine`` runs; ``stop`` is what ends that."""
        self._engine = engine
        self._stop = stop
        self._looks: dict[Flow, _Look] = {}
        history = engine.settings.engine.history
        self._interval_seconds = _INTERVAL_SECONDS
        self._writer: HistoryWriter | None = None
        if history.directory is not None:
            from mirror.history import store  # Arrow takes memory that other engines are spared

            self._interval_seconds = min(_INTERVAL_SECONDS, history.interval_seconds)
            bounds = Bounds(history.retention_seconds, history.retention_bytes)
            self._writer = store.HistoryWriter(history.directory, bounds)

    def start(self, over: threading.Event) -> list[threading.Thread]:
        """Begin to look, until ``over`` is set; return the threads that do."""
        threads = [
            threading.Thread(target=self._watch, args=(flow, over), name=f"status {flow}", daemon=True)
            for flow in self._engine.runtimes
        ]
        for thread in threads:
            thread.start()
        return threads

    def _watch(self, flow: Flow, over: threading.Event) -> None:
        with self._recording(flow) as keep:
            while not over.is_set():
                self._watch_by_settings(flow, over, keep)

    def _watch_by_settings(self, flow: Flow, over: threading.Event, keep: Callable[[_Look], None]) -> None:
        """Look again and again, until the engine goes by other settings."""
        settings = self._engine.settings
        observer = FlowObserver(
            settings.known(flow),
            settings.clusters[flow.source],
            settings.clusters[flow.target],
            underway=self._engine.tallies[flow],
            most_read=_MOST_READ,
            cliff_seconds=settings.engine.cliff_seconds,
        )
        with closing(observer):
            while not over.is_set() and settings is self._engine.settings:
                began, thread_began = time.monotonic(), time.thread_time()
                try:
                    found = observer.look()
                    others = {each: look.status for each, look in list(self._looks.items())}
                    side = look_at_fenced_side(settings, settings.known(flow), found, others)
                    look = _Look(with_fenced_side(found, side), side, now_ms())
                    self._looks[flow] = look
                    keep(look)
                except Exception as defect:  # noqa: BLE001 - the engine does not end because nobody can look at it
                    logger_of(flow).warning("status: the flow cannot be looked at", exc_info=defect)
                # Samples of a history are to be as far apart as the file says, whatever a look takes.
                rest = self._interval_seconds - (time.monotonic() - began if self._writer is not None else 0.0)
                over.wait(max(0.0, rest, _SHARE * (time.thread_time() - thread_began)))

    @contextmanager
    def _recording(self, flow: Flow) -> Iterator[Callable[[_Look], None]]:
        """Yield what keeps a look at a flow in the history, if there is one."""
        if (writer := self._writer) is None:
            yield lambda _: None
            return
        from mirror.history.recorder import FlowRecorder

        settings, name = self._engine.settings, f"history {flow}"
        source, interval_seconds = settings.clusters[flow.source], settings.engine.history.interval_seconds
        with closing(FlowRecorder(source, writer, interval_seconds)) as recorder:

            def keep(look: _Look) -> None:
                for line in recorder.take(look.status, look.at_ms):
                    logger_of(flow).warning("history: %s", line)
                self._engine.runtimes[flow].keep(TickReport(name, look.at_ms, 1, notes=writer.kept.words))

            yield keep

    def end(self) -> None:
        """Write what is left of the history."""
        for line in self._writer.close() if self._writer is not None else ():
            _LOG.warning("history: %s", line)

    def view(self) -> EngineView:
        """Return what is known now; nobody is asked."""
        engine = self._engine
        return EngineView(
            version("mirrorbook"),
            now_ms(),
            tuple(self._flow_view(flow, runtime.settings) for flow, runtime in engine.runtimes.items()),
            engine.wrong(),
            self._stop.is_set(),
            engine.epochs_ended,
            engine.epochs_failed,
            engine.seam_seconds,
            engine.settings.engine.cliff_seconds,
            self._writer.kept if self._writer is not None else None,
            engine.tasks,
        )

    def _flow_view(self, flow: Flow, settings: FlowSettings) -> FlowView:
        runtime, tally, look = self._engine.runtimes[flow], self._engine.tallies[flow], self._looks.get(flow)
        with runtime.lock:
            term, has_reported, stopped = runtime.term, not runtime.is_starting, dict(runtime.stopped)
            copies = {source: target for source, target, *_ in runtime.partitions}
        return FlowView(
            flow,
            term,
            has_reported,
            stopped,
            _copies(look.status, settings) | copies if look is not None else copies,
            tally.partitions(),
            tally.checkpoints(),
            tally.rereads(),
            look.status if look is not None else None,
            look.at_ms if look is not None else None,
            look.side if look is not None else None,
            settings.source_metric_names,
            settings.checkpoint_metric_names,
            _connectors(settings),
        )


def _connectors(settings: FlowSettings) -> tuple[str, ...]:
    """Return whose work is done for a flow."""
    source, checkpoint, heartbeat = CONNECTORS
    at_work = {source: True, checkpoint: settings.emit_checkpoints, heartbeat: settings.emit_heartbeats}
    return tuple(name for name, is_at_work in at_work.items() if is_at_work)


def _copies(status: FlowStatus, settings: FlowSettings) -> dict[TopicPartition, TopicPartition]:
    """Return where the partitions of a flow are copied that another engine leads."""
    names = {each.topic: settings.copy_of(each.topic) for each in status.partitions}
    return {
        TopicPartition(each.topic, each.partition): TopicPartition(names[each.topic], each.partition)
        for each in status.partitions
    }


@contextmanager
def watched(engine: Engine, stop: threading.Event) -> Iterator[Watching]:
    """Look at the flows of an engine while it lasts, and keep their history where the file says so."""
    watching, over = Watching(engine, stop), threading.Event()
    looking = watching.start(over)
    try:
        yield watching
    finally:
        over.set()
        for thread in looking:
            # Who waits for a cluster that does not answer is not waited for.
            thread.join(_END_SECONDS)
        watching.end()


@contextmanager
def served(engine: Engine, watching: Watching, port: int, asked_by: str = "mirror.status.port") -> Iterator[str]:
    """Serve metrics, health, readiness and status of an engine; yields where. ``asked_by`` is what gave the port.

    Raises
    ------
    ConfigError
        if nothing can listen there.
    """
    settings = engine.settings
    address = settings.engine.status_address
    try:
        server = StatusServer(address, port, Answers(watching.view))
    except (OSError, UnicodeError) as problem:
        is_port = isinstance(problem, OSError) and problem.errno in (errno.EADDRINUSE, errno.EACCES)
        key = asked_by if is_port else "mirror.status.address"
        why = getattr(problem, "strerror", None) or problem
        message = f"nothing can be served at {address}, port {port}: {why}; give another"
        raise ConfigError(settings.path, read(settings.path).line_of(key), key, message) from problem
    serving = threading.Thread(target=server.serve_forever, name="status", daemon=True)
    serving.start()
    _LOG.info("status: %s serves /metrics, /health, /ready and /status", server.where)
    try:
        yield server.where
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
