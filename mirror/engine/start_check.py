"""What is looked at before an engine begins: which flows it runs, and which cluster is which."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from mirror.config.errors import ConfigError
from mirror.config.properties import read
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.exchanged_clusters import exchanged
from mirror.control.topics import lacking_brokers
from mirror.engine.refusals import TooFewBrokers, refused_transactions
from mirror.engine.run_log import logger_of
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterError
from mirror.model.flow import Flow
from mirror.model.state_record import state_topic

_TICK_SECONDS = 0.1


def chosen_flows(settings: MirrorSettings, clusters: Collection[str]) -> list[FlowSettings]:
    """Return the flows whose target is among some clusters (CLI-02); none given: all.

    Raises
    ------
    ConfigError
        if no enabled flow is left, or one asks for what excludes each other.
    """
    unknown = sorted(set(clusters) - set(settings.clusters))
    if unknown:
        raise ConfigError(settings.path, None, "--clusters", f"{', '.join(unknown)} is not among clusters")
    flows = [flow for flow in settings.flows if not clusters or flow.flow.target in clusters]
    if not any(flow.enabled for flow in flows):
        raise ConfigError(
            settings.path, None, "clusters", f"no enabled flow has its target among {', '.join(sorted(clusters))}"
        )
    for each in flows:
        if each.enabled and each.same_offsets is not None and each.transactions is not None:
            raise refused_transactions(settings.path, each.flow)
    return flows


def cluster_ids(
    settings: MirrorSettings, flows: Sequence[FlowSettings], stop: threading.Event
) -> dict[str, str | Exception]:
    """Return of each cluster of some flows its id, or what it raised; of none that has not answered at ``stop``.

    All are asked at once. What is raised may be `TooFewBrokers`. Clusters that may be exchanged are logged.
    """
    aliases = sorted({alias for each in flows for alias in (each.flow.source, each.flow.target)})
    found: dict[str, str | Exception] = {}
    states: dict[str, Collection[str]] = {}

    def ask(alias: str) -> None:
        try:
            with Cluster.connect(settings.clusters[alias]) as cluster:
                _require_brokers(cluster, settings, flows)
                states[alias] = cluster.topics({state_topic(each.flow.source) for each in flows}).keys()
                found[alias] = cluster.cluster_id
        except Exception as problem:  # noqa: BLE001  # raised by the caller
            found[alias] = problem

    # Not a pool's: the process would not end before the last of them.
    asking = [threading.Thread(target=ask, args=(alias,), daemon=True) for alias in aliases]
    for thread in asking:
        thread.start()
    for thread in asking:
        while thread.is_alive() and not stop.is_set():
            thread.join(timeout=_TICK_SECONDS)
    for each in flows:
        source, target = each.flow.source, each.flow.target
        if {source, target} <= states.keys() and (why := exchanged(each.flow, states[source], states[target])):
            logger_of(each.flow).warning("%s", why)
    return {alias: found[alias] for alias in aliases if alias in found}


def same_cluster(flow: Flow, ids: Mapping[str, str]) -> str | None:
    """Return that both ends of a flow are one cluster, as their ids say, and what to do; None if they are not."""
    if flow.source not in ids or ids[flow.source] != ids.get(flow.target):
        return None
    return (
        f"{flow.source} and {flow.target} are the same cluster (id {ids[flow.source]}): replicating would never end; "
        "give the address of another cluster"
    )


def _require_brokers(cluster: Cluster, settings: MirrorSettings, flows: Sequence[FlowSettings]) -> None:
    """Raise `TooFewBrokers` with all keys that ask for more replicas than a cluster has brokers."""
    file, found = read(settings.path), dict[str, str]()
    for each in flows:
        if cluster.alias not in (each.flow.source, each.flow.target):
            continue
        try:
            lacking = lacking_brokers(cluster, each)
        except ClusterError:
            # Told as a problem of the flow, once it has begun.
            continue
        for key, problem in lacking.items():
            forms = (f"{each.flow}.{key}", key, f"{each.flow.target}.{key}")
            given = next((form for form in forms if file.line_of(form) is not None), key)
            found.setdefault(given, problem)
    if found:
        (key, problem), *others = found.items()
        likewise = f"; likewise {', '.join(other for other, _ in others)}" if others else ""
        raise TooFewBrokers(settings.path, file.line_of(key), key, f"{problem}{likewise}")
