"""Copying a flow without Spark and without an engine: epochs in this process, from handover to handover.

Run as a program, it copies until it is killed, beginning from the state topic, as an engine's worker would.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient

from mirror.config.fetching import FetchLimits
from mirror.config.settings import ClusterSettings
from mirror.control.flow_log import FlowLog
from mirror.copier.takeover_task import take_over
from mirror.copier.task import copy
from mirror.copier.work import (
    FlowWork,
    GapPolicy,
    Handover,
    PartitionResult,
    PartitionWork,
    TaskResult,
    TaskWork,
    Throttled,
)
from mirror.engine.flow_producers import FlowProducers
from mirror.kafka import coordinator
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Producer
from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.log import Record, read_records
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.model.flow import Flow
from mirror.model.flow_state import DeadChunks, FlowState
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.transforms.chain import Chain
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.positions import write_positions

SMALL = {"queue.buffering.max.kbytes": 100_000, "linger.ms": 5}


@cache
def slowness(_: int) -> float:
    """Return how many times longer this machine takes for some work than its CPU time: 1 if nobody else uses it.

    Of an epoch's time a task then has as much left to copy as it has elsewhere.
    """
    began, worked = time.perf_counter(), time.thread_time()
    while time.thread_time() - worked < 0.05:
        pass
    return min(10.0, max(1.0, (time.perf_counter() - began) / 0.05))


def epoch_lengths() -> Iterator[float]:
    """Yield for how many seconds to copy, longer and longer."""
    yield from (0.4, 0.4, 1.0, 2.0)
    yield from itertools.repeat(4.0)


@dataclass
class Copying:
    """One flow's topics, their copies, and how far each partition is.

    Ids of topics and acknowledgements are looked up by :meth:`discover`, as an engine does every few seconds; what has
    stopped is left alone until then.
    """

    flow: FlowWork
    pairs: dict[TopicPartition, TopicPartition]
    handovers: dict[TopicPartition, Handover] = field(default_factory=dict)
    transforms: Chain = field(default_factory=Chain)
    mm2: dict[TopicPartition, Mm2Trace] = field(default_factory=dict)
    stops_at_gaps: bool = False
    ids: dict[str, str] = field(default_factory=dict)
    policies: dict[TopicPartition, GapPolicy] = field(default_factory=dict)
    stopped: set[TopicPartition] = field(default_factory=set)
    throttled: list[Throttled] = field(default_factory=list)
    dead: dict[TopicPartition, DeadChunks] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    is_watched: bool = False
    # Given for copies that are to have the source's offsets.
    pad_limit: int | None = None
    # The producer's next sequences, and where something that was sent may still arrive.
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    unfenced: dict[TopicPartition, Producer | None] = field(default_factory=dict)
    fence_troubles: dict[TopicPartition, str] = field(default_factory=dict)
    writers: FlowProducers | None = None
    # Held while an epoch begins or its results are taken in, and while fencing changes what those look at.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def epoch(
        self, seconds: float = 0.4, epoch_channel: tuple[str, int] | None = None
    ) -> dict[TopicPartition, PartitionResult]:
        """Copy for a while; first the target is to refuse what was sent before and not answered."""
        self.take_producer()
        return self.copy_on(seconds, epoch_channel)

    def copy_on(
        self, seconds: float, epoch_channel: tuple[str, int] | None = None
    ) -> dict[TopicPartition, PartitionResult]:
        """Copy for a while, but for what waits to be fenced: that is done before, or beside, by :meth:`fence`."""
        with self.lock:
            flow = self.flow
            partitions = tuple(
                PartitionWork(
                    flow.flow,
                    source,
                    target,
                    self.ids.get(source.topic, ""),
                    self.handovers.get(source),
                    self.mm2.get(source),
                    self.transforms.of_topic(target.topic),
                    target_id=self.ids.get(target.topic, ""),
                    gaps=self.policies.get(source, GapPolicy(self.stops_at_gaps)),
                    dead=self.dead.pop(source, None),
                    left_out=self.left_out,
                    is_watched=self.is_watched,
                    sequence=self.sequences.get(target, 0),
                    pad_limit=self.pad_limit,
                )
                for source, target in self.pairs.items()
                if source not in self.stopped and target not in self.unfenced
            )
        length = seconds * slowness(int(time.monotonic() / 30))
        result = copy(TaskWork((flow,), partitions, length, 0.1, epoch_channel))
        with self.lock:
            return self._taken(result, flow.producer)

    def take_over(self, epoch_channel: tuple[str, int] | None = None) -> dict[TopicPartition, PartitionResult]:
        """Find out where to go on with what Java MirrorMaker has copied; ``epoch_channel`` is where the driver is heard."""
        partitions = tuple(
            PartitionWork(
                self.flow.flow,
                source,
                self.pairs[source],
                "",
                self.handovers.get(source),
                trace,
                gaps=self.policies.get(source, GapPolicy(self.stops_at_gaps)),
            )
            for source, trace in self.mm2.items()
        )
        results = self._taken(
            take_over(TaskWork((self.flow,), partitions, 5.0, 0.1, epoch_channel)), self.flow.producer
        )
        self.mm2 = {}
        return results

    def _taken(self, result: TaskResult, producer: Producer | None) -> dict[TopicPartition, PartitionResult]:
        self.throttled += result.throttled.values()
        for each in result.partitions:
            if each.handover is not None:
                self.handovers[each.source] = each.handover
            if each.may_arrive_late and each.sequence is not None:
                self.unfenced[self.pairs[each.source]] = producer
            elif each.sequence is not None and producer == self.flow.producer:
                self.sequences[self.pairs[each.source]] = each.sequence
        self.stopped |= {each.source for each in result.partitions if each.stopped}
        return {each.source: each for each in result.partitions}

    def take_producer(self) -> None:
        """Write as an engine does that leads the flow."""
        self.writers = self.writers or FlowProducers(
            self.flow.flow, self.flow.target_client, None, slots=1, topic=self.flow.state_topic
        )
        if self.flow.producer is None:
            log = FlowLog(self.flow.target_client, self.flow.state_topic, alias="west")
            try:
                log.poll()
                self.written_as(self.writers.take(log).producer)
            finally:
                log.close()
            known = [source for source in self.handovers if source in self.pairs and self.pad_limit is None]
            self.unfenced = {self.pairs[source]: None for source in known}
        self.fence()

    def fence(self) -> None:
        """Have the target refuse what was sent before and not answered; epochs may go on meanwhile.

        A target that is away is asked again by the next call.
        """
        assert self.writers is not None
        with suppress(BrokerRefused, ConnectionFailed, LeaderUnknown):
            with self.lock:
                asked = dict(self.unfenced)
            if self.flow.producer in asked.values():
                self.written_as(self.writers.next_producer(0))
            self.foreign_until(asked.keys())
            self.fence_troubles = self.writers.fence(asked.keys())
            with self.lock:
                for target in asked.keys() - self.fence_troubles.keys():
                    self.unfenced.pop(target)

    def foreign_until(self, targets: Set[TopicPartition]) -> None:
        """Find out up to where nothing of the flow lies in copies that are about to be fenced."""
        assert self.writers is not None
        positions = {
            self.pairs[source]: handover.position
            for source, handover in self.handovers.items()
            if not handover.clean and self.pairs.get(source) in targets
        }
        found = self.writers.foreign_until(positions, self.flow.writers)
        for source, target in self.pairs.items():
            if target in found:
                self.handovers[source] = replace(self.handovers[source], foreign_until=found[target])

    def written_as(self, producer: Producer | None) -> None:
        """Write as another producer from now on."""
        assert producer is not None
        with self.lock:
            self.flow = replace(self.flow, producer=producer, writers=self.flow.writers | {producer.producer_id})
            self.sequences = {}

    def epochs_until(
        self, what: str, until: Callable[[PartitionResult], bool], source: TopicPartition | None = None
    ) -> dict[TopicPartition, PartitionResult]:
        """Copy until what came of an epoch for a partition, the only one by default, is ``what``; return that epoch's."""
        (awaited,), lengths = [source] if source is not None else self.pairs, epoch_lengths()
        return wait_until(
            lambda: self.epoch(next(lengths)), what, timeout_seconds=240, until=lambda found: until(found[awaited])
        )

    def until_caught_up(self, sources: Sequence[TopicPartition] = (), timeout_seconds: float = 120.0) -> None:
        """Copy until everything that the sources hold is acknowledged and recorded; nobody may be writing to them."""
        awaited, lengths = list(sources or self.pairs), epoch_lengths()

        def lacking() -> dict[TopicPartition, str]:
            self.epoch(next(lengths))
            ends = ends_of(self.flow.source_client, awaited)
            return {
                each: f"{self.handovers.get(each)} of {end}"
                for each, end in ends.items()
                if each not in self.handovers
                or self.handovers[each].position.upstream < end
                or not self.handovers[each].clean
                # What a broker that has just come back does not take yet is written down by the next epoch.
                or not (self.handovers[each].is_recorded or self.flow.slot)
            }

        wait_until(lacking, f"{awaited} to be copied", timeout_seconds=timeout_seconds, until=lambda left: not left)

    def from_the_target(self) -> None:
        """Forget everything but what the state topic says, like an engine that has just been started."""
        self.stopped.clear()
        state = self.discover()
        self.flow = replace(self.flow, writers=frozenset(state.writers), producer=None)
        self.handovers = {
            source: Handover(position, state.open_runs(source), clean=False)
            for source, position in state.positions.items()
        }

    def discover(self) -> FlowState:
        """Look up which topics there are, and which gaps are acknowledged; return what the state topic says."""
        for client, names in (
            (self.flow.source_client, {source.topic for source in self.pairs}),
            (self.flow.target_client, {target.topic for target in self.pairs.values()}),
        ):
            channel = Channel("cluster", client)
            try:
                channel.refresh(names)
                self.ids |= {name: channel.topic_id(name) for name in names}
            finally:
                channel.close()
        state = self.state()
        self.policies = {
            source: GapPolicy(self.stops_at_gaps, gap, gap.key in state.acknowledgements)
            for source, gap in state.barriers.items()
        }
        self.stopped -= {source for source, policy in self.policies.items() if policy.is_lifted}
        return state

    def state(self) -> FlowState:
        """Return what the state topic says."""
        tail = LogTail(self.flow.target_client, self.flow.state_topic)
        state = FlowState()
        try:
            for each in tail.poll():
                state.apply(each.key, each.value)
        finally:
            tail.close()
        return state

    def originals(self, source: TopicPartition) -> list[Record]:
        """Return the source's records."""
        return log_of(self.flow.source_client, source)

    def copies(self, source: TopicPartition) -> list[Record]:
        """Return the records of the copy."""
        return log_of(self.flow.target_client, self.pairs[source])


