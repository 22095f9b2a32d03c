"""An engine as Prometheus samples: under the names of MirrorMaker 2, as its dashboards query them, and under its own.

MirrorMaker's are those that the usual exporter makes of its MBeans (MET-01, MET-03, MET-05): domain, type and attribute
in lower case, joined by ``_``. Of a partition ``topic`` is always the copy's name. A partition has a fixed number of
samples, whatever happens in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from mirror.control.flow_status import PartitionStatus, State
from mirror.engine.copy_counters import CopiedSince
from mirror.history.kept import Kept
from mirror.model.copied import Ages
from mirror.model.partition import TopicPartition
from mirror.monitoring.view import EngineView, FlowView
from mirror.recovery.fenced_side import late_writers

LEGACY_SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector_"
LEGACY_CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector_"
NEW: Final = "kafka_connect_plugins_"

Labels = Mapping[str, str]


def _of(ages: Callable[[CopiedSince], Ages], value: Callable[[Ages], float]) -> Callable[[CopiedSince], float]:
    return lambda figures: value(ages(figures))


def _statistics(name: str, what: str) -> dict[str, tuple[Callable[[Ages], float], str]]:
    """Return what Kafka's metrics say of a value; without any in the last minute the last three are not a number."""
    return {
        name: (lambda ages: ages.last, f"{what}, ms: of the newest record of the last batch"),
        f"{name}_avg": (lambda ages: ages.mean, f"{what}, ms: mean of the last minute"),
        f"{name}_min": (lambda ages: ages.least if ages.count else math.nan, f"{what}, ms: least of the last minute"),
        f"{name}_max": (lambda ages: ages.most if ages.count else math.nan, f"{what}, ms: most of the last minute"),
    }


_SOURCE: Final[Mapping[str, tuple[Callable[[CopiedSince], float], str]]] = {
    "record_count": (lambda one: one.records, "records copied since this engine started"),
    "record_rate": (lambda one: one.record_rate, "records copied a second"),
    "byte_count": (lambda one: one.bytes, "bytes copied since this engine started, as batches on the wire"),
    "byte_rate": (lambda one: one.byte_rate, "bytes copied a second, as batches on the wire"),
    **{
        name: (_of(lambda one: one.read, value), help_text)
        for name, (value, help_text) in _statistics("record_age_ms", "age of records when they are read").items()
    },
    **{
        name: (_of(lambda one: one.acknowledged, value), help_text)
        for name, (value, help_text) in _statistics(
            "replication_latency_ms", "age of records when the target has acknowledged them"
        ).items()
    },
}
_CHECKPOINT: Final = _statistics("checkpoint_latency_ms", "time from listing groups until checkpoints are written")


@dataclass(slots=True)
class _Families:
    """Samples, put together by name."""

    found: dict[str, Metric] = field(default_factory=dict)

    def add(self, name: str, help_text: str, labels: Labels, value: float, kind: str = "gauge") -> None:
        """Add one sample; a counter's name ends in ``_total``."""
        family = self.found.get(name)
        if family is None:
            family = self.found[name] = Metric(name.removesuffix("_total"), help_text, kind)
        family.samples.append(Sample(name, dict(labels) if kind == "counter" else labels, float(value)))  # type: ignore[arg-type]


def families(engine: EngineView) -> list[Metric]:
    """Return everything that is served of an engine."""
    all_of = _Families()
    all_of.add("mirror_engine_info", "the engine, by its version", {"version": engine.version}, 1)
    counted = {
        "mirror_epochs_total": ("epochs that have ended", engine.epochs_ended),
        "mirror_epochs_failed_total": ("epochs that were lost with a task or with Spark", engine.epochs_failed),
    }
    for name, (help_text, count) in counted.items():
        all_of.add(name, help_text, {}, count, "counter")
    _add_worker(all_of, engine)
    seam = math.nan if engine.seam_seconds is None else engine.seam_seconds
    all_of.add("mirror_epoch_seam_seconds", "time without a task between the last two epochs", {}, seam)
    if engine.history is not None:
        _add_history(all_of, engine.history)
    for view in engine.flows:
        ends = {"source": view.flow.source, "target": view.flow.target}
        _add_copied(all_of, view, ends)
        _add_clients(all_of, view)
        _add_checkpoints(all_of, view, ends)
        _add_flow(all_of, view, ends, engine.at_ms)
        for each in view.status.partitions if view.status is not None else ():
            _add_partition(all_of, each, _partition_labels(ends, _copy(view, each)))
    return list(all_of.found.values())


