"""The contenders' programs, and the properties file that each replicator is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path

from mirror.bench.contenders import Contender
from mirror.bench.shapes import Codec
from mirror.lab import mm2, processes
from mirror.lab.clusters import LabCluster
from mirror.lab.processes import ManagedProcess


def properties_text(
    contender: Contender, source: LabCluster, target: LabCluster, topics: Collection[str], codec: Codec
) -> str:
    """Return a ``connect-mirror-maker.properties``.

    It says nothing but what is copied, two tasks, and what one broker a cluster demands; the tuned one also sets the
    data producer and consumer (CFG-082, CFG-083): large batches, a linger, the records' own codec, large fetches. Those
    of copies with the source's offsets say so, and under unchanged names enable the way back, as such a pair has it.
    """
    lines = [
        f"clusters = {source.alias}, {target.alias}",
        f"{source.alias}.bootstrap.servers = {source.bootstrap_servers}",
        f"{target.alias}.bootstrap.servers = {target.bootstrap_servers}",
        f"{source.alias}->{target.alias}.enabled = true",
        f"{source.alias}->{target.alias}.topics = {','.join(sorted(topics))}",
        "tasks.max = 2",
        *(f"{factor} = 1" for factor in mm2.REPLICATION_FACTORS),
    ]
    if contender is Contender.MM2_TUNED:
        producer, consumer = f"{target.alias}.producer", f"{source.alias}.consumer"
        lines += [
            f"{producer}.compression.type = {codec}",
            f"{producer}.batch.size = {256 << 10}",
            f"{producer}.linger.ms = 20",
            f"{producer}.max.request.size = {4 << 20}",
            f"{producer}.buffer.memory = {64 << 20}",
            f"{consumer}.max.poll.records = 5000",
            f"{consumer}.max.partition.fetch.bytes = {4 << 20}",
            f"{consumer}.fetch.max.bytes = {64 << 20}",
            f"{consumer}.receive.buffer.bytes = {1 << 20}",
        ]
    if contender in {Contender.SAME, Contender.SAME_NAME}:
        lines.append("mirror.offsets = same")
    if contender.keeps_names:
        lines += [
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            f"{target.alias}->{source.alias}.enabled = true",
            f"{target.alias}->{source.alias}.topics = {','.join(sorted(topics))}",
        ]
    return "\n".join(lines) + "\n"


def start_replicator(contender: Contender, name: str, properties: Path, directory: Path) -> ManagedProcess:
    """Start a replicator on its file; it ends with this process at the latest."""
    if not contender.is_mirror:
        return mm2.start(directory, properties, name=name, owner_pid=os.getpid())
    command = [sys.executable, "-m", "mirror", "run", str(properties)]
    # Spark's scratch files and the log of its JVM stay with the other files of the bench.
    return processes.start(directory, name, command, env={"TMPDIR": str(directory)}, owner_pid=os.getpid())


def start_floor(
    name: str, source: LabCluster, target: LabCluster, topic: str, remote: str, partitions: int, directory: Path
) -> ManagedProcess:
    """Start the bare producer."""
    command = [sys.executable, "-m", "mirror.bench.replay", source.bootstrap_servers, target.bootstrap_servers]
    command += [topic, remote, str(partitions)]
    return processes.start(directory, name, command, owner_pid=os.getpid())
