"""Checkpoints: the positions of the source's groups, translated to the target and written where failover finds them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TypeAlias

from mirror.config.settings import FlowSettings
from mirror.control.checkpoint_copies import CheckpointCopies
from mirror.control.group_kinds import unmirrored_groups
from mirror.control.group_translator import GroupTranslator
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.control.unknown_positions import unknown_positions
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.log import LogWriter
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import ClusterError
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord
from mirror.model.state_values import checkpointed_record
from mirror.model.translation import Bounded, Exact, NothingRead, NotMirrored, TooOld, Translation, describe

# The last checkpoint by group and partition on the target.
Checkpoints: TypeAlias = Mapping[tuple[str, TopicPartition], Checkpoint]


@dataclass(frozen=True, slots=True)
class CheckpointDecision:
    """What becomes of one committed position of one group.

    Attributes
    ----------
    group, source, target
        whose position, where on the source, and which partition of the target that is.
    position
        as committed on the source.
    translation
        what it is on the target, or why that cannot be known.
    checkpoint
        what a checkpoint says of it now, None if there is none.
    is_news
        whether that checkpoint is to be written (CKP-05).
    reason
        why it is written or not.
    """

    group: str
    source: TopicPartition
    target: TopicPartition
    position: int
    translation: Translation
    checkpoint: Checkpoint | None
    is_news: bool
    reason: str


def plan_checkpoints(
    positions: Mapping[str, Mapping[TopicPartition, GroupPosition]],
    last: Checkpoints,
    translator: GroupTranslator,
    settings: FlowSettings,
    is_current: Callable[[Checkpoint], bool] = lambda _: True,
) -> tuple[CheckpointDecision, ...]:
    """Return, for every position of the groups on a topic that passes the topic filter, what becomes of it.

    Only the topic filter counts here, not the rules on internal topics, heartbeats and cycles (SEL-10). After a last
    checkpoint that is not of the present copy, by ``is_current``, any other one is news: also a lower one.
    """
    return tuple(
        _decide(group, source, position, last, translator, settings, is_current)
        for group, committed in sorted(positions.items())
        for source, position in sorted(committed.items())
        if settings.topic_filter.matches(source.topic)
    )


def remote_partition(source: TopicPartition, settings: FlowSettings) -> TopicPartition:
    """Return the partition on the target that a group reading ``source`` goes on with (CKP-07).

    The copy, wherever transforms send it, or, for a topic that came from the target itself, the original there.
    """
    policy, flow = settings.policy, settings.flow
    if policy.topic_source(source.topic) == flow.target:
        return TopicPartition(policy.original_topic(source.topic), source.partition)
    return TopicPartition(settings.copy_of(source.topic), source.partition)


def rereads(decisions: Iterable[CheckpointDecision], last: Checkpoints) -> dict[str, int]:
    """Return by group how many records of the copies it would be handed again if it went on by its last checkpoints.

    Of a group that has none yet, or whose position cannot be translated now, nothing is known, so it is left out.
    """
    found: dict[str, int] = {}
    for each in decisions:
        before = last.get((each.group, each.target))
        if each.checkpoint is not None and before is not None:
            behind = each.translation.behind_records if isinstance(each.translation, Bounded) else 0
            more = max(0, each.checkpoint.downstream + behind - before.downstream)
            found[each.group] = found.get(each.group, 0) + more
    return found


def last_checkpoints(records: Sequence[Record], known: Checkpoints | None = None) -> Checkpoints:
    """Return ``known`` with what newer records of the checkpoints topic say; malformed ones are skipped (CKP-03)."""
    found: dict[tuple[str, TopicPartition], Checkpoint] = {}
    read: set[bytes | None] = set()
    # From the end: of each position the last record counts, and most of a topic are those before it.
    for record in reversed(records):
        if record.key in read:
            continue
        checkpoint = Checkpoint.parse(record.key, record.value)
        if checkpoint is not None:
            read.add(record.key)
            where = checkpoint.group, checkpoint.topic_partition
            found.setdefault(where, replace(checkpoint, offset=record.offset, at_ms=record.timestamp))
    return {**(known or {}), **dict(reversed(found.items()))}


@dataclass(eq=False, repr=False)
class CheckpointsTick:
    """Reads the source's groups, translates their positions and writes the checkpoints that are news.

    ``decisions`` are those of the last round that got so far; ``latest`` is what the checkpoints topic says now.

    Follow ``checkpoints``, the checkpoints topic, and append to it on ``target``.

    Attributes
    ----------
    before_translating
        called when the positions are read, so that none is ahead of what the translator knows to be copied.
    copies, record
        tells checkpoints of earlier copies, and puts into the flow's state what it tells them by.
    written
        is told of which groups and partitions checkpoints were written, and how many ms after the listing.
    found
        is told what `rereads` says of the groups, before that.
    notes
        returns what people should know of the positions, where there are any.
    """

    settings: FlowSettings
    source: Cluster
    translator: GroupTranslator
    checkpoints: LogTail
    target: LogWriter
    clock: Clock = now_ms
    _: KW_ONLY
    before_translating: Callable[[], None] = lambda: None
    copies: CheckpointCopies | None = None
    record: Callable[[Sequence[StateRecord]], None] = lambda _: None
    written: Callable[[Collection[tuple[str, TopicPartition]], float], None] = lambda *_: None
    found: Callable[[Mapping[str, int]], None] = lambda _: None
    notes: Callable[[], Sequence[str]] = tuple
    _groups: tuple[str, ...] | None = field(default=None, init=False)
    _unmirrored: tuple[str, ...] = field(default=(), init=False)
    # What the checkpoints topic has lost, to be written again.
    _lost: Checkpoints = field(default_factory=dict, init=False)
    latest: Checkpoints = field(default_factory=dict, init=False)
    decisions: tuple[CheckpointDecision, ...] = field(default=(), init=False)

    def writable(self) -> list[Checkpoint]:
        """Return the checkpoints by which groups may be moved on the target: those of what they read on the source."""
        put_at = {
            (each.group, remote_partition(each.partition, self.settings)): each.written
            for each in self.translator.placements()
        }
        return [
            checkpoint
            for key, checkpoint in self.latest.items()
            if checkpoint.upstream > put_at.get(key, -1) and (self.copies is None or self.copies.is_current(checkpoint))
        ]

    def tick(self) -> TickReport:
        """Run one round; groups that cannot be read are problems, the others get their checkpoints."""
        report = run_tick(f"checkpoints {self.settings.flow}", self.clock, self._round)
        return replace(report, notes=(*self._unmirrored, *(self.notes() if self.decisions else ())))

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        # Read each round, not only at the start: a Java MirrorMaker that ran meanwhile has written here too.
        self._follow()
        groups, problems = self._selected_groups()
        positions = self.source.positions_of_groups(groups)
        self.before_translating()
        is_current = self.copies.is_current if self.copies else lambda _: True
        self.decisions = plan_checkpoints(positions, self.latest, self.translator, self.settings, is_current)
        news = {
            (each.group, each.target): each.checkpoint
            for each in self.decisions
            if each.is_news and each.checkpoint is not None
        }
        if self.copies is not None:
            for key, old in self.latest.items():
                # Also of groups that the source has no more: by their checkpoints applications go on elsewhere.
                if key not in news and not is_current(old) and (lowered := self.copies.lowered(old)) is not None:
                    news[key] = lowered
        news |= {key: replace(each, offset=None) for key, each in self._lost.items() if key not in news}
        self.found(rereads(self.decisions, self.latest))
        self._write(news, at_ms)
        self._lost = {}
        self.written(news, self.clock() - at_ms)
        return len(news), (*problems, *unknown_positions(positions, self.settings.flow.source))

    def _follow(self) -> None:
        """Take in what the checkpoints topic says; of what it has lost, the checkpoints of present copies count on."""
        known, records = self.latest, self.checkpoints.poll()
        if self.checkpoints.loss is None:
            self.latest = last_checkpoints(records, known)
            return
        self.latest = last_checkpoints(records)
        self.checkpoints.loss = None
        self._lost = {
            key: each
            for key, each in {**known, **self._lost}.items()
            if self.latest.get(key) != each and (self.copies is None or self.copies.is_current(each))
        }

    def _write(self, news: Checkpoints, at_ms: int) -> None:
        if not news:
            return
        since = 0
        if self.copies is not None:
            since = max((each.offset for each in self.latest.values() if each.offset is not None), default=-1) + 1
            self._put_on_record(self.copies, news, since)
        records = [(each.key_bytes(), each.value_bytes(), (), at_ms) for each in news.values()]
        first = self.target.append(self.settings.checkpoints_topic, 0, records)
        if self.copies is not None and first < since:
            # The topic was deleted, or truncated, since it was read.
            self._put_on_record(self.copies, news, first)
        written = {key: replace(each, offset=first + number) for number, (key, each) in enumerate(news.items())}
        self.latest = {**self.latest, **written}

    def _put_on_record(self, copies: CheckpointCopies, news: Checkpoints, since: int) -> None:
        if found := copies.unrecorded((target for _, target in news), since):
            self.record([checkpointed_record(each) for each in found])
            self.before_translating()

    def _selected_groups(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the consumer groups on the source that pass the group filter (CKP-01, GOS-09), and what is wrong.

        While a broker does not say which groups it has, those that were listed before go on.
        """
        if self._groups is not None and not self.settings.refresh_groups:
            return self._groups, ()
        try:
            listed = self.source.groups()
        except ClusterError as problem:
            if self._groups is None:
                raise
            return self._groups, (f"groups that are new are not looked for: {problem}",)
        self._groups = tuple(
            listing.group
            for listing in listed
            if listing.is_consumer_group and self.settings.group_filter.matches(listing.group)
        )
        self._unmirrored = unmirrored_groups(listed, self.settings)
        return self._groups, ()


