"""Apache's own MirrorMaker 2 as a replicator to compare with: the Java program, the same jars, the same file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirror.lab import processes
from mirror.lab import runtime as kafka_runtime
from mirror.lab.processes import ManagedProcess
from mirror.model.progress import Watch, nobody

# Keys that a properties file must set on clusters of fewer than three brokers; for the last two only Java asks.
REPLICATION_FACTORS = (
    "replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset.storage.replication.factor",
    "config.storage.replication.factor",
    "status.storage.replication.factor",
)

# What ``connect-mirror-maker.sh`` gives it.
HEAP_MEGABYTES = 2048
_MEMORY_OPTIONS = (
    *("-Xms256m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)


def start(
    directory: Path,
    properties: Path,
    *,
    name: str = "mm2",
    clusters: Sequence[str] = (),
    owner_pid: int | None = None,
    log_level: str = "INFO",
    watch: Watch = nobody,
) -> ManagedProcess:
    """Start ``connect-mirror-maker.sh``'s program on a properties file; it is running, not yet mirroring.

    Parameters
    ----------
    directory, name
        of the managed process; ``NAME.log`` is MM2's log.
    properties
        the ``connect-mirror-maker.properties``.
    clusters
        the clusters that are near (``--clusters``); none: all.
    owner_pid
        the process whose end ends it; None: it runs until told.
    log_level
        of its root logger.

    Raises
    ------
    JavaMissing, JarsUnavailable, ProcessError
        with a message that says what to do.
    """
    temporary_files = directory / f"{name}.tmp"
    temporary_files.mkdir(parents=True, exist_ok=True)
    near = ["--clusters", *clusters] if clusters else []
    command = kafka_runtime.prepare(watch).command(
        "org.apache.kafka.connect.mirror.MirrorMaker",
        [str(properties.absolute()), *near],
        heap_megabytes=HEAP_MEGABYTES,
        temporary_files=temporary_files.absolute(),
        log_level=log_level,
        memory_options=_MEMORY_OPTIONS,
    )
    return processes.start(directory, name, command, owner_pid=owner_pid)
