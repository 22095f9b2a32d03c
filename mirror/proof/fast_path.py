"""What needs no alignment: two partitions that hold the same records, in the same order, where the offset map says.

Where batches were joined, cut or encoded anew their bytes differ, and nearly every comparison ends here, with column
compared to column; only what differs somewhere is put before Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirror.model.absences import Absence
from mirror.model.offset_map import Run, Runs
from mirror.model.stretches import runs_within
from mirror.proof.declared_gaps import in_range, without
from mirror.proof.log_reader import LogRange

_COLUMNS = ["offset", "digest", "timestamp_ms", "producer_id"]


def same_records(
    source: tuple[LogRange, Path],
    copy: tuple[LogRange, Path],
    runs: Runs,
    writers: frozenset[int],
    absent: Sequence[Absence] = (),
    own_from: int = 0,
) -> int | None:
    """Return how many records both sides hold if the same ones lie at the same places, None if not.

    Parameters
    ----------
    source, copy
        a range, and the file its log was read into.
    runs
        the offset map of the range; empty if none is known.
    writers
        producer ids that alone may have written the copy from offset ``own_from`` on; empty if they are not known.
    absent
        what the copy is known to lack; not counted.
    """
    original, copied = without(_rows(*source), absent), _rows(*copy)
    if original.num_rows != copied.num_rows:
        return None
    own = copied.filter(pc.greater_equal(copied["offset"], own_from))
    if writers and not set(pc.unique(own["producer_id"]).to_pylist()) <= writers:
        return None
    if not (original["digest"].equals(copied["digest"]) and original["timestamp_ms"].equals(copied["timestamp_ms"])):
        return None
    if runs and not _lie_on(list(runs_within(runs, source[0].wanted)), original["offset"], copied["offset"]):
        return None
    records: int = original.num_rows
    return records


def _rows(wanted: LogRange, path: Path) -> pa.Table:
    return in_range(pq.read_table(path, columns=_COLUMNS), wanted)


def _lie_on(runs: Sequence[Run], upstream: pa.ChunkedArray, downstream: pa.ChunkedArray) -> bool:
    """Whether the records, in order, are exactly those of the runs: ascending offsets need no look but at both ends."""
    starts, copies, lengths = np.array(runs, np.int64).reshape(-1, 3).T
    if lengths.sum() != len(upstream):
        return False
    lasts = np.cumsum(lengths) - 1
    firsts = lasts - lengths + 1
    return all(
        np.array_equal(side.to_numpy()[places], expected)
        for side, begins in ((upstream, starts), (downstream, copies))
        for places, expected in ((firsts, begins), (lasts, begins + lengths - 1))
    )
