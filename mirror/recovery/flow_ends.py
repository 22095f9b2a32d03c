"""Both ends of a flow, as the procedure of a failover asks and changes them: the interface, and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mirror.kafka.old_topics import OldTopic
from mirror.model.failover import FailoverEntry
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.verdict import Verdict
from mirror.recovery.copy_estimate import CopyEstimate
from mirror.recovery.group_moves import GroupMoves, MovePlan
from mirror.recovery.probing import Gone
from mirror.recovery.recent_writers import Writers
from mirror.recovery.remaining import Remaining
from mirror.recovery.rewritten import Rewritten
from mirror.recovery.seen_at_work import Placed
from mirror.recovery.staying import Staying
from mirror.recovery.stranded_files import Stranded


@dataclass(frozen=True, slots=True)
class Copied:
    """What the target has on record of a flow.

    Attributes
    ----------
    positions
        how far each partition that the flow selects is copied.
    stops
        why partitions are stopped.
    open_gaps
        what the copy lacks and nobody has acknowledged, in words for people.
    source_id
        the id of the cluster that was copied; empty if it is not on record.
    report_at_ms
        when one did last, None if never.
    report_troubles
        what was wrong then, in words for people: of what it had not seen of the source for longer, nothing is known.
    untroubled_at_ms
        when nothing was wrong last, if something was then; None: that is not on record.
    failovers
        the runs of the procedure that are on record, in the order of the log.
    paused
        the topics on record that are not copied for now, because somebody has paused them by hand.
    pauses
        those pauses by hand, in words for people.
    placed
        where the flow has put groups on its target, by group and partition.
    deselected
        the topics on record that the file no longer selects: of them nothing is counted, compared or copied back.
    closed
        the copies that take no records, since an engine has closed them and ended, and what opens them, for people.
    """

    positions: Mapping[TopicPartition, Position]
    stops: Mapping[TopicPartition, str]
    open_gaps: Sequence[str]
    source_id: str
    report_at_ms: int | None
    failovers: tuple[FailoverEntry, ...]
    paused: tuple[str, ...] = ()
    pauses: tuple[str, ...] = ()
    placed: Mapping[tuple[str, TopicPartition], Placement] = field(default_factory=dict)
    report_troubles: Sequence[str] = ()
    deselected: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    untroubled_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """That a flow copies nothing any more.

    Attributes
    ----------
    detail
        who has confirmed it, in words for people.
    open_ends
        the partitions of the source of which nobody knows how far they are copied, and why: the copy may reach further
        than is on record.
    limit
        to which copies something that was sent before may still be appended, and which take no records at all since an
        engine has closed them, in words for people; None: to none, and all do.
    """

    detail: str
    open_ends: Mapping[TopicPartition, str] = field(default_factory=dict)
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the logs of the source begin and end, of every partition that the flow selects.

    An end is that of all that was acknowledged: of what the leader has written, also where readers do not see it yet.
    ``ids`` are those of their topics, as far as the source tells.
    """

    cluster_id: str
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)


