"""Serving the status of an engine while it runs: threads look at the clusters now and then, requests read that."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version

from mirror.config.errors import ConfigError
from mirror.config.properties import read
from mirror.config.settings import FlowSettings
from mirror.control.status import FlowObserver, FlowStatus
from mirror.control.tick import now_ms
from mirror.engine.run import Engine
from mirror.engine.run_log import logger_of
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.monitoring.server import Answers, StatusServer
from mirror.monitoring.view import EngineView, FlowView
from mirror.recovery.fenced_side import FencedSide, look_at_fenced_side, with_fenced_side

_LOG = logging.getLogger(__name__)
_REST_SECONDS = 5.0
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
    """Looks at the flows of an engine, in a thread each, until told to stop."""

    def __init__(self, engine: Engine, stop: threading.Event) -> None:
        """Look at what ``engine`` runs; ``stop`` is what ends that."""
        self._engine = engine
        self._stop = stop
        self._looks: dict[Flow, _Look] = {}

    def start(self, over: threading.Event) -> list[threading.Thread]:
        """Begin to look, until ``over`` is set; return the threads that do."""
        threads = [
            threading.Thread(target=self._watch, args=(flow, over), name=f"status {flow}", daemon=True)
            for flow in self._engine.standings
        ]
        for thread in threads:
            thread.start()
        return threads

    def _watch(self, flow: Flow, over: threading.Event) -> None:
        while not over.is_set():
            settings = self._engine.settings
            of_flow = settings.flow(flow)
            assert of_flow is not None
            observer = FlowObserver(
                of_flow,
                settings.clusters[flow.source],
                settings.clusters[flow.target],
                underway=self._engine.tallies[flow],
                most_read=_MOST_READ,
                cliff_seconds=settings.engine.cliff_seconds,
            )
            with closing(observer):
                while not over.is_set() and settings is self._engine.settings:
                    began = time.thread_time()
                    try:
                        found = observer.look()
                        side = look_at_fenced_side(settings, of_flow, found)
                        self._looks[flow] = _Look(with_fenced_side(found, side), side, now_ms())
                    except Exception as defect:  # noqa: BLE001 - the engine does not end because nobody can look at it
                        logger_of(flow).warning("status: the flow cannot be looked at", exc_info=defect)
                    over.wait(max(_REST_SECONDS, _SHARE * (time.thread_time() - began)))

    def view(self) -> EngineView:
        """Return what is known now; nobody is asked."""
        engine = self._engine
        return EngineView(
            version("mirrorbook"),
            now_ms(),
            tuple(self._flow_view(flow, standing.settings) for flow, standing in engine.standings.items()),
            engine.wrong(),
            self._stop.is_set(),
            engine.epochs_ended,
            engine.epochs_failed,
            engine.seam_seconds,
            engine.settings.engine.cliff_seconds,
        )

    def _flow_view(self, flow: Flow, settings: FlowSettings) -> FlowView:
        standing, tally, look = self._engine.standings[flow], self._engine.tallies[flow], self._looks.get(flow)
        with standing.lock:
            term, has_reported, stopped = standing.term, not standing.is_starting, dict(standing.stopped)
            copies = {source: target for source, target, *_ in standing.partitions}
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
        )


def _copies(status: FlowStatus, settings: FlowSettings) -> dict[TopicPartition, TopicPartition]:
    """Return where the partitions of a flow are copied that another engine leads."""
    names = {each.topic: settings.copy_of(each.topic) for each in status.partitions}
    return {
        TopicPartition(each.topic, each.partition): TopicPartition(names[each.topic], each.partition)
        for each in status.partitions
    }


@contextmanager
def served(engine: Engine, port: int, stop: threading.Event, asked_by: str = "mirror.status.port") -> Iterator[str]:
    """Serve metrics, health, readiness and status of an engine; yields where. ``asked_by`` is what gave the port.

    Raises
    ------
    ConfigError
        if nothing can listen there.
    """
    watching, over = Watching(engine, stop), threading.Event()
    settings = engine.settings
    address = settings.engine.status_address
    try:
        server = StatusServer(address, port, Answers(watching.view))
    except (OSError, UnicodeError) as problem:
        is_port = isinstance(problem, OSError) and problem.errno in (errno.EADDRINUSE, errno.EACCES)
        key = asked_by if is_port else "mirror.status.address"
        why = getattr(problem, "strerror", None) or problem
        said = f"nothing can be served at {address}, port {port}: {why}; give another"
        raise ConfigError(settings.path, read(settings.path).line_of(key), key, said) from problem
    serving = threading.Thread(target=server.serve_forever, name="status", daemon=True)
    serving.start()
    looking = watching.start(over)
    _LOG.info("status: %s serves /metrics, /health, /ready and /status", server.where)
    try:
        yield server.where
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        serving.join()
        for thread in looking:
            # Who waits for a cluster that does not answer is not waited for.
            thread.join(_END_SECONDS)
