"""What is compared: a range of a source partition, and the range of its remote partition that holds the copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.model.absences import Absence
from mirror.model.offset_map import Runs
from mirror.model.stretches import Stretch
from mirror.proof.declared_gaps import ParkedContent
from mirror.proof.log_reader import LogRange


class Amount(NamedTuple):
    """Records of the source, and the bytes of their batches as they lie in its log."""

    records: int = 0
    size_bytes: int = 0


NOTHING = Amount()


def total(amounts: Iterable[Amount]) -> Amount:
    """Return all of them together."""
    records, size_bytes = 0, 0
    for each in amounts:
        records += each.records
        size_bytes += each.size_bytes
    return Amount(records, size_bytes)


class Mark(NamedTuple):
    """A batch of a log: where it begins, and what another one at that place would hardly have too."""

    base_offset: int
    leader_epoch: int
    crc: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an earlier comparison found equal of a pair, and is not read again.

    Attributes
    ----------
    source_end, target_end
        the offsets, on either side, before which all was compared.
    amount
        of the records, but for those that are known to be absent.
    foreign
        records of others in the range of the copy.
    last, target_last
        the last data batches before those offsets.
    """

    source_end: int
    target_end: int
    amount: Amount
    foreign: int
    last: Mark
    target_last: Mark


@dataclass(frozen=True, slots=True)
class Proven:
    """What needs no look at its records: by the bytes of its batches, or as it was compared earlier.

    Attributes
    ----------
    amount
        what the bytes of the batches have shown to be equal, each record where the offset map says.
    foreign
        records of others in the range of the copy that were not read either.
    runs
        all records that were left out of the reading, as parts of the offset map.
    """

    amount: Amount = NOTHING
    foreign: int = 0
    runs: Runs = Runs()  # noqa: RUF009  # frozen


@dataclass(frozen=True, slots=True)
class Compaction:
    """Which sides of a pair are compacted."""

    source: bool
    target: bool


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many records only the other side has, because the cleaner of ``source`` or ``target`` has removed them."""

    source: int = 0
    target: int = 0

    @property
    def records(self) -> int:
        """Of both sides."""
        return self.source + self.target


@dataclass(frozen=True, slots=True)
class PartitionPair:
    """What is compared: a range of a source partition, and the range of its remote partition that holds the copy.

    Parameters
    ----------
    runs
        The exact offset map of the range, where one is known.
    writers
        Producer ids that wrote the copy; empty if they are not known. What others wrote is no part of the copy.
    is_shared
        Whether others may write to the remote partition (unchanged topic names, fan-in). Where not, what somebody else
        wrote into it is extra.
    absences
        What the flow says that the copy lacks.
    parked
        What lies in the topic of parked records, by upstream offset.
    remembered
        What an earlier comparison found equal.
    proven
        What was left out of the ``stretches`` of both ranges because it is equal.
    compaction
        Which sides are compacted; None if neither is.
    cleaned
        What was left out because the log cleaner explains it.
    notes
        What there is to know of the way it is compared.
    unmapped
        Upstream offsets of the range whose places in the copy the map does not tell: Java MirrorMaker copied them.
    own_from
        From which downstream offset on only ``writers`` have copied; what lies before may be Java MirrorMaker's. Where
        others write too, that is what has no producer id.
    """

    source: LogRange
    target: LogRange
    runs: Runs = Runs()  # noqa: RUF009  # frozen
    writers: frozenset[int] = frozenset()
    is_shared: bool = False
    absences: tuple[Absence, ...] = ()
    parked: Mapping[int, ParkedContent] = field(default_factory=dict)
    remembered: Remembered | None = None
    proven: Proven = Proven()
    compaction: Compaction | None = None
    cleaned: Cleaned = Cleaned()
    notes: tuple[str, ...] = ()
    unmapped: tuple[Stretch, ...] = ()
    own_from: int = 0

    @property
    def absent(self) -> tuple[Stretch, ...]:
        """Where, in upstream offsets, the copy is said to lack something."""
        return tuple((each.start, each.end) for each in self.absences)
