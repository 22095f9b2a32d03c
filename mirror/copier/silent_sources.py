"""Sources that tell nothing any more: what their logs have got since is not known, whatever was known before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mirror.copier.fetcher import Fetcher
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.model.flow import Flow

_SILENT_SECONDS = 5.0
_FORGOTTEN_SECONDS = 10.0
_SILENT = "no answer from the leader for some seconds"


class SilentSources:
    """Notices lanes whose source neither sends records nor says that there are none, long before a fetch is given up.

    A cluster that is cut off hangs up nowhere. Until somebody says so what it acknowledges passes for seen, so that the
    loss that a failover states would be too small.
    """

    def __init__(self, clusters: Mapping[tuple[Flow, str], ClusterLinks]) -> None:
        """Keep with the source of each flow of ``clusters``, for the epochs to come, when it was last heard of."""
        self._clusters = clusters

    def look(self, now: float, lanes: Mapping[Flow, Iterable[Lane]], fetchers: Iterable[Fetcher]) -> None:
        """Give each lane its trouble, or take it away. One that nobody wants to read is not silent."""
        heard = {lane for fetcher in fetchers if not fetcher.is_stuck(now) for lane in fetcher.lanes.values()}
        for flow, of_flow in lanes.items():
            answered_at, said = self._clusters[flow, "source"].answered_at, f"{flow.source}: {_SILENT}"
            for lane in of_flow:
                since, looked_at = answered_at.get((flow, lane.work.source), (now, -math.inf))
                # Another task may have copied it meanwhile.
                since = since if now - looked_at < _FORGOTTEN_SECONDS else now
                if lane in heard or lane.work.is_paused or lane.is_over:
                    since = now
                    if lane.trouble == said:
                        lane.trouble = None
                elif now >= since + _SILENT_SECONDS and lane.trouble is None:
                    lane.trouble = said
                answered_at[flow, lane.work.source] = since, now
