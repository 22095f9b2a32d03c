"""Sources that tell nothing any more: what their logs have got since is not known, whatever was known before."""

from __future__ import annotations

from collections.abc import Iterable

from mirror.copier.fetcher import Fetcher
from mirror.copier.lane import Lane

SILENT_SECONDS = 5.0
_SILENT = "no answer from the leader for some seconds"


class SilentSources:
    """Notices lanes whose source neither sends records nor says that there are none, long before a fetch is given up.

    A cluster that is cut off hangs up nowhere. Until somebody says so what it acknowledges passes for seen, so that the
    loss that a failover states would be too small.
    """

    def __init__(self) -> None:
        """Know of no lane yet."""
        self._heard_at: dict[Lane, float] = {}

    def look(self, now: float, lanes: Iterable[Lane], fetchers: Iterable[Fetcher]) -> None:
        """Give each lane its trouble, or take it away. One that nobody wants to read is not silent."""
        heard = {lane for fetcher in fetchers if not fetcher.is_stuck(now) for lane in fetcher.lanes.values()}
        for lane in lanes:
            said = f"{lane.work.flow.source}: {_SILENT}"
            if lane in heard or lane.work.is_paused or lane.is_over:
                self._heard_at[lane] = now
                if lane.trouble == said:
                    lane.trouble = None
            elif now >= self._heard_at.setdefault(lane, now) + SILENT_SECONDS and lane.trouble is None:
                lane.trouble = said
