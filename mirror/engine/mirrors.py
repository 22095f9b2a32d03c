"""Who else mirrors into the source of a flow, and which of their copies the flow leaves out (WANT-16, WANT-17).

What the flows of the file do is known from the file. What others do, with files of their own, is seen in the state
topics that they keep on the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import regex

from mirror.config.engine_keys import MirroredRecords
from mirror.config.replication_loops import edges_of, loop_problem
from mirror.config.settings import FlowSettings
from mirror.kafka.channel import Channel
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, RequestFailed
from mirror.kafka.writer_log import WriterLog
from mirror.model.counts import first_of
from mirror.model.flow import Flow
from mirror.model.loops import left_out
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import state_topic
from mirror.model.topics import DefaultReplicationPolicy
from mirror.model.writers import CopiedTopics, KnownWriters

_MOST_ALIASES = 5
_STATE_TOPIC = regex.compile(r"mm2-state\.(?<alias>.+)\.internal")


def state_topics(topics: Iterable[str]) -> frozenset[str]:
    """Return those of a cluster's topics in which flows into it keep their state."""
    return frozenset(name for name in topics if _STATE_TOPIC.fullmatch(name))


class WriterLogs:
    """The state topics of one cluster, followed for the producer ids recorded there."""

    def __init__(self, alias: str, client: Mapping[str, str]) -> None:
        """Connect when first asked."""
        self._alias = alias
        self._client = client
        self._channel: Channel | None = None
        self._logs: dict[str, WriterLog] = {}
        self._copied: dict[str, CopiedTopics] = {}

    @property
    def known(self) -> dict[str, KnownWriters]:
        """Return what was found so far, by state topic."""
        return {topic: log.known for topic, log in self._logs.items()}

    def copied(self, topic: str) -> Collection[str]:
        """Return the topics that the flow behind a state topic has copied to."""
        return self._copied[topic].names

    def same_offsets(self, topic: str) -> Mapping[TopicPartition, Position]:
        """Return how far the flow behind a state topic has copied to the source's offsets, by its source partitions."""
        return self._copied[topic].same_offsets if topic in self._copied else {}

    def catch_up(self, topics: Collection[str]) -> dict[str, Exception]:
        """Read on in these state topics; return those that cannot be read, and why.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be reached.
        """
        problems: dict[str, Exception] = {}
        try:
            if self._channel is None:
                self._channel = Channel(self._alias, self._client)
            for topic in sorted(topics):
                try:
                    if topic not in self._logs:
                        copied = self._copied[topic] = CopiedTopics()
                        self._logs[topic] = WriterLog(topic, copied=copied)
                    self._logs[topic].catch_up(self._channel)
                except RequestFailed as problem:
                    problems[topic] = problem
        except ConnectionFailed:
            self.close()
            raise
        return problems

    def close(self) -> None:
        """Close the connections."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class Mirrors:
    """What a flow leaves out of its source because other flows have mirrored it there."""

    def __init__(self, settings: FlowSettings, flows: Sequence[FlowSettings], target_id: str) -> None:
        """Judge for one of the enabled ``flows`` of a file; ``target_id`` is the id of the cluster it writes to."""
        self._settings = settings
        self._flows = flows
        self._target_id = target_id
        self._logs = WriterLogs(settings.flow.source, settings.source_consumer)
        self._denied: frozenset[str] = frozenset()
        self._returning: frozenset[str] = frozenset()
        self._by_topic: dict[str, tuple[frozenset[str], str | None]] = {}

    @property
    def known(self) -> Mapping[str, KnownWriters]:
        """Return the writers of other flows into the source, as far as known, by state topic."""
        return self._logs.known

    @property
    def is_concerned(self) -> bool:
        """Whether the names of topics may stay as they are."""
        is_default = isinstance(self._settings.policy, DefaultReplicationPolicy)
        return not is_default or self._settings.transforms.has_routers

    def look(self, topics: Collection[str]) -> tuple[str, ...]:
        """Look who mirrors into the source, which has these topics; return what is wrong with that.

        Raises
        ------
        ConnectionFailed
            if the source cannot be reached.
        """
        if not self.is_concerned:
            return ()
        flow = self._settings.flow
        back = state_topic(flow.target)
        problems = self._logs.catch_up(state_topics(topics) | {back})
        declared = {state_topic(each.flow.source) for each in self._flows if each.flow.target == flow.source}
        self._denied = frozenset(
            topic
            for topic, problem in problems.items()
            if topic not in declared and isinstance(problem, BrokerRefused) and problem.is_denied
        )
        self._returning = frozenset(
            topic for topic, known in self.known.items() if known.source_id == self._target_id and topic != back
        )
        if not any(self._settings.keeps_name(name) for name in topics):
            return ()
        return (*self._unread(problems), *self._misnamed(), *self._undeclared(declared | {back}))

    def left_out(self, topic: str) -> tuple[str, ...]:
        """Return the state topics, on the source, of the flows whose copies in ``topic`` are not copied on.

        None of them for a copy with the source's offsets, unless ``skip`` asks for it: there a record that is at the
        target already has its own offset, and what is made anew after a failover would lack all that was mirrored.
        """
        choice = self._settings.mirrored_records
        names, _ = self._judged(topic)
        if not names or (choice is not MirroredRecords.SKIP and self._settings.pad_limit(topic) is not None):
            return ()
        topics = names | self._returning
        if choice is MirroredRecords.SKIP:
            topics |= self.known.keys()
        return tuple(sorted(topics - self._denied))

    def flow_back(self, topic: str) -> FlowSettings | None:
        """Return the flow that has a topic copied both ways to the same offsets, under the same name; None: none."""
        if not self._settings.keeps_name_and_offsets(topic):
            return None
        back = Flow(self._settings.flow.target, self._settings.flow.source)
        found = (each for each in self._flows if each.enabled and each.flow == back)
        return next((each for each in found if each.keeps_name_and_offsets(topic)), None)

    def is_two_way(self, topic: str) -> bool:
        """Tell whether the file has a topic copied both ways to the same offsets, under the same name."""
        return self.flow_back(topic) is not None

    def written_back(self, topic: str) -> Collection[int]:
        """Return the producer ids with which the flow back writes ``topic`` to the same offsets; none: it does not."""
        known = self.known.get(state_topic(self._settings.flow.target))
        return known.writers if known is not None and self.is_two_way(topic) else ()

    @property
    def copied_back(self) -> Mapping[TopicPartition, Position]:
        """Return how far the flow back has copied to the same offsets, by partitions of the target."""
        return dict(self._logs.same_offsets(state_topic(self._settings.flow.target)))

    def loop_problem(self, topic: str) -> str | None:
        """Return why ``topic`` must not be copied: its records would go round; None if they would not."""
        return self._judged(topic)[1]

    def has_way_back(self, topic: str) -> bool:
        """Tell whether the records that are produced on the target are mirrored to the source, in the same topic."""
        return any(
            each.flow.source == self._settings.flow.target
            and each.flow.target == self._settings.flow.source
            and each.keeps_name(topic)
            for each in self._flows
        ) or any(self.known[name].writers for name in self._judged(topic)[0] & self.known.keys())

    def was_mirrored_back(self, topic: str) -> bool:
        """Tell whether records of the target were ever mirrored to this topic of the source, by whatever file."""
        back = self._returning | ({state_topic(self._settings.flow.target)} & self.known.keys())
        return any(topic in self._logs.copied(name) for name in back)

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()

    def _judged(self, topic: str) -> tuple[frozenset[str], str | None]:
        """Return the state topics of the flows whose copies are left out, and why the topic cannot be copied."""
        if topic not in self._by_topic:
            flow = self._settings.flow
            if self.is_concerned and self._settings.keeps_name(topic):
                edges = edges_of(topic, self._flows)
                names = frozenset(map(state_topic, left_out(flow, edges)))
                self._by_topic[topic] = names, loop_problem(topic, flow, edges)
            else:
                self._by_topic[topic] = frozenset(), None
        return self._by_topic[topic]

    def _unread(self, problems: Mapping[str, Exception]) -> list[str]:
        flow = self._settings.flow
        messages = [f"who mirrors into {flow.source} is not known: {problem}" for problem in problems.values()]
        if self._denied and self._settings.mirrored_records is MirroredRecords.FORWARD:
            return []
        return [
            f"{each}; grant READ on {', '.join(problems)}, or, if nothing is mirrored there, set "
            f"{flow}.mirror.mirrored.records = forward"
            for each in messages
        ]

    def _misnamed(self) -> list[str]:
        flow, aliases = self._settings.flow, [_alias(each) for each in sorted(self._returning)]
        if not aliases:
            return []
        message = (
            f"other files call the cluster {flow.target} {first_of(aliases, _MOST_ALIASES)}: what their engines mirror "
            f"into {flow.source} is not copied back, but for what was read before this was seen; give the cluster one "
            f"name in all files (said as long as {flow.source} has the state topic that such an engine keeps there)"
        )
        return [message]

    def _undeclared(self, declared: Collection[str]) -> list[str]:
        flow = self._settings.flow
        if self._settings.mirrored_records is not MirroredRecords.AUTO:
            return []
        return [
            f"an engine with another file mirrors from {_alias(topic)} into {flow.source}, and its copies go on to "
            f"{flow.target} under unchanged names, wherever else they go: name the flow {_alias(topic)}->{flow.source} "
            f"in this file too, or say what is wanted: {flow}.mirror.mirrored.records = forward, or skip"
            for topic, known in sorted(self.known.items())
            if known.writers and topic not in declared and topic not in self._returning
            if any(map(self._settings.keeps_name, self._logs.copied(topic)))
        ]


def _alias(topic: str) -> str:
    match = _STATE_TOPIC.fullmatch(topic)
    return match["alias"] if match else topic
