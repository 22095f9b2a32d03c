"""Which partitions go to which task: by measured bytes a second, not by counts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from mirror.copier.work import PartitionWork


def assign(
    partitions: Sequence[PartitionWork], load: Callable[[PartitionWork], float], tasks: int
) -> list[tuple[PartitionWork, ...]]:
    """Return at most ``tasks`` non-empty shares whose measured loads are as even as the heaviest-first rule makes them.

    Parameters
    ----------
    load
        bytes a second a partition moved when last seen; of an unmeasured one the caller's best guess, above zero so
        that many idle partitions spread as well.
    """
    heap: list[tuple[float, int, list[PartitionWork]]] = [(0.0, number, []) for number in range(tasks)]
    for work in sorted(partitions, key=lambda one: (-load(one), one.flow, one.source)):
        total, number, share = heapq.heappop(heap)
        share.append(work)
        heapq.heappush(heap, (total + load(work), number, share))
    return [tuple(share) for _, _, share in sorted(heap, key=lambda entry: entry[1]) if share]
