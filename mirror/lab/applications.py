"""What the applications of a practice run are: producers of records, and groups that read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mirror.model.grouped import grouped


@dataclass(frozen=True, slots=True)
class Load:
    """Producers on one cluster.

    Parameters
    ----------
    rate
        records a second, of all of them together.
    keys
        different keys a topic.
    tombstones
        fraction of records without a value.
    large, large_bytes
        fraction of records of another size, and that size.
    transaction_records, aborted_every
        records in a transaction (0: none), and every Nth of those is aborted (0: none).
    clock_skew_seconds
        how much the clock of the producers is ahead.
    client
        further settings of the client.
    flush_seconds
        how long outcomes of sends are waited for at the end.
    """

    cluster: str
    topics: tuple[str, ...]
    rate: float = 300.0
    producers: int = 2
    value_bytes: int = 256
    keys: int = 500
    tombstones: float = 0.0
    large: float = 0.0
    large_bytes: int = 0
    transaction_records: int = 0
    aborted_every: int = 0
    clock_skew_seconds: float = 0.0
    client: Mapping[str, str] = field(default_factory=dict)
    flush_seconds: float = 6.0


@dataclass(frozen=True, slots=True)
class Group:
    """Readers on one cluster, of topics as they are called there: copies too.

    ``max_rate`` (records/s a member; 0: no limit) keeps a group behind on purpose. Groups of the same ``process`` read
    the same topics in one process, as the consumers of one application do; empty: the group has one of its own.
    With ``bookmarks`` its one member goes on by a file of its own, and commits only to be seen, as Flink does.
    """

    name: str
    cluster: str
    topics: tuple[str, ...]
    members: int = 1
    max_rate: float = 0.0
    process: str = ""
    bookmarks: bool = False

    @property
    def runs_in(self) -> str:
        """The name of the process that its members run in."""
        return self.process or self.name


@dataclass(frozen=True, slots=True)
class Deployment:
    """What runs of the applications on one cluster.

    Attributes
    ----------
    phase
        keeps its names apart in the ledger.
    seed
        of what the producers send.
    """

    cluster: str
    loads: tuple[Load, ...]
    groups: tuple[Group, ...]
    phase: str
    seed: int = 0


def by_process(groups: Iterable[Group]) -> Mapping[str, Sequence[Group]]:
    """Return the groups by the name of the process that they run in."""
    return grouped((group.runs_in, group) for group in groups)
