"""Whether a cluster still has what was copied of it: by topic ids, by leader epochs, and by the last records copied.

A log that lost its tail, since a replica that lagged was elected or a disk of some time ago was put back, and was
written to since, may have grown past the place again: then neither its end nor the id of its cluster tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from mirror.config.settings import FlowSettings
from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.log import read_batches
from mirror.kafka.problems import RequestFailed
from mirror.kafka.topic_ids import differ
from mirror.model.flow_state import FlowState
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd, find_divergence
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.position import Position

# Compaction may have removed the very last copied record from either side; of so many one is there.
_COMPARED = 32


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What of a source is not any more what was copied.

    Attributes
    ----------
    differences
        by partition, in words for people.
    unknown
        the partitions of which neither leader epochs nor records tell, and why.
    compared
        how many partitions were found to be the same by their records.
    """

    differences: Mapping[TopicPartition, str] = field(default_factory=dict)
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    compared: int = 0

    def difference_messages(self) -> list[str]:
        """Return the differences for people."""
        return [f"{each}: {why}" for each, why in sorted(self.differences.items())]

    def unknown_messages(self) -> list[str]:
        """Return what is not known, for people."""
        return [f"{each}: {why}" for each, why in sorted(self.unknown.items())]


@dataclass(slots=True)
class _Same:
    """The records of one partition and their copies, by their prints: what lies at an offset of the source."""

    source: Channel
    target: Channel
    partition: TopicPartition
    copy: TopicPartition
    offsets: OffsetMap
    start: int

    def last_copied(self) -> list[int]:
        """Return the last offsets of the source that have copies, ascending."""
        found: list[int] = []
        end = self.offsets.downstream_next
        while len(found) < _COMPARED and (run := self.offsets.runs.last_before_copy(end)) is not None:
            first = max(run.upstream, run.upstream_end - (_COMPARED - len(found)))
            found = [*range(first, run.upstream_end), *found]
            end = run.downstream
        return found

    def differing(self, wanted: Collection[int]) -> tuple[list[int], int]:
        """Return the offsets among these at which the two have another record, and how many could be compared."""
        copies = {self._copy_of(each): each for each in wanted if each >= self.start}
        if not copies:
            return [], 0
        there = _prints_at(self.source, self.partition, copies.values())
        copied = _prints_at(self.target, self.copy, copies)
        both = [each for copy, each in copies.items() if each in there and copy in copied]
        found = {each: copied[copy] for copy, each in copies.items() if copy in copied}
        return [each for each in both if there[each] != found[each]], len(both)

    def first_difference(self, known: int) -> int:
        """Return the first offset at which they differ, given that they do at ``known`` and agree before some place."""
        low, high = max(self.offsets.origin, self.start), known
        while low < high:
            middle = (low + high) // 2
            run = self.offsets.runs.behind(middle)
            if run is None:
                break
            at = max(middle, run.upstream)
            if at >= high:
                high = middle
            elif self.differing([at])[0]:
                high = at
            else:
                low = at + 1
        return high

    def _copy_of(self, offset: int) -> int:
        run = self.offsets.runs.behind(offset)
        assert run is not None
        return run.downstream + offset - run.upstream


def find_rewritten(
    settings: FlowSettings,
    state: FlowState,
    positions: Mapping[TopicPartition, Position],
    source: Channel,
    target: Channel,
    *,
    by_epochs: bool = False,
) -> Rewritten:
    """Compare what was copied of a flow's source with what is there now; read are a few records a partition.

    ``positions`` are those of the partitions of ``state`` that are to be compared. ``by_epochs``: by topic ids and
    leader epochs alone, which takes a request a broker.

    Raises
    ------
    KafkaProblem
        if a cluster does not answer.
    """
    copied = {each: position for each, position in positions.items() if position.upstream > position.origin}
    source.learn_leaders(copied)
    anew = {each: _created_anew(each, position, source) for each, position in copied.items()}
    differences = {each: what for each, what in anew.items() if what is not None}
    left = [each for each in copied if each not in differences]
    truncated, undecided = _truncated(left, copied, source)
    differences |= truncated
    if by_epochs:
        asked = {each for each in undecided if any(one.epoch != NOT_KNOWN for one in copied[each].epochs)}
        return Rewritten(differences, {each: undecided[each] for each in asked})
    unknown: dict[TopicPartition, str] = {}
    compared = 0
    starts = source.find_offsets(left, EARLIEST)
    for each in (each for each in left if each not in differences):
        difference: str | None = None
        unlooked: str | None
        if each in starts.problems:
            unlooked = str(starts.problems[each])
        elif settings.transform_of(each.topic) is not None:
            unlooked = "its records are transformed on their way, so they cannot be compared one by one"
        else:
            difference, unlooked = _otherwise(settings, state, each, starts[each], source, target)
        if difference is not None:
            differences[each] = difference
        elif unlooked is None:
            compared += 1
        elif each in undecided:
            unknown[each] = f"{unlooked}; of its leader epochs: {undecided[each]}"
    return Rewritten(differences, unknown, compared)


