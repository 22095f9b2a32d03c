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
    together: dict[object, list[PartitionWork]] = {}
    for work in partitions:
        # The markers of a flow have one transactional id, which one task holds.
        together.setdefault(work.flow if work.pad_limit is not None else work, []).append(work)
    loads = {id(bundle): sum(map(load, bundle)) for bundle in together.values()}
    heap: list[tuple[float, int, list[PartitionWork]]] = [(0.0, number, []) for number in range(tasks)]
    for bundle in sorted(together.values(), key=lambda each: (-loads[id(each)], each[0].flow, each[0].source)):
        total, number, share = heapq.heappop(heap)
        share += bundle
        heapq.heappush(heap, (total + loads[id(bundle)], number, share))
    return [tuple(share) for _, _, share in sorted(heap, key=lambda entry: entry[1]) if share]