def exposition(engine: EngineView) -> bytes:
    """Return it in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(families(engine)))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _copy(view: FlowView, each: PartitionStatus) -> TopicPartition:
    source = TopicPartition(each.topic, each.partition)
    return view.copies.get(source, source)


def _partition_labels(ends: Labels, copy: TopicPartition) -> dict[str, str]:
    return {**ends, "topic": copy.topic, "partition": str(copy.partition)}


def _named(names: Iterable[str], legacy: str, connector: str, labels: Labels) -> Iterator[tuple[str, Labels]]:
    """Yield what names begin with, and the labels: once, or as long as both are asked for twice (CFG-015, MET-05).

    Tasks are not told apart: which one copies a partition changes with every epoch.
    """
    if "legacy" in names:
        yield legacy, labels
    if "new" in names:
        yield NEW, {"connector": connector, "task": "0", **labels}


def _add_copied(all_of: _Families, view: FlowView, ends: Labels) -> None:
    for source, figures in view.figures.items():
        if (copy := view.copies.get(source)) is None:
            # It is not copied any more.
            continue
        labels = _partition_labels(ends, copy)
        for prefix, shown in _named(view.source_names, LEGACY_SOURCE, "MirrorSourceConnector", labels):
            for name, (value, help_text) in _SOURCE.items():
                all_of.add(prefix + name, help_text, shown, value(figures))


def _add_worker(all_of: _Families, engine: EngineView) -> None:
    """Add what dashboards ask of a worker of Connect; a flow that another engine leads is not at work here (MET-07)."""
    led = [view for view in engine.flows if view.term is not None]
    connectors = sum(len(view.connectors) for view in led)
    # Spark's tasks are shared by all flows; what else a connector does is done by one thread.
    tasks = engine.tasks + sum(len(view.connectors) - 1 for view in led) if led else 0
    for name, help_text, value in (
        ("worker_connector_count", "connectors of MirrorMaker whose work is done here", connectors),
        ("coordinator_assigned_connectors", "connectors of MirrorMaker whose work is done here", connectors),
        ("worker_task_count", "tasks that copy, and one for each other connector", tasks),
        ("coordinator_assigned_tasks", "tasks that copy, and one for each other connector", tasks),
    ):
        all_of.add(f"kafka_connect_{name}", help_text, {}, value)


def _add_clients(all_of: _Families, view: FlowView) -> None:
    """Add what dashboards ask of the clients of MirrorMaker's source connector, under the client ids they look for."""
    # The exporter keeps the quotes that a bean's name has around what is no plain word.
    client = {role: f'"{view.flow}|MirrorSourceConnector-0|replication-{role}"' for role in ("consumer", "producer")}
    copied = sum(each.bytes for each in view.figures.values())
    for name, role in (("kafka_consumer_incoming", "consumer"), ("kafka_producer_outgoing", "producer")):
        message = (
            "bytes copied since this engine started, as batches on the wire, whatever the requests around them took"
        )
        all_of.add(f"{name}_byte_total", message, {"clientid": client[role]}, copied, "counter")
    if view.term is None or view.status is None:
        # Who leads tells it; sums over engines are to count it once.
        return
    for each in view.status.partitions:
        if each.lag_records is not None:
            message = "records still to be copied, by the source's topic"
            labels = {"clientid": client["consumer"], "topic": each.topic, "partition": str(each.partition)}
            all_of.add("kafka_consumer_fetch_manager_records_lag", message, labels, each.lag_records)


