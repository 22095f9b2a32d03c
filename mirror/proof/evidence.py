"""Is the evidence whole? What cannot be read, or was never finished, makes a verdict UNKNOWN, never PASS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.parts import LAST, NUMBER, ROWS_BEFORE, WRITER, join_parts


@dataclass(frozen=True, slots=True)
class MissingEvidence:
    """Evidence that is missing: where (a file, a partition of a cluster) and what about it.

    ``log`` is the cluster and partition whose log was not read to its end; None for a gap of the ledger.
    """

    where: str
    what: str
    log: tuple[str, TopicPartition] | None = None

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts found in a directory of the ledger, and what is missing among them."""

    paths: tuple[Path, ...]
    rows: int
    gaps: tuple[MissingEvidence, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    path: Path
    number: int
    rows_before: int
    rows: int
    is_last: bool


def inspect_parts(directory: Path, *, is_closed: bool = True) -> Parts:
    """Look at the footers of all parts in ``directory``: every writer's numbers from 0 to one that says it is the last.

    A directory that is not there, or holds nothing, is a gap: nobody wrote what was to be judged. Unless it
    ``is_closed``, writers may lack their last part.
    """
    gaps: list[MissingEvidence] = []
    by_writer: defaultdict[str, list[_Part]] = defaultdict(list)
    for path in sorted(directory.glob("[!.]*.parquet")):
        try:
            metadata = pq.read_metadata(path)
            facts = metadata.metadata or {}
            part = _Part(path, int(facts[NUMBER]), int(facts[ROWS_BEFORE]), metadata.num_rows, facts[LAST] == b"true")
            by_writer[facts[WRITER].decode()].append(part)
        except (pa.ArrowException, OSError, KeyError) as problem:
            gaps.append(MissingEvidence(str(path), f"cannot be read ({type(problem).__name__}: {problem})"))
    if not by_writer and not gaps:
        gaps.append(MissingEvidence(str(directory), "holds no parts"))
    for writer, parts in sorted(by_writer.items()):
        gaps += _gaps_of(writer, sorted(parts, key=lambda part: part.number), is_closed=is_closed)
    found = [part for parts in by_writer.values() for part in parts]
    return Parts(tuple(part.path for part in found), sum(part.rows for part in found), tuple(gaps))


def _gaps_of(writer: str, parts: list[_Part], *, is_closed: bool) -> Iterable[MissingEvidence]:
    expected_rows = 0
    for expected, part in enumerate(parts):
        if part.number != expected or part.rows_before != expected_rows:
            yield MissingEvidence(
                str(part.path), f"part {expected} of {writer} is missing, or holds other rows than it held"
            )
            return
        expected_rows += part.rows
    if is_closed and not parts[-1].is_last:
        yield MissingEvidence(
            str(parts[-1].path),
            f"the ledger of {writer} was not closed: what it did after this part (about a second) is not written down",
        )


def joined(parts: Parts, path: Path) -> Parts:
    """Return the parts joined into one file, which is written at ``path``: a ledger is hundreds of small ones."""
    if len(parts.paths) < 2:
        return parts
    join_parts(parts.paths, path)
    return replace(parts, paths=(path,))


def read_parts(spark: SparkSession, parts: Parts, schema: StructType) -> DataFrame:
    """Return the rows of the parts that can be read; which of them are missing is said by ``parts.gaps``."""
    if not parts.paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(str(path) for path in parts.paths))


def with_gaps(verdict: Verdict, gaps: Iterable[MissingEvidence]) -> Verdict:
    """Return the verdict that stands when evidence is missing: a PASS becomes UNKNOWN, a FAIL stays what it is."""
    return Verdict.UNKNOWN if verdict is Verdict.PASS and any(True for _ in gaps) else verdict
