"""Parquet parts: a table written as a row of numbered files, each of which is there completely or not at all.

A part is written under a temporary name and renamed. The parts of one **writer** (a producer, a consumer) are numbered
from 0, say how many rows came before them, and the last one says that it is the last: so a reader of the directory can
tell a complete record from one whose end, or middle, is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirror.model.ledger import Column

if TYPE_CHECKING:
    import pandas as pd

_ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}

_ROWS_AT_ONCE = 1 << 17

WRITER = b"mirror.writer"
NUMBER = b"mirror.part"
ROWS_BEFORE = b"mirror.rows-before"
LAST = b"mirror.last"


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of a table of the ledger."""
    return pa.schema([pa.field(name, _ARROW_TYPES[type_], nullable=nullable) for name, type_, nullable in columns])


def write_table(table: pa.Table, path: Path, **how: Any) -> None:
    """Write a Parquet file that appears under its name only when it is complete; ``how`` is for pyarrow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A leading dot: Spark and pyarrow pass over such files, so what a killed writer left is never read.
    unfinished = path.with_name(f".{path.name}.unfinished")
    pq.write_table(table, unfinished, **how)
    unfinished.rename(path)


def read_rows(directory: Path, columns: Sequence[str], writers: str = "*") -> pd.DataFrame:
    """Return some columns of all parts written in a directory so far, one row a row; none when there is no part.

    ``writers``: a pattern of the names of those who wrote them, as of file names.
    """
    import pandas as pd  # the applications, which only write, start sooner without it

    found = directory.glob(f"{writers}.parquet") if directory.is_dir() else ()
    parts = sorted(each for each in found if not each.name.startswith("."))
    if not parts:
        return pd.DataFrame(columns=list(columns))
    frame: pd.DataFrame = pa.concat_tables(_read(part, columns) for part in parts).to_pandas()
    return frame


def join_parts(parts: Sequence[Path], path: Path) -> None:
    """Write the rows of parts of one table into one file: a reader spends more on a small file than on its rows."""
    tables: list[pa.Table] = []
    with pq.ParquetWriter(path, pq.read_schema(parts[0]).remove_metadata()) as output:
        for part in parts:
            tables.append(_read(part))
            if sum(table.num_rows for table in tables) >= _ROWS_AT_ONCE or part is parts[-1]:
                output.write_table(pa.concat_tables(tables))
                tables.clear()


def _read(part: Path, columns: Sequence[str] | None = None) -> pa.Table:
    # A fifth of what pq.read_table takes, which is made for large files.
    with pq.ParquetFile(part) as file:
        return file.read(columns=columns, use_threads=False)


class PartWriter:
    """Writes the rows of one writer as parts ``<writer>-<number>.parquet``; not for several threads at once.

    Raises
    ------
    FileExistsError
        if the directory already holds parts of a writer of that name: its numbers would be given twice.
    """

    def __init__(self, directory: Path, writer: str, columns: Sequence[Column]) -> None:
        """Prepare to write; makes the directory."""
        self._directory = directory
        self._writer = writer
        self._schema = arrow_schema(columns)
        self._number = 0
        self._rows = 0
        directory.mkdir(parents=True, exist_ok=True)
        if self._path(0).exists():
            raise FileExistsError(
                f"{directory} already has parts of {writer!r}: give this one another name, or another directory"
            )

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._writer}-{number}.parquet"

    def write(self, rows: Sequence[tuple[Any, ...]], *, last: bool = False) -> None:
        """Write ``rows`` (in the order of the columns) as the next part; nothing for no rows, unless it is the last."""
        if not rows and not last:
            return
        columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(self._schema)
        facts: Mapping[bytes, bytes] = {
            WRITER: self._writer.encode(),
            NUMBER: b"%d" % self._number,
            ROWS_BEFORE: b"%d" % self._rows,
            LAST: b"true" if last else b"false",
        }
        table = pa.Table.from_arrays(
            [pa.array(values, type=field.type) for values, field in zip(columns, self._schema, strict=True)],
            schema=self._schema.with_metadata(dict(facts)),
        )
        write_table(table, self._path(self._number))
        self._number += 1
        self._rows += len(rows)