Unique = Callable[[str], str]
NewCopying = Callable[..., Copying]


def delete_before(copying: Copying, source: TopicPartition, offset: int) -> None:
    """Remove the source's records before an offset, as retention does."""
    delete_records(copying.flow.source_client, source, offset)


def delete_records(client: dict[str, str], partition: TopicPartition, offset: int) -> None:
    """Remove the records of a partition before an offset."""
    deletion = confluent_kafka.TopicPartition(partition.topic, partition.partition, offset)
    admin = AdminClient(client)
    for done in admin.delete_records([deletion]).values():
        done.result(20)


def leave_marker(client: dict[str, str], partition: TopicPartition, transactional_id: str) -> None:
    """Append what takes an offset and is no record: the marker of an empty transaction."""
    with Appender("west", client) as appender:
        producer = coordinator.take_over(appender.channel, transactional_id, 60_000, writes_transactions=False)
        assert coordinator.abort_empty(appender.channel, transactional_id, producer, [partition]) == {}


def log_of(client: dict[str, str], partition: TopicPartition) -> list[Record]:
    """Return all records of a partition."""
    (start,) = ends_of(client, [partition], EARLIEST).values()
    (end,) = ends_of(client, [partition]).values()
    return list(read_records(client, partition, start, end))


def put_group(client: dict[str, str], group: str, at: TopicPartition, position: int) -> None:
    """Have a group without members stand at a position; a coordinator that is not ready yet is waited for."""
    with Cluster.connect(ClusterSettings("cluster", client)) as cluster:
        (written,) = write_positions(cluster, group, {at: GroupPosition(position)})
    assert written.problem is None, written


