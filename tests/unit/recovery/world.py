"""Two clusters, a flow each way and applications, as the procedure sees them; any call may be the last of a process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mirror.control.group_view import TranslatedPosition
from mirror.control.groups import GroupAction, GroupDecision
from mirror.kafka.batch import Record
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.old_topics import OldTopic
from mirror.kafka.problems import ClusterError
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.translation import Exact
from mirror.model.verdict import Verdict
from mirror.recovery.applications import Answer, Done, Unobserved
from mirror.recovery.copy_estimate import CopyEstimate
from mirror.recovery.flow_ends import Copied, Cut, Ends
from mirror.recovery.group_moves import GroupMoves, MovePlan, Unmoved
from mirror.recovery.group_snapshot import GroupSnapshot, SavedPosition
from mirror.recovery.move import Move, Times
from mirror.recovery.probing import Gone, StillThere, refused_words
from mirror.recovery.recent_writers import Writers
from mirror.recovery.rewritten import Rewritten
from mirror.recovery.seen_at_work import Placed
from mirror.recovery.staying import NOBODY, Staying
from mirror.recovery.stranded_files import Stranded, save, seal
from tests.unit.config.files import flows_of

EAST, WEST = "east", "west"
ORDERS = TopicPartition("orders", 0)
OWN = TopicPartition("inventory", 0)
THERE, HOME = flows_of("east->west", "west->east")
ENTRY = FailoverEntry("ours", "planned", Phase.UNDER_WAY, "host:/run", 1)


class Killed(BaseException):
    """The process ends here, as if by ``kill -9``."""


@dataclass
class World:
    """What is so. ``calls`` counts what the procedure has asked or done; the one numbered ``dies_at`` ends it."""

    is_up: dict[str, bool] = field(default_factory=lambda: {EAST: True, WEST: True})
    at_work: set[str] = field(default_factory=lambda: {EAST})
    written: dict[str, int] = field(default_factory=lambda: {EAST: 10, WEST: 0})
    copied: dict[str, int] = field(default_factory=lambda: {EAST: 10, WEST: 0})
    # Where the logs begin: what lies before is removed.
    starts: dict[str, int] = field(default_factory=lambda: {EAST: 0, WEST: 0})
    paused: set[Flow] = field(default_factory=set)
    by_hand: dict[Flow, str] = field(default_factory=dict)
    paused_topics: tuple[str, ...] = ()
    open_ends: dict[TopicPartition, str] = field(default_factory=dict)
    limit: str | None = None
    troubles: tuple[str, ...] = ()
    untroubled_at_ms: int | None = None
    deselected: tuple[str, ...] = ()
    # Copies that an engine has left closed.
    closed: tuple[str, ...] = ()
    not_opened: str | None = None
    is_told_of_stops: bool = True
    writers: Writers = field(default_factory=Writers)
    rewritten: Rewritten = field(default_factory=Rewritten)
    record: dict[str, FailoverEntry] = field(default_factory=dict)
    groups: dict[str, dict[str, int]] = field(default_factory=lambda: {EAST: {"audit": 7}, WEST: {}})
    refused: tuple[Unmoved, ...] = ()
    verdict_so_far: Verdict = Verdict.PASS
    verdict: Verdict = Verdict.PASS
    open_transactions: tuple[str, ...] = ()
    # Who stays on the standby, and how much is written there by others than the applications that move.
    staying: Staying = NOBODY
    own: int | None = None
    # The topic of east: the id it has, None while it is deleted, and whether what is produced to it is refused.
    east_topic: str | None = "id here"
    is_closed: bool = False
    # East does not list its topic: "deleted", or "hidden" from who asks.
    unlisted: str = ""
    is_written_while_closed: bool = False
    saved: list[Path] = field(default_factory=list)
    is_probing: bool = False
    planned_while_probing: list[bool] = field(default_factory=list)
    # Who shows nothing of being at work where it was moved to, and whether a write is seen there.
    resting: dict[str, str] = field(default_factory=dict)
    is_copied_back: bool = False
    # What others than the flow have written into the copies of a flow, by its target.
    not_copied_back: dict[str, dict[TopicPartition, tuple[int, int]]] = field(default_factory=dict)
    untold: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    shows_writes: bool = True
    # The applications write nothing.
    only_reads: bool = False
    stubborn: set[str] = field(default_factory=set)
    reads_committed: bool = False
    hides_logs: bool = False
    refuses_logins: set[str] = field(default_factory=set)
    done: list[str] = field(default_factory=list)
    calls: int = 0
    dies_at: int | None = None

    def call(self, what: str = "") -> None:
        """Count a call, behind whatever it did, and end the process if it is the last."""
        if what:
            self.done.append(what)
        self.calls += 1
        if self.calls == self.dies_at:
            raise Killed


@dataclass(frozen=True)
class StandInEnds:
    """The ends of a flow of the world."""

    world: World
    flow: Flow
    apart: Staying = NOBODY

    @property
    def reads_committed(self) -> bool:
        return self.world.reads_committed

    def copy_of(self, topic: str) -> str:
        return f"{self.flow.source}.{topic}"

    def estimate(self, names: Collection[str]) -> CopyEstimate:
        self.world.call()
        if self.world.hides_logs:
            raise ClusterError(self.flow.source, "looking at its logs", "TOPIC_AUTHORIZATION_FAILED")
        return CopyEstimate(self.world.written[self.flow.source] * len(names), 5_000_000, 90.0)

    def wait_until_gone(self) -> Gone:
        self.world.call()
        if self.world.is_up[self.flow.source]:
            refused = self.login_refusal()
            raise StillThere(f"{self.flow.source} still answers" + (f"; {refused}" if refused else ""))
        return Gone(3, ("east:1",), 0)

    @contextmanager
    def probing(self) -> Iterator[None]:
        self.world.is_probing = True
        yield
        self.world.is_probing = False

    def login_refusal(self) -> str | None:
        is_refused = self.flow.source in self.world.refuses_logins
        return refused_words(self.flow.source, {"east:1": "authentication failed"} if is_refused else {})

    def answered(self) -> Sequence[str]:
        return ["east:1"] if self.world.is_up[self.flow.source] else []

    def answering(self) -> Sequence[str]:
        self.world.call()
        return ["east:1"] if self.world.is_up[self.flow.source] else []

    def copied(self) -> Copied:
        self.world.call()
        world, source = self.world, self.flow.source
        # An engine copies whatever it may.
        if self.flow not in world.paused and world.is_up[source]:
            world.copied[source] = world.written[source]
        position = Position(world.copied[source], world.copied[source], 0, complete=True)
        positions = {ORDERS: position} | {each: replace(position, upstream=end) for each, end in self._own().items()}
        failovers = tuple(world.record.values()) if self.flow == THERE.flow else ()
        by_hand = world.by_hand.get(self.flow)
        pauses = () if by_hand is None else (by_hand,)
        said = f"id of {source}", 5, failovers, world.paused_topics, pauses
        return Copied(
            positions, {}, (), *said, {}, world.troubles, world.deselected, world.closed, world.untroubled_at_ms
        )

    def is_running(self) -> bool:
        self.world.call()
        return True

    def ends(self) -> Ends:
        self.world.call()
        if self.flow.source in self.world.at_work and not self.world.only_reads:
            self.world.written[self.flow.source] += 1
        source, world = self.flow.source, self.world
        own = self._own()
        if source == EAST and world.unlisted:
            return Ends(f"id of {source}", {}, {})
        starts = {ORDERS: world.starts[source], **dict.fromkeys(own, 0)}
        return Ends(f"id of {source}", starts, {ORDERS: world.written[source], **own})

    def _own(self) -> dict[TopicPartition, int]:
        """The logs that somebody writes to who stays on the standby; each look finds more."""
        if self.flow != HOME.flow or self.world.own is None or OWN.topic in self.apart.topics:
            return {}
        self.world.own += 1
        return {OWN: self.world.own}

    def staying(self) -> Staying:
        self.world.call()
        return self.world.staying

    def but_for(self, staying: Staying) -> StandInEnds:
        return replace(self, apart=staying)

    def rewritten(self, *, by_epochs: bool = False) -> Rewritten:
        self.world.call()
        return self.world.rewritten

    def holding(self, stretches: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[int, int]]:
        self.world.call()
        begin = self.world.starts[self.flow.source]
        return {each: (start, end) for each, (start, end) in stretches.items() if max(start, begin) < end}

    def written_by_others(
        self, stretches: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        self.world.call()
        return {} if self.world.is_copied_back else stretches

    def topics(self, names: Collection[str]) -> Mapping[str, OldTopic]:
        self.world.call()
        if self.flow == THERE.flow and self.world.unlisted:
            if names and self.world.unlisted == "hidden":
                raise ClusterError(EAST, f"looking at the topic {min(names)}", "TOPIC_AUTHORIZATION_FAILED")
            return {}
        now = self.world.east_topic if self.flow == THERE.flow else "id there"
        return {} if now is None else {name: OldTopic(name, now, 1, 1, {}) for name in names if name == ORDERS.topic}

    def save_unmatched(self, names: Collection[str], directory: Path) -> Stranded:
        assert self.world.east_topic == "id here", "what is made anew has nothing that is to be saved"
        topics = self.topics(names)
        directory.mkdir()
        records = [Record(number, 0, None, b"", (), -1) for number in range(10, self.world.written[EAST])]
        file = save(directory, ORDERS, self.world.written[EAST], records)
        self.world.call()
        saved = Stranded(directory, tuple(topics.values()), (file,))
        seal(saved)
        self.world.saved.append(directory)
        self.world.call("save")
        return saved

    def save_group_positions(self, names: Collection[str], path: Path) -> int:
        self.world.call()
        path.write_text("".join(f"{group},{ORDERS.topic},0,{at}\n" for group, at in self.world.groups[EAST].items()))
        return len(self.world.groups[EAST])

    def save_stretches(self, stretches: Mapping[TopicPartition, tuple[int, int]], directory: Path) -> Stranded:
        directory.mkdir(parents=True)
        files = [
            save(directory, each, end, [Record(number, 0, None, b"", (), -1) for number in range(start, end)])
            for each, (start, end) in stretches.items()
        ]
        self.world.call()
        saved = Stranded(directory, (), tuple(files))
        seal(saved)
        self.world.call("save")
        return saved

    def not_copied_back(self) -> Mapping[TopicPartition, tuple[int, int]]:
        self.world.call()
        return self.world.not_copied_back.get(self.flow.target, {})

    def untold_since_cut(self) -> Mapping[TopicPartition, tuple[int, int]]:
        self.world.call()
        return self.world.untold

    def close_topics(self, topics: Collection[OldTopic]) -> None:
        self.world.is_closed = True
        if self.world.is_written_while_closed:
            self.world.written[EAST] += 1
        self.world.call("close")

    def open_topics(self, topics: Collection[OldTopic]) -> None:
        self.world.is_closed = self.world.is_closed and not topics
        self.world.call("open")

    def delete_topics(self, topics: Collection[OldTopic]) -> None:
        assert self.world.is_closed
        assert self.world.saved, "nothing is deleted that is not saved"
        assert [each.topic_id for each in topics] == ["id here"]
        self.world.east_topic, self.world.is_closed = None, False
        self.world.written[EAST] = self.world.copied[EAST] = 0
        self.world.call("delete")

    def create_topics(self, topics: Collection[OldTopic]) -> None:
        self.world.east_topic = self.world.east_topic or "id anew"
        self.world.call("create")

    def open_transactions(self) -> Sequence[str]:
        self.world.call()
        return self.world.open_transactions

    def writers(self) -> Writers:
        self.world.call()
        return self.world.writers

    def members(self, groups: Sequence[str]) -> Sequence[str]:
        self.world.call()
        stays = self.world.staying.groups if self.flow == HOME.flow else {}
        return [f"group {each}" for each in groups if self.flow.source in self.world.at_work or each in stays]

    def first_written(self, since_ms: int) -> int | None:
        self.world.call()
        return since_ms + 3 if self.world.shows_writes else None

    def idle_groups(self, groups: Collection[str], placed: Placed) -> Mapping[str, str]:
        self.world.call()
        assert all(placed[group] for group in groups), "it is told where they were put"
        return {group: self.world.resting[group] for group in groups if group in self.world.resting}

    def gone_on(self, placed: Placed) -> Sequence[str]:
        self.world.call()
        now = self.world.groups[self.flow.target]
        return [f"group {each} is elsewhere" for each, at in placed.items() if now.get(each, 99) > at[ORDERS]]

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        self.world.call()
        assert self.world.is_up[self.flow.source] or not ask_source
        self.world.planned_while_probing.append(self.world.is_probing)
        settings = THERE if self.flow == THERE.flow else HOME
        target = self.world.groups[self.flow.target]
        positions, decisions = [], []
        for group, at in sorted(self.world.groups[self.flow.source].items()):
            positions.append(TranslatedPosition(group, *ORDERS, at, Exact(at)))
            before = GroupPosition(target[group]) if group in target else None
            action = GroupAction.KEEP if target.get(group) == at else GroupAction.WRITE
            placed = Placement(group, ORDERS, at, at, at)
            decisions.append(GroupDecision(group, ORDERS, before, GroupPosition(at), action, "", placed))
        plan = MovePlan(settings, tuple(positions), tuple(decisions), self.world.refused)
        return plan.without(self.apart.groups)

    def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
        saved = tuple(SavedPosition(each.group, ORDERS, "", each.present, each.wanted) for each in plan.writes)
        if saved:
            GroupSnapshot(self.flow, "id", saved).save(snapshot)
            self.world.call()
        for each in plan.writes:
            self.world.groups[self.flow.target][each.group] = each.wanted.position
            self.world.call(f"write {each.group} on {self.flow.target}")
        return GroupMoves(plan.positions, len(plan.decisions))

    def restore_groups(self, snapshot: Path) -> Sequence[str]:
        for each in GroupSnapshot.load(snapshot).positions:
            if each.before is None:
                self.world.groups[self.flow.target].pop(each.group, None)
            else:
                self.world.groups[self.flow.target][each.group] = each.before.position
        self.world.call("restore")
        return []

    def pause(self) -> Cut:
        self.world.paused.add(self.flow)
        self.world.call(f"pause {self.flow}")
        return Cut(f"{self.flow} is paused", self.world.open_ends, self.world.limit)

    def open_closed(self, *, forgets: bool) -> str | None:
        self.world.call()
        if forgets and self.world.not_opened is None:
            self.world.closed = ()
        return self.world.not_opened

    def resume(self) -> str:
        if self.flow not in self.world.paused:
            return f"{self.flow} is not cut"
        self.world.paused.discard(self.flow)
        self.world.call(f"resume {self.flow}")
        return f"{self.flow} is copied again"

    def is_paused(self) -> bool:
        return self.is_cut()

    def is_cut(self) -> bool:
        self.world.call()
        return self.flow in self.world.paused

    def uncopied_of_deselected(self) -> Sequence[str]:
        return [f"no longer selected: {each}" for each in self.world.deselected]

    def verify(self, remember: Path | None = None) -> tuple[Verdict, str]:
        is_first = remember is not None and not remember.exists()
        if remember is not None:
            remember.write_text("compared")
        self.world.call("verify so far" if is_first else "verify the rest" if remember else "verify")
        return self.world.verdict_so_far if is_first else self.world.verdict, "compared"

    def put(self, entry: FailoverEntry) -> None:
        self.world.record[entry.run] = entry
        self.world.call()

    def take(self, run: str) -> None:
        self.world.record.pop(run, None)
        self.world.call()


@dataclass(frozen=True)
class StandInApplications:
    """Applications of the world: they write when they are started, and are not stopped where they are stubborn."""

    world: World

    def stop(self, cluster: str) -> Answer:
        if cluster not in self.world.stubborn:
            self.world.at_work.discard(cluster)
        self.world.call(f"stop on {cluster}")
        return Done("stopped") if self.world.is_told_of_stops else Unobserved("nobody is asked")

    def start(self, cluster: str) -> Answer:
        self.world.at_work.add(cluster)
        self.world.written[cluster] += 0 if self.world.only_reads else 1
        self.world.call(f"start on {cluster}")
        return Done("started")

    def first_write(self, cluster: str, since_ms: int) -> Answer:
        self.world.call()
        return Done("seen", since_ms + 1)

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        self.world.call()
        return dict.fromkeys(groups, Done("seen", since_ms + 2))


def move_of(world: World, directory: Path, *, mode: str = "planned", agreed: frozenset[str] | None = None) -> Move:
    """Return a move of the world's applications from east to west."""
    ends = StandInEnds(world, THERE.flow)
    return Move(
        ends,
        ends,
        StandInApplications(world),
        replace(ENTRY, mode=mode),
        directory,
        is_planned=mode == "planned",
        agreed=agreed,
        # A log is found to grow by looking twice.
        times=Times(quiet=0.05 if world.stubborn else 0.0, fence=0.3, drain=0.3, seen=0.0),
        now_ms=lambda: 100,
    )


def move_home(world: World, directory: Path) -> Move:
    """Return a move of the world's applications from west to east."""
    home = StandInEnds(world, HOME.flow)
    entry = FailoverEntry("home", "failback", Phase.RETURNING, "host:/home", 2)
    times = Times(quiet=0.0, fence=0.3, drain=0.3, seen=0.0)
    return Move(
        home,
        StandInEnds(world, THERE.flow),
        StandInApplications(world),
        entry,
        directory,
        is_planned=True,
        times=times,
        now_ms=lambda: 200,
    )