def _add_checkpoints(all_of: _Families, view: FlowView, ends: Labels) -> None:
    for (group, copy), ages in view.checkpoints.items():
        labels = {**ends, "group": group, "topic": copy.topic, "partition": str(copy.partition)}
        for prefix, shown in _named(view.checkpoint_names, LEGACY_CHECKPOINT, "MirrorCheckpointConnector", labels):
            for name, (value, help_text) in _CHECKPOINT.items():
                all_of.add(prefix + name, help_text, shown, value(ages))
    for group, records in view.rereads.items():
        help_text = "records that a group had read since its last checkpoints when the next ones were made"
        all_of.add("mirror_group_reread_records", help_text, {**ends, "group": group}, records)


def _add_flow(all_of: _Families, view: FlowView, ends: Labels, at_ms: int) -> None:
    status = view.status
    all_of.add("mirror_flow_leader", "1 where this engine leads the flow", ends, view.term is not None)
    if status is None or view.seen_ms is None:
        return
    for state in get_args(State):
        help_text = "1 for the state that mirror status shows"
        all_of.add("mirror_flow_state", help_text, {**ends, "state": state}, status.state == state)
    reported = math.inf if status.reported_ms is None else (at_ms - status.reported_ms) / 1000
    described = {
        "mirror_flow_report_age_seconds": ("time since an engine last reported on the flow", reported),
        "mirror_flow_seen_age_seconds": ("age of the figures below", (at_ms - view.seen_ms) / 1000),
        "mirror_flow_standbys": ("engines that stand by", len(status.standbys)),
        "mirror_flow_partitions": ("partitions that are mirrored", len(status.partitions)),
        "mirror_flow_stopped_partitions": (
            "partitions that do not go on by themselves",
            len(status.stops.keys() | view.stopped.keys()),
        ),
        "mirror_flow_paused_partitions": (
            "partitions that somebody has paused",
            sum(each.is_paused for each in status.partitions),
        ),
        "mirror_flow_open_gaps": ("gaps that nobody has acknowledged", len(status.open_gaps)),
        "mirror_flow_foreign_writers": (
            "producers of others, a partition each, that have written into copies",
            len(status.foreign),
        ),
        "mirror_flow_failed_over": ("1 behind a failover: nobody should write to the source", view.side is not None),
        "mirror_flow_late_writers": (
            "who writes to the source behind a failover, a partition each",
            len(late_writers([view.side])),
        ),
    }
    for name, (help_text, value) in described.items():
        all_of.add(name, help_text, ends, value)
    for each in status.failovers:
        help_text = (
            "when a run of a failover or a failback that is on record has got into its phase, in seconds since 1970"
        )
        labels = {**ends, "mode": each.mode, "phase": each.phase.value, "run": each.run, "where": each.where}
        all_of.add("mirror_flow_failover_timestamp_seconds", help_text, labels, each.at_ms / 1000)


def _add_history(all_of: _Families, kept: Kept) -> None:
    described = {
        "mirror_history_samples_total": ("samples of flows that were taken for the history", kept.samples, "counter"),
        "mirror_history_lost_rows_total": ("rows of the history that could not be written", kept.lost_rows, "counter"),
        "mirror_history_removed_files_total": ("files removed to keep its bounds", kept.removed, "counter"),
        "mirror_history_bytes": ("size of the history's folder", kept.bytes, "gauge"),
        "mirror_history_writable": ("1 while the history can be written", kept.trouble is None, "gauge"),
    }
    for name, (help_text, value, kind) in described.items():
        all_of.add(name, help_text, {}, value, kind)


def _add_partition(all_of: _Families, each: PartitionStatus, labels: Labels) -> None:
    """Add how far one partition is behind; what the source does not tell is left out."""
    nothing_waits = each.lag_records == 0
    described = {
        "mirror_lag_records": ("records still to be copied", each.lag_records),
        "mirror_lag_seconds": ("age of the oldest record still to be copied", each.lag_seconds),
        "mirror_retention_cliff_seconds": (
            "time until the source deletes the oldest record still to be copied; without one it is infinite",
            math.inf if nothing_waits else each.deleted_in_seconds,
        ),
    }
    for name, (help_text, value) in described.items():
        if value is not None:
            all_of.add(name, help_text, labels, value)
