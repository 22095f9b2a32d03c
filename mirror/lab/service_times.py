"""When a cluster began to serve, by the ledger of the applications."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Service:
    """When a cluster first acknowledged a write, and each group first read what was written there.

    In milliseconds since 1970; None is what has not come about.
    """

    first_write_at_ms: int | None
    groups_reading_at_ms: Mapping[str, int | None]

    @property
    def is_complete(self) -> bool:
        """Tell whether all of it has come about."""
        return self.first_write_at_ms is not None and None not in self.groups_reading_at_ms.values()


def service_times(
    sends: pd.DataFrame,
    reads: pd.DataFrame,
    cluster: str,
    topics: Collection[str],
    groups: Collection[str],
    *,
    since_ms: int,
) -> Service:
    """Find it in the ledgers of sends and reads.

    Copies have other names than ``topics``, or came before ``since_ms``: a record in a cluster's own topics was written
    there, and is new to every group.
    """
    written = sends[(sends.cluster == cluster) & (sends.status == "acked")].acked_at_ms
    after = written[written >= since_ms]
    read = reads[(reads.cluster == cluster) & reads.topic.isin(list(topics)) & (reads.read_at_ms >= since_ms)]
    first = {str(group): int(at) for group, at in read.groupby("group").read_at_ms.min().items()}
    return Service(int(after.min()) if len(after) else None, {group: first.get(group) for group in groups})
