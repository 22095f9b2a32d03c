"""Connections of one process to one cluster: bootstrap and security by kafka-python, hot frames on its sockets.

kafka-python connects and authenticates, then hands over the socket: from there on frames are read and written here,
without its parser. Requests that are not hot (metadata, offsets, producer ids) stay with kafka-python.

Invariants:

(a) A connection that was handed over is never polled by kafka-python again. Each hot connection has a selector of its
    own.
(b) Readers of a channel share its connections; a read that was interrupted closes the connection, or the next reader
    would get its answer.
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
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from mirror.kafka import codes, topic_ids
from mirror.kafka.batch import Producer
from mirror.kafka.client_logging import keep_client_quiet
from mirror.kafka.connecting import Connections, EventLoop, diagnosed, explained, in_words, is_refusal
from mirror.kafka.connection import Connection
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.kafka.security import arguments_of
from mirror.kafka.versions import FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH, Versions
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition, by_topic
from mirror.waiting import WaitTimeout, wait_until

EARLIEST, LATEST = -2, -1
T = TypeVar("T")
_REQUEST_MS = 10_000
_LONGEST_RECONNECT_BACKOFF_MS = 1_000
# The metadata of some ten thousand topics.
_LARGEST_ANSWER = 100_000_000
_LOADING_SECONDS = 10.0
# A broker that has been elected takes a moment until it answers as the leader.
_ELECTION_SECONDS = 3.0
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

    def __init__(self, alias: str, client: Mapping[str, str], *, bootstrap_ms: int = 10_000) -> None:
        """Connect to the cluster called ``alias`` with Java client properties.

        Raises
        ------
        ConnectionFailed
            if none of the bootstrap servers answers within ``bootstrap_ms``.
        """
        keep_client_quiet()
        self.alias = alias
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
        self._leaders: dict[TopicPartition, int] = {}
        self._replicas: dict[TopicPartition, frozenset[int]] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._topic_errors: dict[str, int] = {}
        self._partition_counts: dict[str, int] = {}
        self._reading: dict[int, Connection] = {}

    def leader(self, partition: TopicPartition) -> int:
        """Return the node that leads a partition, asking the cluster when it is not known.

        Raises
        ------
        LeaderUnknown
            if the cluster names none.
        """
        self.learn_leaders([partition])
        if partition not in self._leaders:
            raise LeaderUnknown(f"{self.alias}: {partition} has no leader")
        return self._leaders[partition]

    def known_leader(self, partition: TopicPartition) -> int | None:
        """Return the node that leads a partition as far as is known, without asking the cluster."""
        return self._leaders.get(partition)

    def replicas(self, partition: TopicPartition) -> frozenset[int]:
        """Return the brokers that had a replica when leaders were last asked for; none if that is not known."""
        return self._replicas.get(partition, frozenset())

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of the leader that :meth:`leader` returns, -1 if the cluster did not tell."""
        return self._leader_epochs.get(partition, NOT_KNOWN)

    def topic_id(self, topic: str) -> str:
        """Return the id a topic had when its leaders were last asked for, in Kafka's own spelling; empty if none."""
        return self._topic_ids.get(topic, "")

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
        code = self._topic_errors.get(topic, codes.UNKNOWN_TOPIC)
        if code in (0, codes.LEADER_NOT_AVAILABLE):
            return True
        if code == codes.UNKNOWN_TOPIC:
            return False
        raise BrokerRefused(f"{self.alias}: topic {topic}", kafka.errors.for_code(code), "Describe on the topic")

    def absent(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Ask the cluster which of some partitions it does not have: a topic that was created anew may have fewer.

        Raises
        ------
        BrokerRefused
            if it does not tell of one of the topics.
        ConnectionFailed
            if no broker can be reached.
        """
        there = {topic for topic in {each.topic for each in partitions} if self.has_topic(topic)}
        return frozenset(
            each
            for each in partitions
            if each.topic not in there or each.partition >= self._partition_counts[each.topic]
        )

    def learn_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask, in one request, who leads those of ``partitions`` whose leader is not known."""
        unknown = {partition.topic for partition in partitions if partition not in self._leaders}
        if unknown:
            self.refresh(unknown)

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask the cluster anew who leads the partitions of these topics."""
        wanted = set(topics)
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(wanted)],
            allow_auto_topic_creation=False,
            min_version=METADATA.oldest,
        )
        answer = self.call(request)
        # Brokers come and go: whom to ask follows the same answer.
        self._manager.cluster.update_metadata(answer)
        self.forget_leaders(wanted)
        for topic in answer.topics:
            self._topic_ids[topic.name] = topic_ids.spell(topic.topic_id)
            self._topic_errors[topic.name] = topic.error_code
            self._partition_counts[topic.name] = len(topic.partitions)
            for entry in topic.partitions:
                if entry.leader_id >= 0:
                    address = TopicPartition(topic.name, entry.partition_index)
                    self._leaders[address], self._leader_epochs[address] = entry.leader_id, entry.leader_epoch
                    self._replicas[address] = frozenset(entry.replica_nodes)

    def remember(self, other: Channel) -> None:
        """Take over what another channel to the same cluster has learned of leaders and topics."""
        self._leaders = dict(other._leaders)
        self._leader_epochs = dict(other._leader_epochs)
        self._replicas = dict(other._replicas)
        self._topic_ids = dict(other._topic_ids)

    def forget_leaders(self, topics: Iterable[str] | None = None) -> None:
        """Ask again who leads the partitions of these topics, or of all, before they are used next."""
        forgotten = None if topics is None else set(topics)
        self._leaders = {
            known: node
            # Another thread may be learning others meanwhile.
            for known, node in list(self._leaders.items())
            if forgotten is not None and known.topic not in forgotten
        }

    def forget_led_by(self, node: int) -> None:
        """Ask again who leads what a broker has led, before that is used next."""
        self._leaders = {known: leader for known, leader in list(self._leaders.items()) if leader != node}

    def offsets(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> dict[TopicPartition, int]:
        """Return start offsets (``at=EARLIEST``) or end offsets (``at=LATEST``) of partitions.

        A leader that has just been elected is asked again for some seconds.

        Raises
        ------
        KafkaProblem
            if any of them cannot be told: a list that could be short is not returned.
        """
        found, problems = self.offsets_once_led(partitions, at, view)
        for problem in problems.values():
            raise problem
        return found

    def offsets_once_led(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, LeaderUnknown | BrokerRefused]]:
        """Return what :meth:`find_offsets` does; while leaders are being elected it is asked again for some seconds.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        wanted = list(partitions)
        try:
            return wait_until(
                lambda: self.find_offsets(wanted, at, view),
                f"the leaders of {self.alias}",
                timeout_seconds=_ELECTION_SECONDS,
                until=lambda answer: not any(_is_election(problem) for problem in answer[1].values()),
            )
        except WaitTimeout:
            return self.find_offsets(wanted, at, view)

    def find_offsets(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, LeaderUnknown | BrokerRefused]]:
        """Return the offsets that can be told, as :meth:`offsets` does, and of the other partitions why not.

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

    def find_epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, EpochEnd | None], dict[TopicPartition, LeaderUnknown | BrokerRefused]]:
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
    ) -> tuple[dict[TopicPartition, T], dict[TopicPartition, LeaderUnknown | BrokerRefused]]:
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
        found: dict[TopicPartition, T] = {}
        problems: dict[TopicPartition, LeaderUnknown | BrokerRefused] = {}
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            if partition in self._leaders:
                by_node.setdefault(self._leaders[partition], []).append(partition)
            else:
                problems[partition] = LeaderUnknown(f"{self.alias}: {partition} has no leader")
        failures: list[ConnectionFailed] = []
        for node, led in by_node.items():
            try:
                answers = list(ask(node, led))
            except ConnectionFailed as failure:
                failures.append(failure)
                self.forget_leaders({partition.topic for partition in led})
                problems |= {each: LeaderUnknown(f"{self.alias}: the leader of {each}: {failure}") for each in led}
                continue
            for partition, code, answer in answers:
                if code:
                    self._leaders.pop(partition, None)
                    problems[partition] = BrokerRefused(
                        f"{self.alias}: {what} of {partition}", kafka.errors.for_code(code), "Describe on the topic"
                    )
                else:
                    found[partition] = answer
        if failures and len(failures) == len(by_node):
            raise failures[0]
        return found, problems

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
        try:
            answer = wait_until(
                lambda: self.call(request),
                "a producer id",
                timeout_seconds=_LOADING_SECONDS,
                until=lambda answer: not codes.is_retriable(answer.error_code),
            )
        except WaitTimeout:
            answer = self.call(request)
        if answer.error_code:
            needed = "IdempotentWrite on the cluster, or Write on a topic"
            raise BrokerRefused(f"{self.alias}: a producer id", kafka.errors.for_code(answer.error_code), needed)
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
            raise ConnectionFailed(f"{self.alias}: {self._said(error)}", self.alias) from error

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
            raise ConnectionFailed(f"{self.alias}, broker {node}: {self._said(error)}", self.alias) from error
        return connection

    def reading(self, node: int) -> Connection:
        """Return the connection over which this process reads from a broker, one reader after the other.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached.
        """
        known = self._reading.get(node)
        if known is not None and known.is_session_half_over:
            self.give_up_reading(known)
        if node not in self._reading:
            self._reading[node] = self.connect(node, (FETCH,))
        return self._reading[node]

    def give_up_reading(self, connection: Connection) -> None:
        """Close a connection of :meth:`reading` that failed; the next reader opens another."""
        connection.close()
        self._reading = {node: one for node, one in self._reading.items() if one is not connection}

    def close(self) -> None:
        """Close what kafka-python holds and the reading connections; others are closed by whoever opened them."""
        for connection in self._reading.values():
            connection.close()
        self._reading.clear()
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
                for name, numbers in by_topic(epochs).items()
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
                reasons[server] = diagnosed(server, self._arguments) or self._said(error)
            except (kafka.errors.KafkaError, OSError, ValueError) as error:
                reasons[server], is_refused = self._said(error), is_refusal(error)
                if is_refused:
                    break
            else:
                self._answered = server
                return answering
        raise ConnectionFailed(f"{self.alias}: {self._of_each(reasons)}", self.alias, is_refusal=is_refused)

    def _of_each(self, reasons: Mapping[str, str]) -> str:
        """Return why each server that was tried lets nobody in: what several say, once."""
        by_reason: dict[str, list[str]] = {}
        for server in self._arguments["bootstrap_servers"]:
            if server in reasons:
                by_reason.setdefault(reasons[server], []).append(server)
        return "; ".join(f"{', '.join(servers)}: {reason}" for reason, servers in by_reason.items())

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

    def _said(self, error: BaseException) -> str:
        return explained(error, self._arguments) or in_words(error)


def _is_election(problem: LeaderUnknown | BrokerRefused) -> bool:
    return isinstance(problem, BrokerRefused) and problem.code in codes.ELECTION


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
    request.API_VERSION = _DESCRIBE_VERSION
    request.with_header(connection.next_correlation(), "mirror")
    frame = connection.ask([request.encode(header=True, framed=True)])
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
    """Return the question where logs begin (``at=EARLIEST``) or end (``at=LATEST``), for the broker that leads them."""
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
            for name, numbers in by_topic(partitions).items()
        ],
        timeout_ms=_REQUEST_MS,
        min_version=LIST_OFFSETS.oldest,
    )


def offsets_answered(answer: Any) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield (partition, error code, offset) of an answer to :func:`offsets_request`."""
    for topic in answer.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry.error_code, entry.offset
