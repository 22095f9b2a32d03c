"""Connections of one process to one cluster: bootstrap and security by kafka-python, hot frames on its sockets.

kafka-python connects and authenticates, then hands over the socket: from there on frames are read and written here,
without its parser. Requests that are not hot (metadata, offsets, producer ids) stay with kafka-python.

Invariants:

(a) A connection that was handed over is never polled by kafka-python again. Each hot connection has a selector of its
    own.
(b) Who reads, or appends, through a channel shares its connections; what was interrupted closes the connection, or the
    next one would get its answer.
"""

from __future__ import annotations

import contextlib
import enum
import math
import random
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import kafka.errors
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.producer import InitProducerIdRequest

from mirror.kafka import codes
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import Producer
from mirror.kafka.client_logging import keep_client_quiet
from mirror.kafka.connecting import Connections, EventLoop, diagnosed, explained, in_words, is_refusal
from mirror.kafka.connection import Connection, framed
from mirror.kafka.metadata import Metadata, metadata_request
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderAway, LeaderUnknown, RequestFailed
from mirror.kafka.security import arguments_of
from mirror.kafka.versions import INIT_PRODUCER_ID, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, Versions
from mirror.model.grouped import grouped
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition
from mirror.waiting import last_seen

EARLIEST, LATEST = -2, -1
T = TypeVar("T")
_REQUEST_MS = 10_000
_LONGEST_RECONNECT_BACKOFF_MS = 1_000
# The metadata of some ten thousand topics.
_LARGEST_ANSWER = 100_000_000
_LOADING_SECONDS = 10.0
# An election behind a broker's crash takes some seconds (broker.session.timeout.ms is 9 s), and who has been elected
# takes a moment until it answers as the leader.
_ELECTION_SECONDS = 15.0
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_DESCRIBE_VERSION = 1


class View(enum.Enum):
    """Whose end of a log is meant; the value is (replica id, isolation level) of the request."""

    #: What readers see: replicated to every replica in sync.
    VISIBLE = (-1, 0)
    #: What readers of committed data see: nothing behind the start of a transaction that is still open.
    STABLE = (-1, 1)
    #: All that the leader has written, replicated or not.
    WRITTEN = (-2, 0)


