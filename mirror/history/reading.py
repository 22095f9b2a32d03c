"""Which files of a history can be read: a torn one, or another's, is passed over and told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mirror.evidence.refusal import Refused
from mirror.history.samples import FLOWS, PARTITIONS, VERSION, VERSION_KEY
from mirror.history.store import files


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """A folder of a history.

    Attributes
    ----------
    partitions
        its whole files with rows of partitions, in the order of their first samples.
    flows
        its rows of flows, in the order of time.
    torn
        of every other file its name and what is wrong with it.
    """

    partitions: tuple[Path, ...]
    flows: pd.DataFrame
    torn: tuple[str, ...]


def sample_directory() -> Path:
    """Return the folder of the history that came with the program; `docs/history.md` says how it was recorded."""
    return Path(str(package_files("mirror.history") / "sample"))


def read_history(directory: Path) -> HistoryFiles:
    """Look through a folder.

    Raises
    ------
    Refused
        if there is no such folder, or no whole file of a history in it.
    """
    try:
        there = list(files(directory))
    except OSError as problem:
        raise Refused(f"no history can be read from {directory}: {problem.strerror}") from None
    whole: dict[str, list[Path]] = {"partitions": [], "flows": []}
    torn = []
    for each in there:
        schema = PARTITIONS if each.table == "partitions" else FLOWS
        if (wrong := _problem(each.path, schema)) is None:
            whole[each.table].append(each.path)
        else:
            torn.append(f"{each.path.name}: {wrong}")
    if not whole["partitions"] or not whole["flows"]:
        message = f"; not read: {'; '.join(torn)}" if torn else ""
        raise Refused(f"{directory} holds no history, or none with a whole file of both tables{message}")
    return HistoryFiles(tuple(whole["partitions"]), _flows(whole["flows"]), tuple(torn))


def _flows(paths: Sequence[Path]) -> pd.DataFrame:
    tables = pa.concat_tables(pq.ParquetFile(path).read() for path in paths)
    found: pd.DataFrame = tables.to_pandas()
    return found.sort_values("at_ms", kind="stable").reset_index(drop=True)


def _problem(path: Path, wanted: pa.Schema) -> str | None:
    """Return why a file cannot be read; None: it is whole."""
    try:
        with pq.ParquetFile(path) as file:
            found, metadata = file.schema_arrow, file.metadata
            ends = (
                column.file_offset + column.total_compressed_size if column.file_offset else 0
                for group in range(metadata.num_row_groups)
                for column in (metadata.row_group(group).column(at) for at in range(metadata.num_columns))
            )
            is_short = max(ends, default=0) > path.stat().st_size
    except (OSError, pa.ArrowException) as problem:
        return f"torn, or no Parquet file ({str(problem).splitlines()[0]})"
    version = (found.metadata or {}).get(VERSION_KEY)
    if version != VERSION or found.names != wanted.names:
        return "of another version of this program" if version else "not of a history"
    return "torn: shorter than it says" if is_short else None
