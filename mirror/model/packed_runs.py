"""Runs of the offset map as they are written down: small, whatever makes many of them.

What makes many runs is regular. Each transaction of ours leaves a marker on the target, each of the source's one
there, so behind nearly every run stands the same hole; often the runs are of one length too. So a row of runs is
written as its usual hole (offsets upstream, offsets downstream), where it begins and ends, and of each run an entry:

* ``n``: n records behind the usual hole;
* ``[count, n]``: that many runs of n records, each behind the usual hole;
* ``[upstream, downstream, n]``: n records behind another hole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, TypeAlias

Numbers: TypeAlias = tuple[int, int, int]
"""Where a run begins upstream and downstream, and its length in records."""

Hole: TypeAlias = tuple[int, int]

_NO_HOLE: Hole = (0, 0)


def packed(runs: Sequence[Numbers]) -> dict[str, Any]:
    """Return the content that says the same as ``runs``, which ascend in both offsets; `unpacked` undoes it."""
    if not runs:
        return {"runs": []}
    holes = [_hole(run, following) for run, following in pairwise(runs)]
    usual = Counter(holes).most_common(1)[0][0] if holes else _NO_HOLE
    upstream, downstream, _ = runs[0]
    last_upstream, last_downstream, last_length = runs[-1]
    entries: list[Any] = []
    # Nothing stands before the first run: its hole is the usual one.
    for (hole, length), alike in groupby(zip([usual, *holes], (run[2] for run in runs), strict=True)):
        count = sum(1 for _ in alike)
        if hole != usual:
            entries += [[*hole, length]] * count
        elif count > 2:
            entries.append([count, length])
        else:
            entries += [length] * count
    return {
        "from": [upstream, downstream],
        "to": [last_upstream + last_length, last_downstream + last_length],
        "hole": list(usual),
        "runs": entries,
    }


def unpacked(content: Mapping[str, Any]) -> Iterator[Numbers]:
    """Yield the runs that were packed.

    Raises
    ------
    KeyError, TypeError, ValueError
        if nothing of the kind was.
    """
    if not content["runs"]:
        return
    upstream, downstream = content["from"]
    usual_upstream, usual_downstream = content["hole"]
    upstream -= usual_upstream
    downstream -= usual_downstream
    for entry in content["runs"]:
        count, up, down, length = 1, usual_upstream, usual_downstream, entry
        if not isinstance(entry, int):
            if len(entry) == 2:
                count, length = entry
            else:
                up, down, length = entry
        for _ in range(count):
            upstream += up
            downstream += down
            yield upstream, downstream, length
            upstream += length
            downstream += length


def _hole(run: Numbers, following: Numbers) -> Hole:
    return following[0] - run[0] - run[2], following[1] - run[1] - run[2]
