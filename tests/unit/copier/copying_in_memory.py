"""A flow between two clusters in memory, copied by the product's own task, epoch by epoch."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mirror.copier import task
from mirror.copier.epoch_channel import CopiedNews, EpochChannelListener, Signal
from mirror.copier.work import FlowWork, Handover, PartitionResult, PartitionWork, Slot, TaskResult, TaskWork
from mirror.kafka import batch
from mirror.kafka.batch import Producer
from mirror.kafka.problems import ConnectionFailed
from mirror.model import connect_offsets
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from tests.flows import EAST_WEST, flow_work
from tests.unit.copier.clusters_in_memory import MemoryCluster
from tests.unit.copier.logs_in_memory import Partition
from tests.unit.copier.simulated import World

STATE, MM2, SYNCS, PARKED = "mirror-state.east", "mm2-offsets.east.internal", "mm2-offset-syncs.west", "parked"
ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 0)
OURS = Producer(7, 0)
IN_TRANSACTIONS = Producer(7, 3, is_transactional=True)


def slot(seconds: float = 0.5, idle_seconds: float | None = 0.1, patience_seconds: float = 2.0) -> Slot:
    return Slot("east->west-0", IN_TRANSACTIONS, {}, seconds, idle_seconds, patience_seconds)


def stands(result: PartitionResult) -> tuple[int, bool]:
    """How far a partition got, and whether that is all that was sent."""
    assert result.handover is not None
    return result.handover.position.upstream, result.handover.clean


def both_positions(result: PartitionResult) -> tuple[int, int, bool]:
    """How far it got on source and target, and whether that is all that was sent."""
    assert result.handover is not None
    return result.handover.position.upstream, result.handover.position.downstream, result.handover.clean


class Driver(EpochChannelListener):
    """What a task hears of its driver, as a test wants."""

    def __init__(self) -> None:
        self.says = Signal.NOTHING
        self._may_write = True
        self.is_closed = False
        self.told: list[tuple[Mapping[tuple[Flow, TopicPartition], str], set[tuple[Flow, TopicPartition]]]] = []
        self.copied: list[CopiedNews] = []
        self._file, self._hand = socket.socketpair()

    def fileno(self) -> int:
        return self._file.fileno()

    def signal(self) -> Signal:
        with contextlib.suppress(BlockingIOError):
            self._file.recv(64, socket.MSG_DONTWAIT)
        return self.says

    def say(self, what: Signal) -> None:
        self.says = what
        self._hand.send(b"1")

    def allow(self, may_write: bool) -> None:
        """Say whether something may be written from now on."""
        self._may_write = may_write

    @property
    def may_write(self) -> bool:
        return self._may_write

    def require(self) -> None:
        if not self._may_write:
            raise ConnectionFailed("nothing is written")

    def report_troubles(self, troubles: Any, going_on: Any = frozenset()) -> None:
        self.told.append((dict(troubles), set(going_on)))

    def report_copied(self, news: CopiedNews) -> None:
        self.copied += [news] if news else []

    def troubles(self, source: TopicPartition = ORDERS) -> list[str]:
        """What was told of a partition, in turn, each thing once."""
        said = [troubles[EAST_WEST, source] for troubles, _ in self.told if (EAST_WEST, source) in troubles]
        return list(dict.fromkeys(said))

    def close(self) -> None:
        self.is_closed = True

    def end(self) -> None:
        self._file.close()
        self._hand.close()


class Copying:
    """One flow, and where its partitions stand.

    Attributes
    ----------
    driver
        who may end an epoch; the epochs of a test that does not look at it are as long as they were planned.
    took
        how many seconds the last epoch has taken.
    works
        what partitions are told beside where they stand, by source.
    """

    def __init__(self, world: World, clusters: dict[str, MemoryCluster]) -> None:
        self.world, self.clusters = world, clusters
        self.east, self.west = (clusters.setdefault(each, MemoryCluster(world, each)) for each in ("east", "west"))
        self.driver = Driver()
        self.flow: FlowWork = flow_work(
            source_client={"bootstrap.servers": "east:9092"},
            target_client={"bootstrap.servers": "west:9092"},
            state_topic=STATE,
            offsets_topic=MM2,
            offsets_partitions=1,
            syncs_topic=SYNCS,
            writers=frozenset({OURS.producer_id}),
            producer=OURS,
        )
        self.pairs: dict[TopicPartition, TopicPartition] = {}
        self.handovers: dict[TopicPartition, Handover] = {}
        self.sequences: dict[TopicPartition, int] = {}
        self.works: dict[TopicPartition, dict[str, Any]] = {}
        self.last: TaskResult | None = None
        self.took = 0.0
        for topic in (STATE, MM2, PARKED):
            # Over another line than the data: what is written down does not wait for that.
            self.west.create(topic, (2, 1))
        self.east.create(SYNCS)
        self.create("orders")

    def create(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """Create a topic and its copy."""
        self.east.create(topic, *replicas)
        self.west.create(f"east.{topic}", *replicas)
        for number in range(max(1, len(replicas))):
            self.pairs[TopicPartition(topic, number)] = TopicPartition(f"east.{topic}", number)

    def told(self, **more: Any) -> None:
        """Have the task told more of the flow."""
        self.flow = replace(self.flow, **more)

    def source(self, source: TopicPartition = ORDERS) -> Partition:
        return self.east[source]

    def copy(self, source: TopicPartition = ORDERS) -> Partition:
        return self.west[self.pairs[source]]

    @property
    def state_log(self) -> Partition:
        return self.west[TopicPartition(STATE, 0)]

    def work(
        self, seconds: float = 1.0, *, commit_seconds: float = 0.1, heard: bool = True, reports_copied: bool = False
    ) -> TaskWork:
        """What a task is told for an epoch."""
        partitions = tuple(
            PartitionWork(
                EAST_WEST,
                source,
                target,
                **{
                    "topic_id": self.east.topic_id(source.topic),
                    "handover": self.handovers.get(source),
                    "target_id": self.west.topic_id(target.topic),
                    "sequence": self.sequences.get(target, 0),
                    **self.works.get(source, {}),
                },
            )
            for source, target in self.pairs.items()
        )
        epoch_channel = ("driver", 1) if heard else None
        return TaskWork((self.flow,), partitions, seconds, commit_seconds, epoch_channel, reports_copied)

    def epoch(self, seconds: float = 1.0, **more: Any) -> dict[TopicPartition, PartitionResult]:
        """Copy for a while; return what became of each partition."""
        began = self.world.now
        self.last = result = task.copy(self.work(seconds, **more))
        self.took = self.world.now - began
        self.driver.says = Signal.NOTHING
        for each in result.partitions:
            if each.handover is not None:
                self.handovers[each.source] = each.handover
            if each.sequence is not None:
                self.sequences[self.pairs[each.source]] = each.sequence
        for end in result.slots.values():
            assert self.flow.slot is not None
            self.told(slot=replace(self.flow.slot, sequences=end.sequences))
        return {each.source: each for each in result.partitions}

    def begin(self, *values: bytes) -> None:
        """Copy some records in a first epoch, so that the next one goes on from them."""
        self.source().write(*values or (b"0",))
        result = self.epoch(0.5)[ORDERS]
        assert result.handover is not None
        assert result.handover.clean
        assert result.handover.is_recorded
        self.driver.told.clear()

    def writes_as(self, producer_id: int) -> None:
        """Write as another producer from now on, as after one that was given up."""
        self.sequences.clear()
        self.told(producer=Producer(producer_id, 0), writers=self.flow.writers | {producer_id})

    def recorded(self, source: TopicPartition = ORDERS) -> int | None:
        """How far the partition is copied, as the state topic says."""
        found = self.state().positions.get(source)
        return found.upstream if found is not None else None

    def state(self) -> FlowState:
        state = FlowState()
        for content, header in self.state_log.log:
            for each in batch.records(content) if not header.is_control else ():
                state.apply(each.key, each.value)
        return state

    def mm2_position(self, source: TopicPartition = ORDERS) -> int | None:
        """How far the partition is copied, as MirrorMaker's topic says."""
        records = [
            (each.key, each.value)
            for content, header in self.west[TopicPartition(MM2, 0)].log
            if not header.is_control
            for each in batch.records(content)
        ]
        return connect_offsets.read_source_positions(records, "east").get(source)

    def syncs(self) -> list[tuple[int, int]]:
        """The offset syncs: upstream and downstream offset."""
        found = [
            OffsetSync.parse(each.key, each.value)
            for content, _ in self.east[TopicPartition(SYNCS, 0)].log
            for each in batch.records(content)
        ]
        return [(each.upstream, each.downstream) for each in found if each is not None]


def taken_over(copying: Copying) -> None:
    """Take the transactional id over: what was left open is aborted."""
    copying.west.coordinator.take_over("east->west-0")
    assert copying.flow.slot is not None
    again = replace(copying.flow.slot.producer, epoch=copying.flow.slot.producer.epoch + 1)
    copying.told(slot=replace(copying.flow.slot, producer=again, sequences={}))
    copying.driver.told.clear()
