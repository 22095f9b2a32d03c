"""Clusters in memory: brokers that lead partitions, answer the frames of the protocol, and fail as a test wants.

They stand behind the connections of :mod:`mirror.kafka.channel`: what is connected with, in all of the product, is
replaced in one place, and all else is the product's own.
"""

from __future__ import annotations

import itertools
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import kafka.errors
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    ProduceRequest,
    ProduceResponse,
)

from mirror.kafka import topic_ids
from mirror.kafka.versions import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from mirror.model.partition import TopicPartition
from tests.unit.copier.logs_in_memory import Coordinator, Partition
from tests.unit.copier.simulated import World

OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER = 1, 3, 6
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 76
_API_VERSIONS, _DESCRIBE_CONFIGS = 18, 32
_OFFERED = (PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH)
# How long a question to a broker that is frozen, or not there, takes.
_FROZEN_SECONDS, _DOWN_SECONDS = 10.0, 0.001


@dataclass
class Broker:
    """One broker.

    Attributes
    ----------
    is_down
        whether it refuses connections; those that there are break.
    is_frozen
        whether it says nothing.
    """

    is_down: bool = False
    is_frozen: bool = False
    largest_request: int = 100 << 20

    def stop(self) -> None:
        self.is_down = True

    def start(self) -> None:
        self.is_down = False

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False


@dataclass
class Asked:
    """A request that has come in."""

    key: int
    correlation: int
    body: Any
    at: float
    size: int
    appended: list[tuple[TopicPartition, int, int, str]] | None = None
    until: float = 0.0


_numbers = itertools.count(1_000_000)