class FlowEnds(Protocol):
    """What the procedure asks of the two clusters of a flow, and does there.

    Whatever needs a cluster that does not answer raises `ClusterError`, `ConnectionFailed`, `BrokerRefused` or
    `LeaderUnknown`. Everything may be done again.
    """

    @property
    def flow(self) -> Flow:
        """The flow."""
        ...

    @property
    def reads_committed(self) -> bool:
        """Whether, by the file, the flow leaves out records of aborted transactions."""
        ...

    def copy_of(self, topic: str) -> str:
        """Return the name of the copy of a topic."""
        ...

    def wait_until_gone(self) -> Gone:
        """Probe every broker of the source that is known until it is gone. Raises `StillThere`."""
        ...

    def probing(self) -> AbstractContextManager[None]:
        """Return what probes the source's brokers meanwhile; :meth:`wait_until_gone` goes on from there."""
        ...

    def login_refusal(self) -> str | None:
        """Return, for people, that the source answered those probes and let nobody in, and what to do; None: not so."""
        ...

    def answered(self) -> Sequence[str]:
        """Return the addresses at which the source answered the last of those probes."""
        ...

    def answering(self) -> Sequence[str]:
        """Return the addresses at which the source answers."""
        ...

    def copied(self) -> Copied:
        """Return what the target has on record. Nothing, if the flow has never run."""
        ...

    def is_running(self) -> bool:
        """Return whether an engine runs the flow; takes seconds where clocks do not tell, as of one that has died."""
        ...

    def ends(self) -> Ends:
        """Ask the source for its logs."""
        ...

    def rewritten(self, *, by_epochs: bool = False) -> Rewritten:
        """Compare what was copied of the source with what it has there now; ``by_epochs`` without reading records."""
        ...

    def topics(self, names: Collection[str]) -> Mapping[str, OldTopic]:
        """Return what those of these topics of the source are like that are there."""
        ...

    def estimate(self, names: Collection[str]) -> CopyEstimate:
        """Return how much it takes to copy these topics of the source, whole, to their offsets."""
        ...

    def save_unmatched(self, names: Collection[str], directory: Path) -> Stranded:
        """Save what the source has of topics, and their copies with its offsets do not have at the same offset.

        Written is a new ``directory``, its manifest last; also raises `OSError` and `CorruptBatch`.
        """
        ...

    def save_stretches(self, stretches: Mapping[TopicPartition, tuple[int, int]], directory: Path) -> Stranded:
        """Save the records in stretches of the source's logs, but for those that the flow back has copied there.

        Written is a new ``directory``, its manifest last; also raises `OSError` and `CorruptBatch`.
        """
        ...

    def save_group_positions(self, names: Collection[str], path: Path) -> int:
        """Save in a new CSV file where all groups of the source are in topics; return how many positions these are.

        A row is a group, a topic, a partition, an offset. Also raises `OSError`.
        """
        ...

    def close_topics(self, topics: Collection[OldTopic]) -> None:
        """Have the source refuse whatever is produced to these topics."""
        ...

    def open_topics(self, topics: Collection[OldTopic]) -> None:
        """Take back what :meth:`close_topics` did, of those that are still there."""
        ...

    def delete_topics(self, topics: Collection[OldTopic]) -> None:
        """Delete these topics on the source, by their ids."""
        ...

    def create_topics(self, topics: Collection[OldTopic]) -> None:
        """Create these topics on the source as they were, with at least as many partitions as on the target."""
        ...

    def holding(self, stretches: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return those of the stretches of the source's logs in which there are records, and not only markers."""
        ...

    def written_by_others(
        self, stretches: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return those of the stretches of the source's logs with a record that the flow back has not copied there.

        Under unchanged names it copies what is written on the target into the very logs that were fenced.
        """
        ...

    def not_copied_back(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return where others have written records to the target since the flow was cut that nobody copies back.

        Into copies, behind what is on record as copied; to the old names, where the flow back does not select them;
        and before that flow began there. None that another flow of the file has copied there.
        """
        ...

    def untold_since_cut(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return where others have written to the target, and nobody knows whether before the flow was cut or since.

        In topics that nobody copies back, as far as where they ended at the cut is not on record.
        """
        ...

    def open_transactions(self) -> Sequence[str]:
        """Return, for people, the transactions that are open on the source, as far as it tells."""
        ...

    def writers(self) -> Writers:
        """Return who has written to the source lately, but for mirrors."""
        ...

    def members(self, groups: Sequence[str]) -> Sequence[str]:
        """Return, for people, which of the groups have members on the source, or may have."""
        ...

    def first_written(self, since_ms: int) -> int | None:
        """Return when the target first accepted a record of applications since then, in ms; None: none is seen."""
        ...

    def idle_groups(self, groups: Collection[str], placed: Placed) -> Mapping[str, str]:
        """Return which of the groups show nothing of being at work on the target, and for people what they show."""
        ...

    def gone_on(self, placed: Placed) -> Sequence[str]:
        """Return, for people, which groups on the target would pass records, since they are not where they were put."""
        ...

    def of_groups(self, pattern: str) -> FlowEnds:
        """Return the same ends, that see only the groups whose whole id matches a regular expression."""
        ...

    def staying(self) -> Staying:
        """Return which groups are at work on the source in topics of its own alone, once the applications left it."""
        ...

    def but_for(self, staying: Staying) -> FlowEnds:
        """Return the same ends, that see none of the groups that stay, nor the topics that are theirs alone."""
        ...

    def remaining(self, moved: Collection[str]) -> Remaining:
        """Return what the source has besides these groups and the topics that are copied."""
        ...

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        """Plan where the groups go on."""
        ...

    def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
        """Move the groups as planned; what was there before is saved."""
        ...

    def restore_groups(self, snapshot: Path) -> Sequence[str]:
        """Put back what a move has changed; return, for people, what could not be."""
        ...

    def pause(self) -> Cut:
        """Have the flow copied by nobody. Behind it nothing more is copied, and :attr:`Copied.closed` take records."""
        ...

    def open_closed(self, *, forgets: bool) -> str | None:
        """Have :attr:`Copied.closed` take records, and forget them; return, for people, which do not, None: none.

        Not forgotten they are found once more, where a request that closes one was on its way.
        """
        ...

    def resume(self) -> str:
        """Have the flow copied again, but for what was paused by hand; return, for people, what was done."""
        ...

    def is_paused(self) -> bool:
        """Tell whether nobody may copy the flow."""
        ...

    def is_cut(self) -> bool:
        """Tell whether it is paused still as :meth:`pause` has paused it, and has not been resumed since."""
        ...

    def uncopied_of_deselected(self) -> Sequence[str]:
        """Return, for people, of which topics that are no longer selected the source has more than was copied."""
        ...

    def verify(self, remember: Path | None = None) -> tuple[Verdict, str]:
        """Compare the copy with its source; return the verdict and what it rests on.

        What the file ``remember`` says is equal is left out, and what was found so is written to it.
        """
        ...

    def put(self, entry: FailoverEntry) -> None:
        """Put on record how far a run of the procedure has got."""
        ...

    def take(self, run: str) -> None:
        """Take a run off the record."""
        ...


class Pausing(Protocol):
    """How flows are paused and resumed: a running engine is told through the target."""

    def pause(self, flow: Flow) -> Cut:
        """Return once nobody copies the flow any more."""
        ...

    def resume(self, flow: Flow) -> str:
        """Return once it may be copied again as before; what was paused by hand stays so."""
        ...

    def is_paused(self, flow: Flow) -> bool:
        """Tell whether it may not."""
        ...

    def is_cut(self, flow: Flow) -> bool:
        """Tell whether it may not by what :meth:`pause` did, whatever is paused by hand."""
        ...


def yet_to_be_copied(
    ends: FlowEnds, fixed: Mapping[TopicPartition, int], copied: Copied
) -> Mapping[TopicPartition, tuple[int, int]]:
    """Return the offsets below ``fixed``, from one up to, not including, another, in which there are records to copy.

    What the source has removed before it was copied counts too, until an engine has it on record as a gap.
    """
    reached = {each: copied.positions[each].filled_until if each in copied.positions else 0 for each in fixed}
    short = {each: (reached[each], end) for each, end in fixed.items() if reached[each] < end}
    # Markers of transactions are not copied; those at the end are passed all the same.
    held = dict(ends.holding(short)) if short else {}
    starts = ends.ends().starts if len(held) < len(short) else {}
    for each in (short.keys() & copied.positions.keys()) - held.keys():
        if starts.get(each, 0) > reached[each]:
            held[each] = reached[each], min(starts[each], fixed[each])
    return held


def troubles_of(state: FlowState) -> tuple[str, ...]:
    """Return what was wrong when an engine last reported, in words for people."""
    # A pause by hand that is in force is named by itself; of one that is over, and behind a cut, nobody has seen where
    # logs ended.
    by_hand = state.pauses.without_cut()
    report = state.run.left_behind() if state.run is not None and not by_hand.pauses_any else state.run
    return report.troubles if report is not None else ()
