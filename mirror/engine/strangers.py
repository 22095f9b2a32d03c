"""Finds out who has written into a flow's copies besides mirrors, wherever the copy has met somebody else's batches."""

from __future__ import annotations

from collections.abc import Sequence, Set

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.foreign import find_foreign
from mirror.control.tick import Appender, TickReport, now_ms, run_tick
from mirror.engine.mirrors import WriterLogs, state_topics
from mirror.engine.standing import FlowStanding
from mirror.kafka.channel import BrokerRefused, Channel, ConnectionFailed, LeaderUnknown
from mirror.kafka.cluster import Cluster
from mirror.model.flow_state import ForeignWriter, state_topic
from mirror.model.partition import TopicPartition

# So many stretches a round at most.
_STRETCHES = 100


class Strangers:
    """Reads the headers of what lies between the batches of a flow, and writes down whose they are."""

    def __init__(
        self, settings: FlowSettings, standing: FlowStanding, log: FlowLog, target: Cluster, writer: Appender
    ) -> None:
        """Look at what the copy leaves in ``standing``; ``log`` is the flow's state."""
        self._settings = settings
        self._standing = standing
        self._log = log
        self._target = target
        self._writer = writer
        self._client = settings.clients.checkpoints_consumer
        self._mirrors = WriterLogs(settings.flow.target, self._client)
        self._channel: Channel | None = None

    def tick(self) -> TickReport:
        """Run one round; what cannot be read is tried again."""
        return run_tick(f"foreign writers {self._settings.flow}", now_ms, self._round)

    def close(self) -> None:
        """Close the connections."""
        self._mirrors.close()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _round(self, at_ms: int) -> tuple[int, Sequence[str]]:
        copies = {source: copy for source, copy, *_ in self._standing.partitions}
        self._pardon({copy for source, copy in copies.items() if source.topic not in self._standing.watched})
        others = self._standing.others
        if not others:
            return 0, ()
        # All flows into the target: several may share a topic.
        problems = self._mirrors.catch_up(state_topics(self._target.topics()))
        if problems:
            return 0, [f"who mirrors into {self._target.alias} is not known: {each}" for each in problems.values()]
        mirrors = frozenset[int]().union(*(known.writers for known in self._mirrors.known.values()))
        found = dict(self._log.state.foreign)
        news: dict[tuple[TopicPartition, int], ForeignWriter] = {}
        said = []
        for _ in range(min(_STRETCHES, len(others))):
            source, stretch = others.popleft()
            copy = copies.get(source)
            is_watched = source.topic in self._standing.watched
            own = self._log.state.writers
            if copy is None or not (is_watched or own):
                continue
            try:
                if self._channel is None:
                    self._channel = Channel(self._target.alias, self._client)
                news |= find_foreign(
                    self._channel, copy, stretch, mirrors if is_watched else None, found | news, at_ms, own
                )
            except (BrokerRefused, LeaderUnknown, ConnectionFailed) as problem:
                if not (isinstance(problem, BrokerRefused) and problem.is_gone):
                    # Behind the others: those are looked at meanwhile.
                    others.append((source, stretch))
                start, end = stretch
                said.append(
                    f"{copy} has something at offsets {start} to {end - 1} that this flow did not write: {problem}"
                )
        if news:
            self._writer.append(
                state_topic(self._settings.flow.source), 0, [(*each.record(), (), at_ms) for each in news.values()]
            )
        return len(news), said

    def _pardon(self, shared: Set[TopicPartition]) -> None:
        """Forget who was told to have written where, as is known by now, records of the target's own belong.

        A flow back may begin, or be seen, only after this one.
        """
        own = self._log.state.writers
        gone = [
            each for each in self._log.state.foreign.values() if each.copy in shared and each.producer_id not in own
        ]
        if gone:
            records = [(*each.no_record(), (), now_ms()) for each in gone]
            self._writer.append(state_topic(self._settings.flow.source), 0, records)