class Wire:
    """One connection: stands for a socket on the client's side, and answers on the broker's.

    Attributes
    ----------
    requests
        what the broker has to answer, the oldest first.
    takes
        how many more bytes the client's side takes before it is full; None: any.
    brings
        how many bytes of an answer arrive before it stops for a while; None: all.
    """

    def __init__(self, cluster: MemoryCluster, node: int) -> None:
        self.cluster, self.node = cluster, node
        self.broker = cluster.brokers[node]
        self.requests: deque[Asked] = deque()
        self.takes: int | None = None
        self.brings: int | None = None
        self.is_cut = False
        # No file: none has such a number.
        self._file = next(_numbers)
        self._sent, self._incoming = bytearray(), bytearray()
        self._session: dict[TopicPartition, Any] = {}
        cluster.world.lines[self.fileno()] = self

    # What the client's side does.

    def fileno(self) -> int:
        return self._file

    def setblocking(self, _: bool) -> None: ...

    def setsockopt(self, *_: Any) -> None: ...

    def sendmsg(self, pieces: list[memoryview]) -> int:
        if self.is_cut:
            raise BrokenPipeError(32, "Broken pipe")
        content = b"".join(pieces)
        if self.takes is not None:
            if not self.takes:
                raise BlockingIOError
            content = content[: self.takes]
            self.takes -= len(content)
        self._sent += content
        while len(self._sent) >= 4:
            (size,) = struct.unpack_from(">i", self._sent)
            if len(self._sent) < 4 + size:
                break
            self._receive(bytes(self._sent[4 : 4 + size]))
            del self._sent[: 4 + size]
        return len(content)

    def recv_into(self, target: memoryview) -> int:
        if not self.is_readable:
            raise BlockingIOError
        if self.is_cut:
            return 0
        count = min(len(target), len(self._incoming) if self.brings is None else self.brings)
        self.brings = None if self.brings is None else self.brings - count
        target[:count] = self._incoming[:count]
        del self._incoming[:count]
        return count

    @property
    def is_readable(self) -> bool:
        return self.is_cut or (bool(self._incoming) and self.brings != 0)

    @property
    def is_writable(self) -> bool:
        return self.takes is None or self.takes > 0

    def close(self) -> None:
        """The client hangs up: what the broker holds already it still carries out."""
        if self.cluster.world.lines.pop(self.fileno(), None) is not None:
            self.cluster.left += self.requests

    def take(self, count: int | None = None) -> None:
        """Have room for so many more bytes, or for all that comes."""
        self.takes = None if count is None else count + (self.takes or 0)

    def bring(self, count: int | None = None) -> None:
        """Let so many bytes of an answer arrive, or all that comes."""
        self.brings = count

    def cut(self) -> None:
        """Break the connection; what was sent and not carried out is gone."""
        self.requests.clear()
        self._sent.clear()
        self.is_cut = True

    # What the broker does.

    def _receive(self, frame: bytes) -> None:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        requests = {
            PRODUCE.key: ProduceRequest,
            FETCH.key: FetchRequest,
            ADD_PARTITIONS_TO_TXN.key: AddPartitionsToTxnRequest,
            END_TXN.key: EndTxnRequest,
            _DESCRIBE_CONFIGS: DescribeConfigsRequest,
        }
        body: Any = requests[key].decode(frame, version=version, header=True) if key in requests else None
        asked = Asked(key, correlation, body, self.cluster.world.now + self.cluster.latency_seconds, len(frame))
        if key == FETCH.key:
            self._remember(body)
            asked.until = self.cluster.world.now + body.max_wait_ms / 1000
            self.cluster.world.after(body.max_wait_ms / 1000, lambda: None)
        self.cluster.frames.append((self.node, key))
        self.requests.append(asked)
        self.cluster.world.after(self.cluster.latency_seconds, lambda: None)

    def pump(self) -> None:
        """Answer one request after the other, as far as they can be answered now."""
        if self.broker.is_down and not self.is_cut:
            self.cut()
        while self.requests and not self.broker.is_frozen and self.requests[0].at <= self.cluster.world.now:
            answer = self._answer(self.requests[0])
            if answer is None:
                return
            self.requests.popleft()
            self._incoming += struct.pack(">i", len(answer)) + answer

    def _answer(self, asked: Asked) -> bytes | None:
        if asked.key == _API_VERSIONS:
            offered = [(each.key, each.oldest, each.newest) for each in (*_OFFERED, ADD_PARTITIONS_TO_TXN, END_TXN)]
            said = struct.pack(">ihi", asked.correlation, 0, len(offered))
            return said + b"".join(struct.pack(">hhh", *each) for each in offered)
        answer: Any = None
        if asked.key == FETCH.key:
            answer, version = self._fetched(asked), FETCH.newest
        elif asked.key == PRODUCE.key:
            answer, version = self.cluster.produced(self.node, asked), PRODUCE.newest
        elif asked.key == _DESCRIBE_CONFIGS:
            answer, version = self._described(), 1
        elif self.cluster.coordinator.is_silent:
            return None
        elif asked.key == ADD_PARTITIONS_TO_TXN.key:
            answer, version = self.cluster.coordinator.add(asked.body), ADD_PARTITIONS_TO_TXN.newest
        else:
            answer, version = self.cluster.coordinator.end(asked.body), END_TXN.newest
        if answer is None:
            return None
        answer.API_VERSION = version
        answer.with_header(correlation_id=asked.correlation)
        return bytes(answer.encode(header=True))

    def _described(self) -> Any:
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult(
            name="socket.request.max.bytes", value=str(self.broker.largest_request)
        )
        return DescribeConfigsResponse(
            results=[result(error_code=0, resource_type=4, resource_name=str(self.node), configs=[entry])]
        )

    def _remember(self, request: Any) -> None:
        if request.session_epoch <= 0:
            self._session.clear()
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self._session.pop(TopicPartition(topic.topic, number), None)
        for topic in request.topics:
            for each in topic.partitions:
                self._session[TopicPartition(topic.topic, each.partition)] = each

    def _fetched(self, asked: Asked) -> Any | None:
        request, cluster = asked.body, self.cluster
        if cluster.refuses_fetches:
            code, cluster.refuses_fetches = cluster.refuses_fetches, 0
            return FetchResponse(throttle_time_ms=0, error_code=code, session_id=0, responses=[])
        response = FetchResponse.FetchableTopicResponse
        parts = [
            response(topic=address.topic, partitions=[part])
            for address, each in self._session.items()
            if (part := self._part(address, each, request, response.PartitionData)) is not None
        ]
        is_due = cluster.world.now >= asked.until or cluster.throttle_ms
        if not (parts or is_due):
            return None
        session = 5 if request.session_epoch >= 0 else 0
        return FetchResponse(throttle_time_ms=cluster.throttle_ms, error_code=0, session_id=session, responses=parts)

    def _part(self, address: TopicPartition, wanted: Any, request: Any, data: Any) -> Any | None:
        """Return what there is to say of a partition, None if nothing."""
        log = self.cluster.partitions.get(address)
        code, more = self._fetch_error(log, wanted), {}
        if log is None or code:
            return data(partition_index=address.partition, error_code=code or UNKNOWN_TOPIC, records=b"")
        end = log.stable if request.isolation_level else log.visible
        log.reads.append(wanted.fetch_offset)
        content = log.read(wanted.fetch_offset, min(wanted.partition_max_bytes, log.most_bytes), end)
        diverging = log.parts_from(wanted.last_fetched_epoch, wanted.fetch_offset)
        if diverging is not None:
            epoch, offset = diverging
            content, more = b"", {"diverging_epoch": data.EpochEndOffset(epoch=epoch, end_offset=offset)}
        if request.rack_id and log.preferred >= 0 and self.node == log.leader:
            content, more = b"", {"preferred_read_replica": log.preferred}
        if not content and not more:
            return None
        return data(
            partition_index=address.partition,
            error_code=0,
            high_watermark=log.visible,
            last_stable_offset=log.stable,
            log_start_offset=log.start,
            aborted_transactions=[
                data.AbortedTransaction(producer_id=producer_id, first_offset=start)
                for producer_id, start, end in (log.aborted if request.isolation_level else ())
                if end >= wanted.fetch_offset
            ],
            records=content,
            **{"preferred_read_replica": -1, **more},
        )

    def _fetch_error(self, log: Partition | None, wanted: Any) -> int:
        if log is None:
            return UNKNOWN_TOPIC
        if log.refuses_fetch:
            return log.refuses_fetch
        if self.node != log.leader and (self.node not in log.replicas or log.preferred != self.node):
            return NOT_LEADER
        if -1 < wanted.current_leader_epoch != log.leader_epoch:
            is_old = wanted.current_leader_epoch < log.leader_epoch
            return FENCED_LEADER_EPOCH if is_old else UNKNOWN_LEADER_EPOCH
        return 0 if log.start <= wanted.fetch_offset <= log.end else OUT_OF_RANGE


