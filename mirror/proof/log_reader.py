"""Reading logs to their end on Spark: one task per partition, which writes down what it found.

The tasks write Parquet files themselves and hand back only how far they got: no payload passes through the JVM, and the
files stay in the run directory, so that a run can be judged again. The directory must be one that driver and workers
share.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import tee
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from mirror.kafka.batch import Record
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.failures import error_message
from mirror.kafka.log import decoded, read_stretches
from mirror.model.ledger import LOGS, Column, digest, encode_content, record_id
from mirror.model.partition import TopicPartition
from mirror.model.progress import Watch, nobody
from mirror.model.stretches import Stretch, hold
from mirror.model.transforms.chain import TopicTransform
from mirror.parts import arrow_schema
from mirror.proof.evidence import MissingEvidence
from mirror.proof.schemas import LOGS_SCHEMA
from mirror.proof.spark_progress import in_tasks

_ROWS_AT_A_TIME = 20_000

KEYS = (
    Column("key", "binary", nullable=True),  # its digest
    Column("is_tombstone", "boolean"),
)
"""What is added to a row of the table of logs for whoever must know what a log cleaner goes by."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """A range of one partition's log to be read, from ``start`` up to, not including, ``end``.

    Parameters
    ----------
    cluster
        Alias of the cluster, as it is written in the ledger.
    client
        Client properties of the cluster (`mirror.config.settings.ClusterSettings.client`).
    read_committed
        Whether the records of aborted transactions are left out.
    transform
        What the records are put through before they are looked at: the source of a flow that changes them.
    left_out
        Producer ids whose records are passed over: the copies of other flows, which the flow does not copy on.
    reserved_key
        The key of tombstones that fill offsets: no records of anybody; None if there are none.
    stretches
        What of the range is to be read, in order; all of it if it is None.
    with_keys
        Whether the rows have `KEYS` too.
    reads_on
        Whether what lies behind the range, once that is read, is read too: records that are no part of it, but may be
        what the log cleaner has removed some of it for meanwhile.
    """

    cluster: str
    client: Mapping[str, str]
    partition: TopicPartition
    start: int
    end: int
    read_committed: bool = False
    transform: TopicTransform | None = None
    left_out: frozenset[int] = frozenset()
    reserved_key: bytes | None = None
    stretches: tuple[Stretch, ...] | None = None
    with_keys: bool = False
    reads_on: bool = False

    @property
    def wanted(self) -> tuple[Stretch, ...]:
        """What of the range is to be read, in order."""
        whole = ((self.start, self.end),) if self.end > self.start else ()
        return whole if self.stretches is None else self.stretches


@dataclass(frozen=True, slots=True)
class Filtered:
    """How many records the transforms left out because they are told to, and the first and last of their offsets."""

    records: int = 0
    first: int = -1
    last: int = -1

    def also(self, offset: int) -> Filtered:
        """Return the same with one record more."""
        return Filtered(self.records + 1, self.first if self.records else offset, offset)


@dataclass(frozen=True, slots=True)
class LogOutcome:
    """How the reading of a range went: the records found and, unless it was read to the end, the problem.

    ``size_bytes`` are those of the batches that hold them.
    """

    cluster: str
    partition: TopicPartition
    start: int
    end: int
    records: int
    seconds: float
    problem: str | None
    path: Path
    filtered: Filtered = Filtered()  # frozen
    size_bytes: int = 0

    @property
    def gap(self) -> MissingEvidence | None:
        """Return what is missing of the evidence, if anything is."""
        if self.problem is None:
            return None
        where = f"{self.cluster} {self.partition} [{self.start}, {self.end})"
        return MissingEvidence(where, f"was not read to the end: {self.problem}", (self.cluster, self.partition))


def log_rows(cluster: str, partition: TopicPartition, records: Iterable[Record]) -> Iterator[tuple[Any, ...]]:
    """Return records as rows of the table of logs."""
    for record in records:
        content = encode_content(record.key, record.value, record.headers)
        identity = record_id(record.headers)
        yield (
            cluster,
            partition.topic,
            partition.partition,
            record.offset,
            record.timestamp,
            identity.producer if identity else None,
            identity.sequence if identity else None,
            digest(content),
            len(content),
            record.producer_id,
        )


def keyed_rows(cluster: str, partition: TopicPartition, records: Iterable[Record]) -> Iterator[tuple[Any, ...]]:
    """Return records as rows of the table of logs, with `KEYS`."""
    records, again = tee(records)
    for record, row in zip(again, log_rows(cluster, partition, records), strict=True):
        yield (*row, None if record.key is None else digest(record.key), record.value is None)


class ChangedRecords:
    """Yields what the transforms make of records, as the copy does; ``filtered`` is what they leave out.

    A record that they fail on comes as it is: where the copy left it out because of that, a gap on record says so.
    """

    def __init__(self, records: Iterable[Record], wanted: LogRange) -> None:
        """Take the records of ``wanted``."""
        self._records = records
        self._wanted = wanted
        self.filtered = Filtered()

    def __iter__(self) -> Iterator[Record]:
        """Yield the records.

        Raises
        ------
        ValueError
            at a record that ends the copy.
        """
        transform, partition = self._wanted.transform, self._wanted.partition.partition
        if transform is None:
            yield from self._records
            return
        for record in self._records:
            made = transform.apply([record], partition)
            if made.failed is not None:
                raise ValueError(f"{made.failed.reason}, at offset {made.failed.offset}")
            if made.skipped:
                yield record
            elif not made.records:
                self.filtered = self.filtered.also(record.offset)
            yield from made.records


class _Records:
    """Yields the records of a range, and counts the bytes of the batches they came in."""

    def __init__(self, wanted: LogRange) -> None:
        self._wanted = wanted
        self.size_bytes = 0

    def __iter__(self) -> Iterator[Record]:
        wanted = self._wanted
        if not (wanted.wanted or wanted.reads_on):
            return
        with closing(Channel(wanted.cluster, wanted.client)) as channel:
            yield from self._read(channel, wanted.wanted)
            if wanted.reads_on:
                # Asked now: for nothing later was anything removed that was not there any more when it was read.
                view = View.STABLE if wanted.read_committed else View.VISIBLE
                end = channel.offsets([wanted.partition], LATEST, view)[wanted.partition]
                yield from self._read(channel, ((wanted.end, end),) if end > wanted.end else ())

    def _read(self, channel: Channel, stretches: tuple[Stretch, ...]) -> Iterator[Record]:
        wanted = self._wanted
        for content, header in read_stretches(
            channel, wanted.partition, stretches, read_committed=wanted.read_committed
        ):
            if header.producer_id in wanted.left_out:
                continue
            if header.base_offset < wanted.end:
                self.size_bytes += len(content)
            is_whole = hold(stretches, header.base_offset, header.next_offset)
            for record in decoded(channel, wanted.partition, content):
                if record.value is None and record.key is not None and record.key == wanted.reserved_key:
                    continue
                if is_whole or hold(stretches, record.offset, record.offset + 1):
                    yield record


def _read_range(wanted: LogRange, directory: Path) -> LogOutcome:
    """Read one range into a file; runs inside a Spark task."""
    began = time.monotonic()
    schema = arrow_schema((*LOGS, *KEYS) if wanted.with_keys else LOGS)
    to_rows = keyed_rows if wanted.with_keys else log_rows
    # Names of topics may be as long as those of files.
    name = sha256(repr((wanted.cluster, *wanted.partition, wanted.start)).encode()).hexdigest()
    path = directory / f"{name}.parquet"
    unfinished = directory / f".{name}.parquet.unfinished"
    found = _Records(wanted)
    records = 0
    problem = None
    filtered = Filtered()
    rows: list[tuple[Any, ...]] = []

    def write(writer: pq.ParquetWriter) -> None:
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        rows.clear()

    with pq.ParquetWriter(unfinished, schema) as writer:
        try:
            changed = ChangedRecords(found, wanted)
            for row in to_rows(wanted.cluster, wanted.partition, changed):
                rows.append(row)
                records += 1
                if len(rows) == _ROWS_AT_A_TIME:
                    write(writer)
            filtered = changed.filtered
        except Exception as stopped:  # noqa: BLE001  # whatever it is, it is said; the other logs are still worth reading
            problem = error_message(stopped)
        write(writer)
    unfinished.rename(path)
    return LogOutcome(
        wanted.cluster,
        wanted.partition,
        wanted.start,
        wanted.end,
        records,
        time.monotonic() - began,
        problem,
        path,
        filtered,
        found.size_bytes,
    )


def read_logs(
    spark: SparkSession, ranges: Sequence[LogRange], directory: Path, watch: Watch = nobody
) -> tuple[LogOutcome, ...]:
    """Read ranges of logs into ``directory``, one file each, and return how each reading went.

    A file of the same range that is already there is replaced.
    """
    if not ranges:
        return ()
    directory.mkdir(parents=True, exist_ok=True)
    target = directory.resolve()
    # The longest first: the last task to start should be a short one.
    ordered = sorted(ranges, key=lambda each: sum(start - end for start, end in each.wanted))

    def read(wanted: LogRange) -> LogOutcome:
        return _read_range(wanted, target)

    return tuple(in_tasks(spark, ordered, read, "reading records", watch))


def gaps_of(outcomes: Iterable[LogOutcome]) -> tuple[MissingEvidence, ...]:
    """Return what is missing of the logs."""
    return tuple(gap for outcome in outcomes if (gap := outcome.gap) is not None)


def logs_frame(spark: SparkSession, outcomes: Iterable[LogOutcome]) -> DataFrame:
    """Return the records found by `read_logs` as a table of logs."""
    paths = [str(outcome.path) for outcome in outcomes]
    if not paths:
        return spark.createDataFrame([], LOGS_SCHEMA)
    return spark.read.schema(LOGS_SCHEMA).parquet(*paths)


def discard_logs(outcomes: Iterable[LogOutcome]) -> None:
    """Delete the files of readings that nobody will judge again."""
    for outcome in outcomes:
        with suppress(FileNotFoundError):
            outcome.path.unlink()
