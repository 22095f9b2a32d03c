"""Connecting a flow to its clusters: one that does not answer, or turns out to be the other one, is asked again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from mirror.config.settings import ClusterSettings
from mirror.control.tick import TickReport, connection_name, now_ms, run_tick
from mirror.engine.start_check import same_cluster
from mirror.engine.ticking import Ticking
from mirror.kafka.cluster import Cluster
from mirror.model.flow import Flow

_RETRY_SECONDS = 0.5
# Addresses that lead to one cluster are mended by people.
_SAME_CLUSTER_SECONDS = 10.0


def connect(
    settings: Callable[[], ClusterSettings], flow: Flow, ticking: Ticking, stop: threading.Event
) -> Cluster | None:
    """Connect to a cluster, by its settings at that time; ask again until it answers, or until ``stop`` is set."""
    alias, found = settings().alias, list[Cluster]()

    def ask(_: int) -> tuple[int, Sequence[str]]:
        found.append(Cluster.connect(settings()))
        return 1, ()

    while not ticking.once(lambda: run_tick(connection_name(flow, alias), now_ms, ask)):
        if stop.wait(_RETRY_SECONDS):
            return None
    return found[0]


def connect_source(
    settings: Callable[[], ClusterSettings],
    flow: Flow,
    target: Cluster,
    ticking: Ticking,
    stop: threading.Event,
    connections: ExitStack,
) -> Cluster | None:
    """Connect to the source of a flow, until ``connections`` is closed; None once ``stop`` is set.

    One that was away at the start may turn out to be the target: nothing of the flow is begun as long as it is.
    """
    while True:
        source = connect(settings, flow, ticking, stop)
        if source is None:
            return None
        same = same_cluster(flow, {each.alias: each.cluster_id for each in (source, target)})
        found = TickReport(f"clusters of {flow}", now_ms(), 1, (same,) if same else ())
        if ticking.once(partial(_as_is, found)):
            return connections.enter_context(source)
        source.close()
        if stop.wait(_SAME_CLUSTER_SECONDS):
            return None


def _as_is(report: TickReport) -> TickReport:
    return report