@dataclass
class MemoryCluster:
    """Brokers, topics, and a coordinator of transactions.

    Attributes
    ----------
    latency_seconds
        how long a request takes.
    reaching_seconds
        how long it takes to connect.
    throttle_ms
        for how long its quotas ask for silence in every answer.
    refuses_fetches
        the error for the next fetch as a whole.
    frames
        the hot requests that came in: broker, and key of the request.
    left
        requests that the client did not wait for any more, not carried out yet.
    asked
        the names of the other requests, in turn.
    """

    world: World
    alias: str
    brokers: dict[int, Broker] = field(default_factory=lambda: {1: Broker(), 2: Broker()})
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    ids: dict[str, UUID] = field(default_factory=dict)
    latency_seconds: float = 0.001
    reaching_seconds: float = 0.0
    throttle_ms: int = 0
    refuses_fetches: int = 0
    frames: list[tuple[int, int]] = field(default_factory=list)
    left: list[Asked] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(self.partitions)

    def create(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """Create a topic, or create it anew: its partitions on these brokers, the leader first."""
        self.ids[topic] = UUID(int=len(self.ids) + 1 + (self.ids[topic].int * 1000 if topic in self.ids else 0))
        for number, on in enumerate(replicas or ((1, 2),)):
            self.partitions[TopicPartition(topic, number)] = Partition(TopicPartition(topic, number), on)

    def topic_id(self, topic: str) -> str:
        return topic_ids.spell(self.ids[topic])

    def __getitem__(self, address: TopicPartition) -> Partition:
        return self.partitions[address]

    def lines(self, node: int | None = None) -> list[Wire]:
        """The connections to the cluster, or to one broker."""
        wires = [each for each in self.world.lines.values() if isinstance(each, Wire) and each.cluster is self]
        return [each for each in wires if node in (None, each.node)]

    def produce_lines(self) -> list[Wire]:
        """The connections over which a batch was sent and is not answered."""
        return [each for each in self.lines() if any(asked.key == PRODUCE.key for asked in each.requests)]

    def in_flight(self, address: TopicPartition) -> int:
        """How many produce requests with a batch for a partition are unanswered."""
        return sum(address in _contents(asked) for line in self.produce_lines() for asked in line.requests)

    def carry_out_left(self) -> None:
        """Append what nobody waits for any more."""
        for asked in self.left:
            if asked.key == PRODUCE.key:
                self._append_all(next(iter(self.brokers)), asked, is_late=True)
        self.left.clear()

    # Hot requests.

    def produced(self, node: int, asked: Asked) -> Any | None:
        logs = [self.partitions[each] for each in _contents(asked) if each in self.partitions]
        if asked.appended is None:
            if any(log.is_held for log in logs):
                return None
            self._append_all(node, asked)
        if any(log.is_mute for log in logs):
            return None
        response = ProduceResponse.TopicProduceResponse
        data = response.PartitionProduceResponse
        return ProduceResponse(
            responses=[
                response(
                    name=address.topic,
                    partition_responses=[
                        data(
                            index=address.partition,
                            error_code=code,
                            base_offset=base,
                            log_append_time_ms=-1,
                            log_start_offset=0,
                            record_errors=[],
                            error_message=said,
                        )
                    ],
                )
                for address, code, base, said in asked.appended or ()
            ],
            throttle_time_ms=self.throttle_ms,
        )

    def _append_all(self, node: int, asked: Asked, *, is_late: bool = False) -> None:
        asked.appended = []
        for address, content in _contents(asked).items():
            log = self.partitions.get(address)
            if log is None:
                asked.appended.append((address, UNKNOWN_TOPIC, -1, ""))
            elif log.refuses:
                asked.appended.append((address, log.refuses, -1, "as the test wants"))
            elif log.leader != node and not is_late:
                asked.appended.append((address, NOT_LEADER, -1, ""))
            else:
                asked.appended.append((address, *self.coordinator.append(log, content), ""))

    # What kafka-python asks.

    def call(self, request: Any, node: int | None) -> Any:
        self.asked.append(type(request).__name__)
        self.reach(node)
        self.world.wait(self.latency_seconds)
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request, node)
        if isinstance(request, OffsetForLeaderEpochRequest):
            return self._epochs(request, node)
        if isinstance(request, DescribeProducersRequest):
            return self._producers(request)
        assert isinstance(request, FindCoordinatorRequest)
        return FindCoordinatorResponse(error_code=self.coordinator.next_refusal(), node_id=self.coordinator.node)

    def reach(self, node: int | None) -> None:
        """Fail as the library does, if a broker, or all, cannot be reached."""
        asked = [self.brokers[node]] if node is not None else list(self.brokers.values())
        if all(each.is_frozen or each.is_down for each in asked):
            is_frozen = any(each.is_frozen for each in asked)
            self.world.wait(_FROZEN_SECONDS if is_frozen else _DOWN_SECONDS)
            raise kafka.errors.KafkaConnectionError("nobody answers")

    def _metadata(self, request: Any) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        partition = topic.MetadataResponsePartition

        def described(name: str) -> Any:
            logs = [each for each in self.partitions.values() if each.address.topic == name]
            return topic(
                error_code=0 if logs else UNKNOWN_TOPIC,
                name=name,
                topic_id=self.ids.get(name, UUID(int=0)),
                partitions=[
                    partition(
                        partition_index=each.address.partition,
                        leader_id=-1 if each.leader is None else each.leader,
                        leader_epoch=each.leader_epoch,
                        replica_nodes=list(each.replicas),
                        isr_nodes=list(each.replicas),
                    )
                    for each in logs
                ],
            )

        return MetadataResponse(topics=[described(each.name) for each in request.topics])

    def _offsets(self, request: Any, node: int | None) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        partition = topic.ListOffsetsPartitionResponse

        def answer(name: str, number: int, at: int) -> Any:
            log = self.partitions.get(TopicPartition(name, number))
            if log is None or log.leader != node or log.refuses_fetch:
                code = (log.refuses_fetch if log else 0) or NOT_LEADER
                return partition(partition_index=number, error_code=code, offset=-1)
            asked = "start" if at == -2 else "written" if request.replica_id == -2 else "end"
            if asked == log.not_told:
                return partition(partition_index=number, error_code=NOT_LEADER, offset=-1)
            stable = log.stable if request.isolation_level else log.visible
            if at >= 0:
                later = (header.base_offset for _, header in log.log if header.times[1] >= at)
                return partition(partition_index=number, error_code=0, offset=next(later, -1))
            offset = {"start": log.start, "written": log.end, "end": stable}[asked]
            return partition(partition_index=number, error_code=0, offset=offset)

        return ListOffsetsResponse(
            topics=[
                topic(
                    name=each.name,
                    partitions=[answer(each.name, one.partition_index, one.timestamp) for one in each.partitions],
                )
                for each in request.topics
            ]
        )

    def _producers(self, request: Any) -> Any:
        topic = DescribeProducersResponse.TopicResponse
        partition = topic.PartitionResponse

        def answer(name: str, number: int) -> Any:
            log = [header for _, header in self.partitions[TopicPartition(name, number)].log]
            last = {header.producer_id: header for header in log}
            # A marker of the same epoch leaves the sequence as it was.
            sequences = {
                (header.producer_id, header.producer_epoch): header.base_sequence + header.record_count - 1
                for header in log
                if not header.is_control
            }
            return partition(
                partition_index=number,
                error_code=0,
                active_producers=[
                    partition.ProducerState(
                        producer_id=producer_id,
                        producer_epoch=header.producer_epoch,
                        last_sequence=sequences.get((producer_id, header.producer_epoch), -1),
                        last_timestamp=header.times[1],
                        coordinator_epoch=-1,
                        current_txn_start_offset=-1,
                    )
                    for producer_id, header in last.items()
                    if producer_id >= 0
                ],
            )

        return DescribeProducersResponse(
            topics=[
                topic(name=each.name, partitions=[answer(each.name, number) for number in each.partition_indexes])
                for each in request.topics
            ]
        )

    def _epochs(self, request: Any, node: int | None) -> Any:
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        end = topic.EpochEndOffset

        def answer(name: str, one: Any) -> Any:
            log = self.partitions.get(TopicPartition(name, one.partition))
            if log is None or log.leader != node:
                return end(partition=one.partition, error_code=NOT_LEADER, leader_epoch=-1, end_offset=-1)
            found = log.epoch_end(one.leader_epoch)
            return end(partition=one.partition, error_code=0, leader_epoch=found.epoch, end_offset=found.end)

        return OffsetForLeaderEpochResponse(
            topics=[
                topic(topic=each.topic, partitions=[answer(each.topic, one) for one in each.partitions])
                for each in request.topics
            ]
        )


def _contents(asked: Asked) -> dict[TopicPartition, bytes]:
    if asked.key != PRODUCE.key:
        return {}
    return {
        TopicPartition(topic.name, each.index): bytes(each.records)
        for topic in asked.body.topic_data
        for each in topic.partition_data
    }