def positions_of(cluster: Cluster, group: str) -> Mapping[TopicPartition, GroupPosition]:
    """Return the positions that one group has committed; of an unknown group, none."""
    return cluster.positions_of_groups([group])[group]


def ends_of(
    client: dict[str, str], partitions: Sequence[TopicPartition], at: int = LATEST
) -> dict[TopicPartition, int]:
    """Return where logs end, or begin."""
    channel = Channel("cluster", client)
    try:
        return channel.offsets(partitions, at)
    finally:
        channel.close()


def assert_translated(known: OffsetMap, originals: Sequence[Record], copies: Sequence[Record]) -> None:
    """Every position leads to the first copied record not before it, and back behind the last one before it.

    Also on markers and in other holes.
    """
    upstream, downstream = ([record.offset for record in records] for records in (originals, copies))
    assert len(upstream) == len(downstream)
    up_to, back_to = [*downstream, known.downstream_next], [*upstream, known.upstream_next]
    if upstream:
        for position in range(upstream[0], known.upstream_next + 1):
            expected = up_to[bisect_left(upstream, position)]
            assert known.translate(position) == Exact(expected), position
        for position in range(downstream[0], known.downstream_next + 1):
            following = bisect_left(downstream, position)
            assert known.source_of(position) == back_to[following], position
            if following:
                assert known.translate_back(position) == Exact(upstream[following - 1] + 1), position


