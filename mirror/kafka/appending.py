"""Appending to a partition, one request at a time, where it matters at which offset something lands.

Beside batches there are markers of transactions, which take one offset each and which no reader sees, and the removal
of what lies before an offset. Every call returns what the broker has answered; nothing is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

from kafka.protocol.admin import DeleteRecordsRequest, DescribeClusterRequest
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from mirror.kafka import wire
from mirror.kafka.batch import Producer
from mirror.kafka.channel import Channel
from mirror.kafka.connection import Connection, framed
from mirror.kafka.lazy_channel import LazyChannel
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem
from mirror.kafka.versions import PRODUCE
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition

Pieces: TypeAlias = Sequence[bytes | bytearray | memoryview]
"""A frame in parts."""

_TIMEOUT_MS = 30_000
# Of what a principal may do with the cluster, by the numbers of the protocol: either lets it write markers.
_ALTER, _CLUSTER_ACTION = 7, 9


class Appended(NamedTuple):
    """What the leader said of a batch: an error code, 0 for none, and the offset that its first record has got.

    ``appended_at`` as in `mirror.kafka.wire.ProducedPartition`.
    """

    code: int
    base_offset: int
    message: str = ""
    appended_at: int = wire.NO_APPEND_TIME


class Appender:
    """Appends to partitions of one cluster, over connections of its own; each call waits for its answer."""

    def __init__(self, alias: str, client: Mapping[str, str], *, before: Callable[[], None] = lambda: None) -> None:
        """Write to the cluster ``alias``; nothing is connected before the first call.

        ``before`` is called right before each request that appends is sent; what it raises keeps that from being sent.
        """
        self._lazy = LazyChannel(alias, client)
        self._before = before

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._lazy.close()

    @property
    def channel(self) -> Channel:
        """What the cluster is asked over."""
        return self._lazy.get()

    def append(self, partition: TopicPartition, batch: memoryview) -> Appended:
        """Append a batch with acks=all.

        A broker that holds a connection back for a quota reads nothing more from it, for minutes at worst, and would
        take a renewed claim to a flow too late. What is appended here is small: the next one goes over another.

        Raises
        ------
        ConnectionFailed
            if the leader cannot be reached; whether it was appended is then not known.
        LeaderUnknown
            if the partition has no leader.
        """

        def request(connection: Connection) -> Pieces:
            return wire.produce_request(connection.next_correlation(), [(partition, batch)], timeout_ms=_TIMEOUT_MS)

        connection, frame = self._ask(partition, request)
        if wire.produce_throttle_ms(frame):
            self.channel.give_up(connection)
        (answer,) = wire.parse_produce(frame)
        if answer.error:
            self.channel.forget_leaders([partition.topic])
        return Appended(answer.error, answer.base_offset, answer.message, answer.appended_at)

    def may_write_markers(self) -> bool:
        """Whether ALTER or CLUSTER_ACTION on the cluster is granted.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be reached.
        """
        request = DescribeClusterRequest(include_cluster_authorized_operations=True, max_version=0)
        # Without an authorizer everything is granted, and brokers say so.
        return not {_ALTER, _CLUSTER_ACTION}.isdisjoint(self.channel.call(request).authorized_operations)

    def write_markers(
        self, counts: Mapping[TopicPartition, int], producer: Producer, coordinator_epoch: int = 0
    ) -> dict[TopicPartition, int | KafkaProblem]:
        """Append so many abort markers of a producer to each partition, by a request a leader.

        Each is refused (INVALID_PRODUCER_EPOCH) behind a marker or batch of a later epoch of the same producer id, and
        (TRANSACTION_COORDINATOR_FENCED) behind a marker with a later ``coordinator_epoch``. What comes twice is
        appended twice.

        Returns
        -------
        of each partition the error code; or the problem, if it could not be asked, or has not answered: how many were
        appended, or will be, is then not known
        """
        found: dict[TopicPartition, int | KafkaProblem] = {}
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, count in counts.items():
            try:
                by_leader.setdefault(self.channel.leader(partition), {})[partition] = count
            except KafkaProblem as problem:
                found[partition] = problem
        for share in by_leader.values():
            found |= self._markers_of_a_leader(share, producer, coordinator_epoch)
        return found

    def _markers_of_a_leader(
        self, counts: Mapping[TopicPartition, int], producer: Producer, coordinator_epoch: int
    ) -> Mapping[TopicPartition, int | KafkaProblem]:
        asked = WriteTxnMarkersRequest.WritableTxnMarker
        markers = []
        for number in range(max(counts.values())):
            topics = grouped(partition for partition, count in counts.items() if count > number)
            markers.append(
                asked(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    transaction_result=False,
                    topics=[
                        asked.WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
                        for name, numbers in topics.items()
                    ],
                    coordinator_epoch=coordinator_epoch,
                )
            )
        request = WriteTxnMarkersRequest(markers=markers, max_version=1)
        try:
            _, frame = self._ask(
                next(iter(counts)), lambda connection: [framed(request, 1, connection.next_correlation())]
            )
        except KafkaProblem as problem:
            return dict.fromkeys(counts, problem)
        answer = WriteTxnMarkersResponse.decode(frame, version=1, header=True)
        # Of a producer id there is one answer, however many markers it has.
        answered = {
            TopicPartition(topic.name, each.partition_index): int(each.error_code)
            for one in answer.markers
            for topic in one.topics
            for each in topic.partitions
        }
        silent = ConnectionFailed(f"{self.channel.alias}: an answer to the request for markers leaves partitions out")
        return {partition: answered.get(partition, silent) for partition in counts}

    def delete_before(self, partition: TopicPartition, offset: int) -> int:
        """Remove what lies before ``offset``; return where the log begins now.

        Raises
        ------
        BrokerRefused
            if the broker refuses: rights are lacking, or the log ends before.
        ConnectionFailed, LeaderUnknown
            if it cannot be asked.
        """
        asked = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest(
            topics=[
                asked(
                    name=partition.topic,
                    partitions=[asked.DeleteRecordsPartition(partition_index=partition.partition, offset=offset)],
                )
            ],
            timeout_ms=_TIMEOUT_MS,
        )
        answer = self.channel.call(request, self.channel.leader(partition))
        (deleted,) = answer.topics[0].partitions
        if deleted.error_code:
            what = f"{self.channel.alias}: removing what lies before offset {offset} of {partition}"
            raise BrokerRefused(what, deleted.error_code, "Delete on the topic")
        low: int = deleted.low_watermark
        return low

    def _ask(self, partition: TopicPartition, request: Callable[[Connection], Pieces]) -> tuple[Connection, memoryview]:
        channel = self.channel
        try:
            connection = channel.kept(channel.leader(partition), PRODUCE)
            frame = request(connection)
            self._before()
            try:
                return connection, connection.ask(frame)
            except BaseException:
                channel.give_up(connection)
                raise
        except ConnectionFailed:
            channel.forget_leaders([partition.topic])
            raise
