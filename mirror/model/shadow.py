"""Shadow groups: copies of groups under names of their own, with which a failover is tried out on the standby.

What is planned of each partition, what a reader was handed there, and the judgement: whether the group would have gone
on behind exactly the record that it processed last on the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from mirror.model.counts import are, counted
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict

__all__ = ["TakenFrom"]

SHADOW_PREFIX = "__mirror-rehearsal."
"""Names with two underscores in front are among MirrorMaker 2's default ``groups.exclude``: no flow carries them on."""

_SHORTEST_OVERLAP = 3


def shadow_name(stamp: str, group: str) -> str:
    """Return the name under which ``group`` is tried out in the rehearsal called ``stamp``."""
    return f"{SHADOW_PREFIX}{stamp}.{group}"


def is_shadow(group: str) -> bool:
    """Tell whether a group is the shadow of another one, of whichever rehearsal."""
    return group.startswith(SHADOW_PREFIX)


class TakenFrom(StrEnum):
    """Where the positions of the shadow groups come from."""

    CHECKPOINTS = "checkpoints"
    """As if the source were lost: from the last checkpoints on the target."""
    SOURCE = "source"
    """As in a planned move: from the source, which still answers."""


@dataclass(frozen=True, slots=True)
class Processed:
    """What a group had processed on the source, as positions: no less than ``low`` and no more than ``high``."""

    low: int
    high: int