def can_tell(client: dict[str, str], partitions: Sequence[TopicPartition]) -> bool:
    """Whether the cluster says where all these partitions end."""
    try:
        return bool(ends_of(client, partitions))
    except (BrokerRefused, LeaderUnknown):
        return False


def producer_to(client: dict[str, str], **settings: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {**client, **SMALL, **{key.replace("_", "."): each for key, each in settings.items()}}
    )


def write(
    client: dict[str, str], partition: TopicPartition, numbers: Sequence[int], *, at_ms: int = 0, **settings: Any
) -> None:
    """Write records that no other number has the like of; of now, or of the time ``at_ms`` since the epoch."""
    producer = producer_to(client, **settings)
    _produce(producer, partition, numbers, at_ms)
    assert producer.flush(60) == 0


def write_in_transactions(
    client: dict[str, str], partition: TopicPartition, transactions: Sequence[Sequence[int]]
) -> None:
    """Write such records in transactions that are committed: behind the last one of each is a marker."""
    producer = producer_to(client, transactional_id=partition.topic)
    producer.init_transactions()
    for numbers in transactions:
        producer.begin_transaction()
        _produce(producer, partition, numbers)
        producer.commit_transaction()


def _produce(
    producer: confluent_kafka.Producer, partition: TopicPartition, numbers: Sequence[int], at_ms: int = 0
) -> None:
    for number in numbers:
        key, value = b"key %d" % (number % 7), b"value %d" % number
        producer.produce(partition.topic, value, key, partition.partition, timestamp=at_ms)


def contents(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Timestamp, key, value and headers: all that a copy must keep."""
    return [tuple(each[1:5]) for each in records]


def assert_copied(copying: Copying, *, but_for: Callable[[Record], bool] = lambda _: False) -> None:
    """Every record is there once, in order, unaltered; every position translates to it, and back."""
    state = copying.state()
    for source in copying.pairs:
        originals = [each for each in copying.originals(source) if not but_for(each)]
        copies = [each for each in copying.copies(source) if each.producer_id in copying.flow.writers]
        assert contents(copies) == contents(originals)
        known = state.offset_map(source)
        assert known is not None
        assert_translated(known, originals, copies)
        (end,) = ends_of(copying.flow.source_client, [source]).values()
        assert known.upstream_next == end


def as_program(copying: Copying) -> list[str]:
    """Return the command that copies the same until it is killed, beginning from the state topic."""
    flow = {name: value for name, value in dataclasses.asdict(copying.flow).items() if name not in ("flow", "writers")}
    ends = copying.flow.flow.source, copying.flow.flow.target
    told = json.dumps(
        {
            "flow": flow,
            "ends": ends,
            "pairs": list(copying.pairs.items()),
            "left_out": copying.left_out,
            "pad_limit": copying.pad_limit,
        }
    )
    return [sys.executable, "-m", "tests.brokers.copying", told]


def main() -> None:
    """Copy until killed."""
    told = json.loads(sys.argv[1])
    limits = FetchLimits(**told["flow"]["fetch_limits"])
    known = {"flow": Flow(*told["ends"]), "writers": frozenset(), "fetch_limits": limits}
    pairs = {TopicPartition(*source): TopicPartition(*target) for source, target in told["pairs"]}
    copying = Copying(
        FlowWork(**{**told["flow"], **known}), pairs, left_out=tuple(told["left_out"]), pad_limit=told["pad_limit"]
    )
    copying.from_the_target()
    while True:
        copying.epoch(0.7)


if __name__ == "__main__":
    main()