class Channel:
    """One process's way to one cluster: leaders, offsets, producer ids, and hot connections to its brokers.

    Not to be shared between threads.
    """

    def __init__(
        self,
        alias: str,
        client: Mapping[str, str],
        *,
        bootstrap_ms: int = 10_000,
        metadata: Metadata | None = None,
        election_seconds: float = _ELECTION_SECONDS,
    ) -> None:
        """Connect to the cluster called ``alias`` with Java client properties.

        What it learns of the cluster goes to ``metadata``, which may be known already. While leaders are being elected
        they are asked again for ``election_seconds``.

        Raises
        ------
        ConnectionFailed
            if none of the bootstrap servers answers within ``bootstrap_ms``.
        """
        keep_client_quiet()
        self.alias = alias
        self._election_seconds = election_seconds
        self._arguments = {
            **arguments_of(alias, client),
            "request_timeout_ms": _REQUEST_MS,
            "reconnect_backoff_max_ms": _LONGEST_RECONNECT_BACKOFF_MS,
            "receive_message_max_bytes": _LARGEST_ANSWER,
        }
        self._bootstrap_ms = bootstrap_ms
        # The bootstrap server that answered last.
        self._answered = ""
        self._net, self._manager = self._bootstrap()
        self._metadata = Metadata() if metadata is None else metadata
        self._kept: dict[tuple[int, Versions], Connection] = {}

    def leader(self, partition: TopicPartition) -> int:
        """Return the node that leads a partition, asking the cluster when it is not known.

        Raises
        ------
        LeaderUnknown
            if the cluster names none.
        """
        self.learn_leaders([partition])
        node = self._metadata.leader(partition)
        if node is None:
            raise LeaderUnknown(f"{self.alias}: {partition} has no leader")
        return node

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of the leader that :meth:`leader` returns, -1 if the cluster did not tell."""
        return self._metadata.leader_epoch(partition)

    def topic_id(self, topic: str) -> str:
        """Return the id a topic had when its leaders were last asked for, in Kafka's own spelling; empty if none."""
        return self._metadata.topic_id(topic)

    def has_topic(self, topic: str) -> bool:
        """Ask the cluster whether it has a topic.

        Raises
        ------
        BrokerRefused
            if it does not tell: the topic may not be seen, or it has an error of another kind.
        ConnectionFailed
            if no broker can be reached.
        """
        self.refresh([topic])
        code = self._metadata.topic_error(topic)
        if code in (0, codes.LEADER_NOT_AVAILABLE):
            return True
        if code == codes.UNKNOWN_TOPIC:
            return False
        raise BrokerRefused(f"{self.alias}: topic {topic}", code, "Describe on the topic")

    def absent(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Ask the cluster which of some partitions it does not have: a topic that was created anew may have fewer.

        Those of a topic that it does not tell of, for want of a right, are none of them: they may be there.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        if partitions:
            self.refresh({each.topic for each in partitions})
        return frozenset(each for each in partitions if self._metadata.lacks(each))

    def leaderless(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Ask the cluster which of the partitions that it has are led by nobody.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        self.refresh({each.topic for each in partitions})
        return frozenset(
            each
            for each in partitions
            if each.partition < self._metadata.partition_count(each.topic) and self._metadata.leader(each) is None
        )

    def learn_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask, in one request, who leads those of ``partitions`` whose leader is not known."""
        unknown = {partition.topic for partition in partitions if self._metadata.leader(partition) is None}
        if unknown:
            self.refresh(unknown)

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask the cluster anew who leads the partitions of these topics."""
        wanted = sorted(set(topics))
        answer = self.call(metadata_request(wanted))
        # Brokers come and go: whom to ask follows the same answer.
        self._manager.cluster.update_metadata(answer)
        self._metadata.take_in(wanted, answer)

    def forget_leaders(self, topics: Iterable[str] | None = None) -> None:
        """Ask again who leads the partitions of these topics, or of all, before they are used next."""
        self._metadata.forget(topics)

    def offsets(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> dict[TopicPartition, int]:
        """Return start offsets (``at=EARLIEST``) or end offsets (``at=LATEST``) of partitions.

        ``at`` may be a time, in ms since the epoch: of the first record that is not older; -1: there is none.

        A leader that has just been elected is asked again for some seconds.

        Raises
        ------
        KafkaProblem
            if any of them cannot be known: a list that could be short is not returned.
        """
        return self.offsets_once_led(partitions, at, view).whole()

    def offsets_once_led(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> PartitionAnswers[int]:
        """Return what :meth:`find_offsets` does; while leaders are being elected it is asked again for some seconds.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        wanted = list(partitions)
        return last_seen(
            lambda: self.find_offsets(wanted, at, view),
            f"the leaders of {self.alias}",
            timeout_seconds=self._election_seconds,
            until=lambda found: not any(_is_election(problem) for problem in found.problems.values()),
        )

    def find_offsets(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> PartitionAnswers[int]:
        """Return the offsets that can be known, as :meth:`offsets` does, and of the other partitions why not.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        return self.ask_leaders(
            "offsets",
            list(partitions),
            lambda node, led: offsets_answered(self.call(offsets_request(led, at, view), node)),
        )

    def find_epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> PartitionAnswers[EpochEnd | None]:
        """Return of each partition the newest leader epoch not newer than the given one, and where it ends in the log.

        None where the log has no such epoch; of partitions that cannot be asked about, why not.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        return self.ask_leaders(
            "leader epochs", list(epochs), lambda node, led: self._epoch_ends(node, {one: epochs[one] for one in led})
        )

    def ask_leaders(
        self,
        what: str,
        wanted: Sequence[TopicPartition],
        ask: Callable[[int, Sequence[TopicPartition]], Iterable[tuple[TopicPartition, int, T]]],
    ) -> PartitionAnswers[T]:
        """Ask every leader of ``wanted`` about the partitions it leads.

        Parameters
        ----------
        what
            is asked for, in words for people.
        ask
            is given a broker and what it leads, and returns of each partition the error code (0 for none) and answer.

        Returns
        -------
        the answers, and of the other partitions why there is none

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        self.learn_leaders(wanted)
        found: PartitionAnswers[T] = PartitionAnswers()
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            leader = self._metadata.leader(partition)
            if leader is not None:
                by_node.setdefault(leader, []).append(partition)
            else:
                found.problems[partition] = self._without_leader(what, partition)
        failures: list[ConnectionFailed] = []
        for node, led in by_node.items():
            try:
                answers = list(ask(node, led))
            except ConnectionFailed as failure:
                failures.append(failure)
                self.forget_leaders({partition.topic for partition in led})
                found.problems |= {each: LeaderAway(f"{self.alias}: the leader of {each}: {failure}") for each in led}
                continue
            for partition, code, answer in answers:
                if code:
                    self._metadata.forget_partition(partition)
                    found.problems[partition] = BrokerRefused(
                        f"{self.alias}: {what} of {partition}", code, "Describe on the topic"
                    )
                else:
                    found[partition] = answer
        if failures and len(failures) == len(by_node):
            raise failures[0]
        return found

    def _without_leader(self, what: str, partition: TopicPartition) -> RequestFailed:
        code = self._metadata.topic_error(partition.topic)
        if code in codes.DENIED:
            return BrokerRefused(f"{self.alias}: {what} of {partition}", code, "Describe on the topic")
        return LeaderUnknown(f"{self.alias}: {partition} has no leader")

    def new_producer(self) -> Producer:
        """Ask for a producer id of our own (idempotent, not transactional).

        Raises
        ------
        BrokerRefused
            if the cluster gives none; while it is still loading it is asked again for some seconds.
        """
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
            max_version=INIT_PRODUCER_ID.newest,
        )
        answer = last_seen(
            lambda: self.call(request),
            "a producer id",
            timeout_seconds=_LOADING_SECONDS,
            until=lambda answer: not codes.is_retriable(answer.error_code),
        )
        if answer.error_code:
            needed = "IdempotentWrite on the cluster, or Write on a topic"
            raise BrokerRefused(f"{self.alias}: a producer id", answer.error_code, needed)
        return Producer(answer.producer_id, answer.producer_epoch)

    def call(self, request: Any, node: int | None = None) -> Any:
        """Send a request of kafka-python's and return its answer.

        The request must be one that may be asked twice: that an idle connection is dead shows only when it is used.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached or does not answer in time.
        """

        async def ask() -> Any:
            return await self._manager.send(request, node_id=node)

        try:
            with contextlib.suppress(kafka.errors.KafkaConnectionError):
                return self._net.run(ask)
            return self._net.run(ask)
        except (kafka.errors.KafkaError, OSError) as error:
            raise ConnectionFailed(f"{self.alias}: {self._error_message(error)}", self.alias) from error

    def connect(self, node: int, needed: Iterable[Versions]) -> Connection:
        """Open one more connection to a broker, for the hot frames of ``needed``.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached, or does not offer what is needed.
        """
        # A selector of its own: once its socket is handed over it is never polled again.
        net, manager = self._bootstrap()

        def release() -> None:
            manager.close()
            net.close()

        async def reach() -> Any:
            connection = manager.get_connection(node)
            await connection
            return connection

        try:
            reached = net.run(reach)
            reached.transport.pause_reading()
            seconds = reached._reauth.session_lifetime_ms / 1000 or math.inf
            connection = Connection(self.alias, node, reached.transport._sock, release, seconds)
            connection.require(needed)
        except ConnectionFailed:
            release()
            raise
        except (kafka.errors.KafkaError, OSError) as error:
            release()
            raise ConnectionFailed(f"{self.alias}, broker {node}: {self._error_message(error)}", self.alias) from error
        return connection

    def kept(self, node: int, needed: Versions) -> Connection:
        """Return the connection to a broker that all who make such requests share, one after the other.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached.
        """
        known = self._kept.get((node, needed))
        if known is not None and known.is_session_half_over:
            self.give_up(known)
        if (node, needed) not in self._kept:
            self._kept[node, needed] = self.connect(node, (needed,))
        return self._kept[node, needed]

    def give_up(self, connection: Connection) -> None:
        """Close a connection of :meth:`kept` that failed; who makes such a request next opens another."""
        connection.close()
        self._kept = {place: one for place, one in self._kept.items() if one is not connection}

    def close(self) -> None:
        """Close what kafka-python holds and the kept connections; others are closed by whoever opened them."""
        for connection in self._kept.values():
            connection.close()
        self._kept.clear()
        self._manager.close()
        self._net.close()

    def _epoch_ends(
        self, node: int, epochs: Mapping[TopicPartition, int]
    ) -> Iterator[tuple[TopicPartition, int, EpochEnd | None]]:
        """Yield (partition, error code, what the broker that leads it says of the epoch)."""
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                asked(
                    topic=name,
                    partitions=[
                        asked.OffsetForLeaderPartition(
                            partition=number, leader_epoch=epochs[TopicPartition(name, number)]
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in grouped(epochs).items()
            ],
            min_version=OFFSET_FOR_LEADER_EPOCH.oldest,
        )
        for topic in self.call(request, node).topics:
            for entry in topic.partitions:
                end = EpochEnd(entry.leader_epoch, entry.end_offset)
                known = end if end.epoch != NOT_KNOWN and end.end >= 0 else None
                yield TopicPartition(topic.topic, entry.partition), entry.error_code, known

    def _bootstrap(self) -> tuple[EventLoop, Connections]:
        """Connect to the first of the bootstrap servers that answers; the one that answered last is asked first.

        A refused login is not tried at the others: repeating it may lock the account.
        """
        servers = list(self._arguments["bootstrap_servers"])
        random.shuffle(servers)
        servers.sort(key=lambda server: server != self._answered)
        reasons, is_refused = dict[str, str](), False
        for server in servers:
            try:
                self._knock(server)
                answering = self._bootstrap_at(server)
            except kafka.errors.KafkaTimeoutError as error:
                # The library does not tell what has failed again and again.
                reasons[server] = diagnosed(server, self._arguments) or self._error_message(error)
            except (kafka.errors.KafkaError, OSError, ValueError) as error:
                reasons[server], is_refused = self._error_message(error), is_refusal(error)
                if is_refused:
                    break
            else:
                self._answered = server
                return answering
        raise ConnectionFailed(f"{self.alias}: {self._of_each(reasons)}", self.alias, is_refusal=is_refused)

    def _of_each(self, reasons: Mapping[str, str]) -> str:
        """Return why each server that was tried lets nobody in: what several say, once."""
        servers = self._arguments["bootstrap_servers"]
        by_reason = grouped((reasons[server], server) for server in servers if server in reasons)
        return "; ".join(f"{', '.join(alike)}: {reason}" for reason, alike in by_reason.items())

    def _knock(self, server: str) -> None:
        """See that a server accepts connections; kafka-python would try a dead one until its time is up."""
        host, _, port = server.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=self._bootstrap_ms / 1000).close()

    def _bootstrap_at(self, server: str) -> tuple[EventLoop, Connections]:
        net = EventLoop()
        manager = Connections(net, **{**self._arguments, "bootstrap_servers": [server]})
        try:
            manager.bootstrap(self._bootstrap_ms)
        except (kafka.errors.KafkaError, OSError):
            manager.close()
            net.close()
            raise
        return net, manager

    def _error_message(self, error: BaseException) -> str:
        return explained(error, self._arguments) or in_words(error)


def _is_election(problem: RequestFailed) -> bool:
    return isinstance(problem, LeaderAway) or (isinstance(problem, BrokerRefused) and problem.code in codes.ELECTION)


def broker_setting(connection: Connection, node: int, name: str) -> str | None:
    """Return a setting of the broker that ``connection`` leads to, None if it does not tell.

    Raises
    ------
    ConnectionFailed
        if the broker hung up or said nothing for half a minute.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[resource])
    frame = connection.ask([framed(request, _DESCRIBE_VERSION, connection.next_correlation())])
    answer = DescribeConfigsResponse.decode(frame, version=_DESCRIBE_VERSION, header=True)
    values = [entry.value for result in answer.results for entry in result.configs if entry.name == name]
    return values[0] if values else None


def topic_settings(channel: Channel, topics: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return these settings of topics; nothing of one that the cluster does not tell, for lack of a right or a topic.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    asked = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        asked(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[*names])
        for topic in sorted(topics)
    ]
    if not resources:
        return {}
    answer = channel.call(DescribeConfigsRequest(resources=resources))
    return {
        result.resource_name: {entry.name: entry.value for entry in result.configs}
        for result in answer.results
        if not result.error_code
    }


def offsets_request(partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE) -> ListOffsetsRequest:
    """Return the question where logs begin (``at=EARLIEST``), end (``at=LATEST``) or have a time, for their leader."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    replica, isolation = view.value
    return ListOffsetsRequest(
        replica_id=replica,
        isolation_level=isolation,
        topics=[
            asked(
                name=name,
                partitions=[asked.ListOffsetsPartition(partition_index=number, timestamp=at) for number in numbers],
            )
            for name, numbers in grouped(partitions).items()
        ],
        timeout_ms=_REQUEST_MS,
        min_version=LIST_OFFSETS.oldest,
    )


def offsets_answered(answer: Any) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield (partition, error code, offset) of an answer to :func:`offsets_request`."""
    for topic in answer.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry.error_code, entry.offset