def _created_anew(partition: TopicPartition, position: Position, source: Channel) -> str | None:
    now = source.topic_id(partition.topic)
    if not differ(position.topic_id, now):
        return None
    return f"the topic was deleted and created anew (its id is {now}, and was {position.topic_id})"


def _truncated(
    partitions: Iterable[TopicPartition], positions: Mapping[TopicPartition, Position], source: Channel
) -> tuple[dict[TopicPartition, str], dict[TopicPartition, str]]:
    """Return the partitions of which other leaders have written a part anew, and those whose epochs do not tell."""
    chosen = {each: [one.epoch for one in positions[each].epochs if one.epoch != NOT_KNOWN] for each in partitions}
    newest = {each: known[-1] for each, known in chosen.items() if known}
    ends = source.find_epoch_ends(newest)
    undecided = {each: "none are on record" for each in chosen if each not in newest}
    undecided |= {each: str(why) for each, why in ends.problems.items()}
    found = {}
    for each in (each for each in newest if each not in ends.problems):
        position = positions[each]
        ask = _asker(source, each, {newest[each]: ends[each]})
        if (at := find_divergence(position.epochs, position.upstream, ask)) is not None:
            found[each] = (
                f"it was truncated at offset {at}, and other leaders have written it from there on; it had been copied "
                f"up to {position.upstream}"
            )
    return found, undecided


def _asker(
    source: Channel, partition: TopicPartition, known: dict[int, EpochEnd | None]
) -> Callable[[int], EpochEnd | None]:
    def ask(epoch: int) -> EpochEnd | None:
        if epoch not in known:
            known[epoch] = source.find_epoch_ends({partition: epoch}).whole()[partition]
        return known[epoch]

    return ask


def _otherwise(
    settings: FlowSettings,
    state: FlowState,
    partition: TopicPartition,
    start: int,
    source: Channel,
    target: Channel,
) -> tuple[str | None, str | None]:
    """Return the difference of the last copied records, if there is one; otherwise why they were not compared."""
    offsets = state.offset_map(partition)
    if offsets is None or not offsets.runs:
        return None, "it is not on record which records of the copy are which"
    copy = TopicPartition(state.positions[partition].target or settings.copy_of(partition.topic), partition.partition)
    try:
        same = _Same(source, target, partition, copy, offsets, start)
        differing, count = same.differing(_still_on(target, copy, same.last_copied(), same._copy_of))
    except RequestFailed as problem:
        return None, str(problem)
    if not differing:
        return None, None if count else "neither side has the last records that were copied any more"
    first = same.first_difference(differing[0])
    reaches = f"the copy {copy} reaches up to {offsets.upstream_next - 1}"
    return f"it has other records than were copied from offset {first} on ({reaches})", None


def _still_on(
    target: Channel, copy: TopicPartition, wanted: Collection[int], copy_of: Callable[[int], int]
) -> list[int]:
    """Return those of the source's offsets whose copies retention has left on the target."""
    start = target.offsets([copy], EARLIEST)[copy]
    end = target.offsets([copy], LATEST)[copy]
    return [each for each in wanted if start <= copy_of(each) < end]


def _prints_at(channel: Channel, partition: TopicPartition, wanted: Iterable[int]) -> dict[int, int]:
    """Return the hashes of key, value and headers of the records at these offsets, as far as they are there."""
    from mirror.kafka.fingerprints import all_fingerprints  # NumPy: other commands start sooner without it

    offsets = set(wanted)
    found: dict[int, int] = {}
    for batch in all_fingerprints(read_batches(channel, partition, min(offsets), max(offsets) + 1)):
        found |= {
            int(offset): int(print_)
            for offset, print_ in zip(batch.offsets, batch.hashes, strict=True)
            if offset in offsets
        }
    return found