def _decide(
    group: str,
    source: TopicPartition,
    position: GroupPosition,
    last: Checkpoints,
    translator: GroupTranslator,
    settings: FlowSettings,
    is_current: Callable[[Checkpoint], bool],
) -> CheckpointDecision:
    target = remote_partition(source, settings)
    translation = translator.translate(group, source, position.position)
    previous = last.get((group, target))

    def decision(checkpoint: Checkpoint | None, is_news: bool, reason: str) -> CheckpointDecision:
        return CheckpointDecision(group, source, target, position.position, translation, checkpoint, is_news, reason)

    match translation:
        case TooOld(oldest) if previous is not None and is_current(previous) and position.position < previous.upstream:
            # It was set back to before all that is copied: who goes on by the one before would pass what it is to read.
            begin = translator.translate(group, source, oldest)
            if not isinstance(begin, Exact | Bounded) or begin.downstream >= previous.downstream:
                return decision(None, False, describe(translation))
            checkpoint = Checkpoint(group, target, position.position, begin.downstream, position.metadata)
            return decision(checkpoint, True, f"{describe(translation)}; the copy begins at {begin.downstream}")
        case TooOld() | NotMirrored():
            return decision(None, False, describe(translation))
        case Exact() | Bounded() | NothingRead():
            downstream = translation.restart if isinstance(translation, NothingRead) else translation.downstream
            checkpoint = Checkpoint(group, target, position.position, downstream, position.metadata)
            if previous is not None and not is_current(previous):
                why = f"the one before, {previous.downstream}, is of an earlier copy or an earlier source"
                return decision(checkpoint, True, why)
            return decision(checkpoint, *checkpoint.is_news_after(previous))
