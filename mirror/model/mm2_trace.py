"""What a Java MirrorMaker has left of a partition's copy: its recorded position, and its offset syncs in order.

An offset sync is proof: MirrorMaker writes (u, d) when the target has acknowledged the record at upstream offset u at
downstream offset d. Each time its task starts it goes back to its recorded position, and its first record there owes a
sync at once (OSW-08). So the syncs, in the order of their log, fall into *stretches* in which both offsets ascend, one
for each life of a task that went back, and the first sync of a stretch says exactly where it went back to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

# So many syncs of a stretch are kept; beyond that older ones are thinned out first.
MOST_PAIRS = 512
# Records can be this many offsets apart on the source, on average: transaction markers and removed records take some.
_OFFSETS_A_RECORD = 4


class Pair(NamedTuple):
    """The record at offset ``upstream`` of the source stands at offset ``downstream`` of the target."""

    upstream: int
    downstream: int


Stretch: TypeAlias = tuple[Pair, ...]
"""Syncs in which both offsets ascend."""


class SyncTrail:
    """The offset syncs of one partition, as far as they still speak of the target's log; sparser towards the past."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._stretches: list[list[Pair]] = []

    def take(self, pair: Pair) -> None:
        """Take in a sync, in the order of the log; one that goes back downstream is of another log of the target."""
        if self._stretches and pair.downstream <= self._stretches[-1][-1].downstream:
            if pair == self._stretches[-1][-1]:
                return
            self._stretches.clear()
        if not self._stretches or pair.upstream <= self._stretches[-1][-1].upstream:
            self._stretches.append([])
        stretch = self._stretches[-1]
        stretch.append(pair)
        if len(stretch) > MOST_PAIRS:
            # The first says where the stretch begins.
            del stretch[1 : MOST_PAIRS // 2 : 2]

    def stretches(self, from_downstream: int = 0) -> tuple[Stretch, ...]:
        """Return what is known of the target from an offset on."""
        cut = (tuple(pair for pair in each if pair.downstream >= from_downstream) for each in self._stretches)
        return tuple(stretch for stretch in cut if stretch)


@dataclass(frozen=True, slots=True)
class Mm2Trace:
    """What Java MirrorMaker has left of one partition.

    Attributes
    ----------
    position
        its recorded position, None when it never recorded one.
    stretches
        its syncs, in the order of the log; none when they are off, or the first was never written.
    matches
        whether what lies behind the position is to be looked up on the target (``mirror.takeover=match``).
    is_alone
        whether the target can hold nothing but copies: then what is there must be found on the source.
    """

    position: int | None = None
    stretches: tuple[Stretch, ...] = ()
    matches: bool = True
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where the two logs are known to correspond, and what else is known of the target behind that.

    Attributes
    ----------
    at
        the source's records from ``at.upstream`` on stand on the target from ``at.downstream`` on.
    is_record
        whether the very record is known to stand there, as a sync says; a position says only that none is before.
    source_from
        the lowest upstream offset that can lie behind the anchor: MirrorMaker may have gone back before it.
    marks
        the syncs behind the anchor: the upstream offset of what stands at a downstream offset.
    """

    at: Pair
    is_record: bool
    source_from: int
    marks: dict[int, int]


@dataclass(frozen=True, slots=True)
class NoAnchor:
    """What is known cannot be about this log of the target."""

    reason: str


def find_anchor(
    trace: Mm2Trace, own: Pair | None, source_start: int, target_start: int, target_end: int, *, newest: bool = False
) -> Anchor | NoAnchor | None:
    """Return the last place that has everything behind it that MirrorMaker wrote after its recorded position.

    That is the newest sync not past the recorded position; or, where MirrorMaker may have gone back (the target got
    more than the source had) and is not known to have got as far again, the last sync before that.

    Parameters
    ----------
    own
        this engine's own recorded position, older than what MirrorMaker wrote; it serves like a sync.
    newest
        begin at the sync furthest upstream instead: less to look at, and less that is known exactly afterwards.

    Returns
    -------
    the anchor; None when there is neither a sync nor a position of our own.
    """
    known = [pair for stretch in trace.stretches for pair in stretch if pair.downstream >= target_start]
    if own is not None:
        known = [own, *(pair for pair in known if pair.downstream >= own.downstream)]
    if not known:
        return None
    beyond = known[-1]
    if beyond.downstream >= target_end and not (own == beyond and beyond.downstream == target_end):
        return NoAnchor(
            f"upstream offset {beyond.upstream} is known to have been copied to offset {beyond.downstream}, but the "
            f"target ends at {target_end}: it was truncated or created anew"
        )
    furthest = max(range(len(known)), key=lambda index: known[index].upstream)
    chosen = furthest if newest else _latest(known, trace.position, source_start)
    for index, (before, after) in enumerate(pairwise(known)):
        # How far it got behind its last sync, in records, is limited by what lies between the two on the target.
        written = after.downstream - before.downstream
        went_back = written > after.upstream - before.upstream
        reached = before.upstream + _OFFSETS_A_RECORD * written
        if not newest and went_back and reached >= known[furthest].upstream:
            chosen = min(chosen, index)
    behind = known[chosen + 1 :]
    at = known[chosen]
    return Anchor(
        at,
        is_record=not (own is not None and chosen == 0),
        source_from=min([at.upstream, *(pair.upstream for pair in behind)]),
        marks={pair.downstream: pair.upstream for pair in behind},
    )


def _latest(known: Sequence[Pair], position: int | None, source_start: int) -> int:
    """Return the index of the last pair not past the position; the first one when there is none, or no position."""
    not_past = [index for index, pair in enumerate(known) if position is not None and pair.upstream <= position]
    latest = not_past[-1] if not_past else 0
    if known[latest].upstream < source_start:
        # What the source no longer has cannot be looked up.
        return max(index for index, pair in enumerate(known) if pair.upstream <= source_start)
    return latest


def safe_pairs(stretches: Iterable[Stretch], before: Pair) -> tuple[Pair, ...]:
    """Return the pairs, both offsets ascending, behind which a reader misses nothing; those before ``before`` only.

    A stretch that went back and did not get as far again holds no later records: who began reading there would miss
    those that only the stretch before it has.
    """
    kept: list[Pair] = []
    for stretch in stretches:
        if kept and stretch[0].upstream <= kept[-1].upstream:
            if stretch[-1].upstream < kept[-1].upstream:
                continue
            kept = [pair for pair in kept if pair.upstream < stretch[0].upstream]
        kept += stretch
    return tuple(pair for pair in kept if pair.upstream < before.upstream and pair.downstream < before.downstream)
