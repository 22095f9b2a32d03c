"""Offset maps that several tests ask."""

from __future__ import annotations

from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import OffsetMap, Run, Runs, SparseOffsetMap

#: Java MirrorMaker copied 10 to 99 from 1010 on, densely; syncs of 20 and 60 are known. Then the map is exact.
BY_JAVA = OffsetMap(
    100,
    False,
    Runs.of([Run(100, 1100, 50)]),
    150,
    1150,
    (SparseOffsetMap(10, 100, 1010, 1100, (Pair(20, 1020), Pair(60, 1060))),),
)
