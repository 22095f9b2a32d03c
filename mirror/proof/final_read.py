"""The final read: the ledger of a run and the logs of its clusters, read to their ends, ready to be judged.

Invariants:

(a) The ledger's small parts cost more than their rows: Spark opens each in every query, so the judges read them
    joined into one file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.proof.delivery import Place
from mirror.proof.evidence import MissingEvidence, Parts, inspect_parts, joined, read_parts
from mirror.proof.log_reader import LogRange, discard_logs, gaps_of, logs_frame, read_logs
from mirror.proof.schemas import COMMITS_SCHEMA, READS_SCHEMA, SENDS_SCHEMA
from mirror.spark import spark_session


@dataclass(frozen=True, slots=True)
class FinalRead:
    """Four tables, and what is missing of them.

    Attributes
    ----------
    sends, reads, commits
        what the applications wrote down.
    logs
        what the clusters hold.
    gaps
        evidence that should be there and is not; with any of it a verdict is UNKNOWN at best.
    """

    sends: DataFrame
    reads: DataFrame
    commits: DataFrame
    logs: DataFrame
    gaps: tuple[MissingEvidence, ...]


@contextmanager
def final_read(
    ledger: Path,
    clusters: Mapping[str, ClusterSettings],
    places: Sequence[Place],
    work: Path,
    *,
    read_committed: bool = False,
    with_reads: bool = True,
) -> Iterator[FinalRead]:
    """Read the logs of ``places`` to their ends, and the ledger; the files made of both are deleted in the end.

    Parameters
    ----------
    ledger
        the directory with ``sends/``, ``reads/`` and ``commits/``.
    clusters
        settings by alias.
    work
        a directory for what is read of the logs.
    read_committed
        whether the records of aborted transactions are left out, as applications that read so never see them.
    with_reads
        whether groups read at all: if none did, no ledger of theirs is missing.

    Raises
    ------
    ClusterError
        if a cluster does not answer.
    """
    spark = spark_session("proof")
    work.mkdir(parents=True, exist_ok=True)
    ranges: list[LogRange] = []
    gaps: list[MissingEvidence] = []
    for alias in sorted({place.cluster for place in places}):
        found, missing = _ranges(clusters[alias], [place.topic for place in places if place.cluster == alias])
        ranges += [replace(each, read_committed=read_committed) for each in found]
        gaps += missing
    nothing = Parts((), 0, ())
    sends, reads = inspect_parts(ledger / "sends"), inspect_parts(ledger / "reads") if with_reads else nothing
    # A consumer whose coordinator does not answer ends while it waits for its last commit, which was then not answered.
    commits = inspect_parts(ledger / "commits", is_closed=False) if with_reads else nothing
    outcomes = read_logs(spark, ranges, work)
    try:
        with tempfile.TemporaryDirectory(dir=work, prefix="ledger-") as folder:
            yield FinalRead(
                read_parts(spark, joined(sends, Path(folder) / "sends.parquet"), SENDS_SCHEMA),
                read_parts(spark, joined(reads, Path(folder) / "reads.parquet"), READS_SCHEMA),
                read_parts(spark, joined(commits, Path(folder) / "commits.parquet"), COMMITS_SCHEMA),
                logs_frame(spark, outcomes),
                (*gaps, *sends.gaps, *reads.gaps, *commits.gaps, *gaps_of(outcomes)),
            )
    finally:
        discard_logs(outcomes)


def _ranges(settings: ClusterSettings, topics: Sequence[str]) -> tuple[list[LogRange], list[MissingEvidence]]:
    with Cluster.connect(settings) as cluster:
        described = cluster.topics(topics)
        partitions = [partition for topic in described.values() for partition in topic.topic_partitions]
        starts, ends = cluster.offsets(partitions, "earliest"), cluster.offsets(partitions, "latest")
    gaps = [
        MissingEvidence(f"{settings.alias} {topic}", "the topic is not there")
        for topic in topics
        if topic not in described
    ]
    gaps += [
        MissingEvidence(
            f"{settings.alias} {partition}", f"its offsets are not known: {problem}", (settings.alias, partition)
        )
        for partition, problem in {**starts.problems, **ends.problems}.items()
    ]
    known = [partition for partition in partitions if partition in starts and partition in ends]
    return [
        LogRange(settings.alias, settings.client, partition, starts[partition], ends[partition]) for partition in known
    ], gaps
