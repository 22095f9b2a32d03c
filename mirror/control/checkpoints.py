"""Checkpoints: the positions of the source's groups, translated to the target and written where failover finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mirror.config.settings import FlowSettings
from mirror.control.tick import Appender, Clock, TickReport, now_ms, run_tick
from mirror.control.unread import unread
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster, GroupPosition
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition
from mirror.model.translation import Bounded, Exact, NotMirrored, TooOld, Translation, Translator, describe

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
        what it is on the target, or why that cannot be told.
    checkpoint
        what a checkpoint says of it now, None if there is none to be had.
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


class RecordTail(Protocol):
    """Who follows a topic; :class:`mirror.kafka.log.LogTail` is one."""

    def poll(self) -> list[Record]:
        """Return every record appended since the last poll, the first time from the beginning on."""
        ...


def plan_checkpoints(
    positions: Mapping[str, Mapping[TopicPartition, GroupPosition]],
    last: Checkpoints,
    translator: Translator,
    settings: FlowSettings,
) -> tuple[CheckpointDecision, ...]:
    """Return, for every position of the groups on a topic that passes the topic filter, what becomes of it.

    Only the topic filter counts here, not the rules on internal topics, heartbeats and cycles (SEL-10).
    """
    return tuple(
        _decide(group, source, position, last, translator, settings)
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


def last_checkpoints(records: Iterable[Record], known: Checkpoints | None = None) -> Checkpoints:
    """Return ``known`` with what newer records of the checkpoints topic say; malformed ones are skipped (CKP-03)."""
    last = dict(known or {})
    for record in records:
        checkpoint = Checkpoint.parse(record.key, record.value)
        if checkpoint is not None:
            last[checkpoint.group, checkpoint.topic_partition] = checkpoint
    return last


class CheckpointsTick:
    """Reads the source's groups, translates their positions and writes the checkpoints that are news.

    ``decisions`` are those of the last round that got so far; ``latest`` is what the checkpoints topic says now.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        translator: Translator,
        checkpoints: RecordTail,
        target: Appender,
        clock: Clock = now_ms,
        *,
        before_translating: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow ``checkpoints``, the checkpoints topic, and append to it on ``target``.

        Parameters
        ----------
        before_translating
            called when the positions are read, so that none is ahead of what the translator knows to be copied.
        """
        self._settings = settings
        self._source = source
        self._translator = translator
        self._checkpoints = checkpoints
        self._target = target
        self._clock = clock
        self._before_translating = before_translating
        self._groups: tuple[str, ...] | None = None
        self.latest: Checkpoints = {}
        self.decisions: tuple[CheckpointDecision, ...] = ()

    def tick(self) -> TickReport:
        """Run one round; groups that cannot be read are problems, the others get their checkpoints."""
        return run_tick(f"checkpoints {self._settings.flow}", self._clock, self._round)

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        # Read each round, not only at the start: a Java MirrorMaker that ran meanwhile has written here too.
        self.latest = last_checkpoints(self._checkpoints.poll(), self.latest)
        positions = self._source.positions_of_groups(self._selected_groups())
        self._before_translating()
        self.decisions = plan_checkpoints(positions, self.latest, self._translator, self._settings)
        news = [each.checkpoint for each in self.decisions if each.is_news and each.checkpoint is not None]
        if news:
            records = [(each.key_bytes(), each.value_bytes(), (), at_ms) for each in news]
            self._target.append(self._settings.checkpoints_topic, 0, records)
            self.latest = {**self.latest, **{(each.group, each.topic_partition): each for each in news}}
        return len(news), unread(positions, self._settings.flow.source)

    def _selected_groups(self) -> tuple[str, ...]:
        """Return the consumer groups on the source that pass the group filter (CKP-01, GOS-09)."""
        if self._groups is None or self._settings.refresh_groups:
            self._groups = tuple(
                listing.group
                for listing in self._source.groups()
                if listing.is_consumer_group and self._settings.group_filter.matches(listing.group)
            )
        return self._groups


def _decide(
    group: str,
    source: TopicPartition,
    position: GroupPosition,
    last: Checkpoints,
    translator: Translator,
    settings: FlowSettings,
) -> CheckpointDecision:
    target = remote_partition(source, settings)
    translation = translator.translate(source, position.position)
    previous = last.get((group, target))

    def decision(checkpoint: Checkpoint | None, is_news: bool, reason: str) -> CheckpointDecision:
        return CheckpointDecision(group, source, target, position.position, translation, checkpoint, is_news, reason)

    match translation:
        case TooOld() | NotMirrored():
            return decision(None, False, describe(translation))
        case Exact(downstream) | Bounded(downstream):
            checkpoint = Checkpoint(group, target, position.position, downstream, position.metadata)
            return decision(checkpoint, *checkpoint.is_news_after(previous))