def processed(before: int | None, used: int, after: int | None) -> Processed | None:
    """Return what a group had processed when its position was taken, None if that cannot be known.

    Parameters
    ----------
    before, after
        its position on the source before and after that; None where it had none.
    used
        the upstream position that was taken.
    """
    if before is None or after is None or after < before:
        return None
    return Processed(used if before <= used <= after else before, after)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a failover would cost the group on a partition, said before it is tried.

    Attributes
    ----------
    skipped
        records the group would miss.
    read_again
        records it would be handed although it has processed them, at most; None: not known.
    """

    skipped: int
    read_again: int | None


@dataclass(frozen=True, slots=True)
class ShadowPartition:
    """What is planned for one partition of a group.

    Attributes
    ----------
    source, target
        the partition on the source, and where the group goes on with it.
    upstream
        the upstream position that ``position`` stands for.
    position
        where the shadow group begins on the target; None: there is nowhere to begin.
    early_records
        by how many records it may lie before the exact position.
    processed
        what the group had processed on the source; None if that cannot be known.
    forecast
        None where there is none.
    refusal
        why it is not tried, and so not proven; or why it is certain to fail.
    must_fail
        whether the refusal is a failure.
    note
        the translation, in words.
    """

    group: str
    source: TopicPartition
    target: TopicPartition
    upstream: int | None
    position: int | None
    early_records: int = 0
    processed: Processed | None = None
    forecast: Forecast | None = None
    refusal: str | None = None
    must_fail: bool = False
    note: str = ""

    @property
    def is_tried(self) -> bool:
        """Whether the shadow group gets a position on this partition."""
        return self.refusal is None and self.position is not None and self.upstream is not None


@dataclass(frozen=True, slots=True)
class Seen:
    """A record: its offset and what stands for its content."""

    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Handed:
    """What the shadow group's reader was handed of one partition, in that order.

    Attributes
    ----------
    seconds_to_first
        from the start of the reader to the first record; None if none came.
    problem
        why not all that was wanted could be read.
    out_of_range
        whether the log had nothing at the group's position.
    """

    records: tuple[Seen, ...] = ()
    seconds_to_first: float | None = None
    problem: str | None = None
    out_of_range: bool = False


@dataclass(frozen=True, slots=True)
class SourceWindow:
    """The source around a group's position, as the copy must have it.

    Attributes
    ----------
    records
        the records with offsets from ``start`` up to, not including, ``end``, in order; without those that the flow
        leaves out on purpose.
    compacted
        whether either side may have removed records of which newer ones with the same key are there.
    """

    start: int
    end: int
    records: tuple[Seen, ...]
    compacted: bool = False

    def count(self, start: int, end: int) -> int:
        """Return how many records have offsets from ``start`` up to, not including, ``end``."""
        return sum(start <= seen.offset < end for seen in self.records)


Origins = Mapping[int, int | None]
"""By downstream offset: the upstream offset of which it is the copy, None if it is no copy; what is not known lacks."""


@dataclass(frozen=True, slots=True)
class TriedPartition:
    """What came of one partition of a group.

    Attributes
    ----------
    handed, compared
        records the shadow group was handed; of those, how many were held against the source's content.
    first
        the offset of the first of them that is a copy, on the target.
    first_upstream
        which offset on the source that is.
    displaced
        by how many records the group began too late (or, below 0, too early) for the position that was translated.
    skipped
        records of the source behind the group's position that it was not handed.
    read_again
        records it had processed and was, or would be, handed again: at least, at most. Apart where it moved meanwhile.
    """

    plan: ShadowPartition
    verdict: Verdict
    reasons: tuple[str, ...]
    handed: int = 0
    compared: int = 0
    first: int | None = None
    first_upstream: int | None = None
    displaced: int | None = None
    skipped: int | None = None
    read_again: tuple[int, int] | None = None
    seconds_to_first: float | None = None


def judge(
    plan: ShadowPartition,
    handed: Handed,
    window: SourceWindow,
    origins: Origins,
    copies_between: Callable[[int, int], int],
    known_gaps: Sequence[tuple[int, int]] = (),
) -> TriedPartition:
    """Hold what the shadow group was handed against what the group had processed on the source.

    Parameters
    ----------
    copies_between
        how many copies there are of upstream offsets from the first up to, not including, the second.
    known_gaps
        upstream offsets (start, end) that the flow has on record as missing.
    """
    if not plan.is_tried or plan.upstream is None:
        return TriedPartition(plan, Verdict.FAIL if plan.must_fail else Verdict.UNKNOWN, (plan.refusal or plan.note,))
    if handed.out_of_range:
        why = f"{plan.target} has nothing at the group's position {plan.position}: its reader would start elsewhere"
        return TriedPartition(plan, Verdict.FAIL, (why,))
    if plan.processed is None:
        why = "the group's position on the source went back, or came or went, while it was looked at; try again"
        return TriedPartition(plan, Verdict.UNKNOWN, (why,), len(handed.records))
    if handed.problem is not None:
        return TriedPartition(plan, Verdict.UNKNOWN, (handed.problem,), len(handed.records))
    found = _locate(handed.records, window, origins)
    if found is None:
        return _nothing_handed(plan, handed, window)
    if found.upstreams is None:
        return TriedPartition(plan, found.verdict, found.problems, len(handed.records), found.compared)
    first, last, processed_to = found.upstreams[0], found.upstreams[-1], plan.processed
    late, early = window.count(plan.upstream, first), copies_between(first, plan.upstream)
    skipped = window.count(processed_to.low, first)
    again = copies_between(first, processed_to.low), copies_between(first, processed_to.high)
    failures: list[str] = []
    doubts: list[str] = []
    if late:
        # Compaction may have removed just the first records; then nobody can say that they were passed over.
        (doubts if window.compacted else failures).append(
            f"begins {counted(late, 'record')} too late: position {plan.upstream} of {plan.source} "
            f"became {plan.position}, but "
            f"the first record handed, at {found.first}, is the copy of offset {first}"
            + (f"; {counted(skipped, 'record')} would be skipped" if skipped else "")
        )
    elif skipped:
        failures.append(
            f"skips {counted(skipped, 'record')}: the group stands at {processed_to.low} on "
            f"{plan.source}, but its position was "
            f"taken as {plan.upstream}"
        )
    if early > plan.early_records:
        allowed = f", where at most {plan.early_records} were forecast" if plan.early_records else ""
        failures.append(
            f"begins {counted(early, 'record')} too early{allowed}: position {plan.upstream} of {plan.source} became "
            f"{plan.position}, but the first record handed, at {found.first}, is the copy of offset {first}"
        )
    limit = plan.forecast.read_again if plan.forecast else None
    if limit is None and again[1]:
        doubts.append(
            f"up to {counted(again[1], 'record')} {are(again[1])} read again; there was no forecast to "
            f"hold that against"
        )
    elif limit is not None and again[1] > limit and not early > plan.early_records:
        failures.append(
            f"{counted(again[1], 'record')} {are(again[1])} read again, where at most {limit} were forecast"
        )
    failures += _holes(plan, found.upstreams, window, known_gaps, last)
    verdict = (
        Verdict.FAIL
        if failures or found.verdict is Verdict.FAIL
        else Verdict.UNKNOWN
        if doubts or found.verdict is Verdict.UNKNOWN
        else Verdict.PASS
    )
    return TriedPartition(
        plan,
        verdict,
        (*failures, *found.problems, *doubts),
        len(handed.records),
        found.compared,
        found.first,
        first,
        late - early,
        skipped,
        again,
        handed.seconds_to_first,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """Which upstream offsets the records handed are copies of, None if that cannot be known."""

    first: int
    upstreams: tuple[int, ...] | None
    compared: int
    verdict: Verdict = Verdict.PASS
    problems: tuple[str, ...] = ()


def _locate(handed: Sequence[Seen], window: SourceWindow, origins: Origins) -> _Found | None:
    """Say which upstream offsets the records are copies of: by the offset map, checked by content; else by content."""
    copies = [seen for seen in handed if origins.get(seen.offset, -1) is not None]
    if not copies:
        return None
    first = copies[0].offset
    there = {seen.offset: seen.digest for seen in window.records}
    located = [(seen, origins.get(seen.offset)) for seen in copies]
    upstreams = tuple(upstream for _, upstream in located if upstream is not None)
    compared = [(seen, up) for seen, up in located if up is not None and up in there]
    wrong = [(seen, up) for seen, up in compared if there[up] != seen.digest]
    if len(upstreams) == len(copies) and compared and not wrong:
        return _Found(first, upstreams, len(compared))
    if len(upstreams) == len(copies) and not compared:
        why = "the contents could not be compared: the source has none of these records any more"
        return _Found(first, upstreams, 0, Verdict.UNKNOWN, (why,))
    shifts = _shifts(copies, window.records)
    if len(shifts) > 1:
        why = "the records handed are like those at several places of the source: where they belong cannot be known"
        return _Found(first, None, len(copies), Verdict.UNKNOWN, (why,))
    if not shifts:
        return _altered(first, upstreams, len(copies), compared, wrong)
    by_content = tuple(seen.offset for seen in window.records[shifts[0] : shifts[0] + len(copies)])
    problems: tuple[str, ...] = ()
    if wrong:
        seen, upstream = wrong[0]
        why = (
            f"the offset map is wrong: it says that {seen.offset} is the copy of {upstream}, but by their contents the "
            f"records from {first} on are those from {by_content[0]} on"
        )
        problems = (why,)
    return _Found(first, by_content, len(by_content), Verdict.FAIL if problems else Verdict.PASS, problems)


def _altered(
    first: int,
    upstreams: tuple[int, ...],
    copies: int,
    compared: Sequence[tuple[Seen, int]],
    wrong: Sequence[tuple[Seen, int]],
) -> _Found:
    if len(upstreams) == copies and 2 * len(wrong) <= len(compared):
        seen, upstream = wrong[0]
        altered = f"{counted(len(wrong), 'record')} {are(len(wrong))} altered"
        why = f"{altered}, the first at {seen.offset}: it is not what the source has at {upstream}"
        return _Found(first, upstreams, len(compared), Verdict.FAIL, (why,))
    why = f"the records handed from {first} on are none of those around the group's position on the source"
    return _Found(first, None, copies, Verdict.FAIL, (why,))


def _shifts(copies: Sequence[Seen], there: Sequence[Seen]) -> list[int]:
    """Return at which places of the window the contents handed begin; a window may end before them."""
    wanted, known = [seen.digest for seen in copies], [seen.digest for seen in there]
    least = min(len(wanted), _SHORTEST_OVERLAP)
    return [
        shift
        for shift in range(len(known) - least + 1)
        if known[shift] == wanted[0] and known[shift : shift + len(wanted)] == wanted[: len(known) - shift]
    ]


def _nothing_handed(plan: ShadowPartition, handed: Handed, window: SourceWindow) -> TriedPartition:
    """Judge a partition of which no copy came: all is well if there is none to come."""
    assert plan.upstream is not None
    waiting = window.count(plan.upstream, window.end)
    if waiting:
        why = f"no record came in time, although the source has some from {plan.upstream} on: is the flow behind?"
        return TriedPartition(plan, Verdict.UNKNOWN, (why,), len(handed.records))
    ahead = plan.processed is not None and plan.processed.low < plan.upstream
    if ahead:
        why = f"the position was taken as {plan.upstream}, but the group stands before that on the source"
        return TriedPartition(plan, Verdict.FAIL, (why,), len(handed.records))
    return TriedPartition(
        plan,
        Verdict.PASS,
        ("at the end on both sides",),
        len(handed.records),
        displaced=0,
        skipped=0,
        read_again=(0, 0),
    )


def _holes(
    plan: ShadowPartition,
    upstreams: Sequence[int],
    window: SourceWindow,
    known_gaps: Sequence[tuple[int, int]],
    last: int,
) -> list[str]:
    """Name what lacks, or comes twice, among the records handed."""
    messages = []
    if any(later <= earlier for earlier, later in pairwise(upstreams)):
        messages.append(f"records of {plan.source} are handed twice or out of order")
    came = set(upstreams)
    lacking = [
        seen.offset
        for seen in window.records
        if upstreams[0] < seen.offset < last
        and seen.offset not in came
        and not any(start <= seen.offset < end for start, end in known_gaps)
    ]
    if lacking and not window.compacted:
        messages.append(
            f"{counted(len(lacking), 'record')} of {plan.source} {are(len(lacking))} not handed, the "
            f"first at offset {lacking[0]}"
        )
    return messages
