"""Copying a flow in transactions, without Spark and without an engine: each life is one that an engine could have.

Run as a program, it copies until it is killed, beginning as an engine does that has just been started.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as ClientPartition

from mirror.config.fetching import FetchLimits
from mirror.config.settings import TransactionSettings
from mirror.control.flow_log import FlowLog
from mirror.copier.task import copy
from mirror.copier.work import FlowWork, PartitionResult, PartitionWork, TaskResult, TaskWork
from mirror.engine.flow_producers import FlowProducers
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.mm2_traces import Mm2Traces
from mirror.kafka.log import Record, read_records
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.model import connect_offsets
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from tests.brokers.copying import Copying, ends_of
from tests.flows import EAST_WEST
from tests.unit.control.builders import flow_settings


@dataclass
class InTransactions(Copying):
    """A flow whose engine holds it with transactions; ``restart`` makes it another engine."""

    prefix: str = ""
    seconds: float = 0.1
    idle_seconds: float | None = 0.1
    log: FlowLog | None = field(init=False, default=None)
    hold: FlowProducers = field(init=False)
    # What an engine knows of the flow between epochs; here of transactions alone.
    runtime: FlowRuntime = field(init=False)
    term: int = 0

    def __post_init__(self) -> None:
        """Begin as an engine that has just been started."""
        self.restart()

    def restart(self) -> None:
        """Forget everything but what the target says, and take the flow over in the next term when it is copied next."""
        self.close()
        settings = TransactionSettings(self.prefix, 1, 60_000, self.seconds, self.idle_seconds)
        topic = self.flow.offsets_topic
        positions = {TopicPartition(topic, number) for number in range(self.flow.offsets_partitions)}
        self.hold = FlowProducers(
            EAST_WEST,
            self.flow.target_client,
            settings,
            slots=1,
            topic=self.flow.state_topic,
            positions=positions,
        )
        self.runtime = FlowRuntime(
            replace(
                flow_settings(),
                transactions=settings,
                offset_storage_topic=self.flow.offsets_topic,
                offset_storage_partitions=self.flow.offsets_partitions,
            )
        )
        self.term += 1
        self.runtime.lead(self.term, was_settled=False)
        self.flow = replace(self.flow, slot=None)

    def close(self) -> None:
        """Close the connections."""
        if self.log is not None:
            self.log.close()
            self.log = None

    def without_transactions(self) -> None:
        """Take the flow over as an engine of the default mode does."""
        log = FlowLog(self.flow.target_client, self.flow.state_topic, alias="west")
        hold = FlowProducers(EAST_WEST, self.flow.target_client, None, slots=1, topic=self.flow.state_topic)
        log.poll()
        assert hold.take(log).slots == ()
        log.close()

    def take(self) -> None:
        """Take the flow over and read where it stands."""
        self.log = self.log or FlowLog(self.flow.target_client, self.flow.state_topic, alias="west")
        self.log.poll()
        # The engine of the term before is no more, and no other has a right to write.
        held = self.hold.take(self.log, self.term, self.runtime.slots.given_up, is_alone=True)
        self.runtime.take_state(self.log.state, Mm2Traces(), held)
        self.handovers = dict(self.runtime.handovers)
        self._take_slot()

    def _take_slot(self) -> None:
        self.unfenced = dict(self.runtime.late.unfenced)
        (slot,) = self.runtime.slots.known
        writers = frozenset(self.runtime.writers)
        self.flow = replace(self.flow, slot=slot if self.runtime.is_known else None, writers=writers)

    def take_producer(self) -> None:
        """Write as an engine does that leads the flow; a slot that is lost is taken over, when that can be done."""
        if self.flow.slot is None:
            with self.lock, suppress(BrokerRefused, ConnectionFailed, LeaderUnknown):
                self.take()
        self.fence()

    def fence(self) -> None:
        """See in which partitions transactions have ended that had not before."""
        with self.lock, suppress(BrokerRefused, ConnectionFailed, LeaderUnknown):
            asked = self.runtime.to_fence()
            self.fence_troubles = dict(self.hold.fence(asked))
            self.runtime.take_fenced(asked, self.fence_troubles, FlowState())
            self.unfenced = dict(self.runtime.late.unfenced)

    def copy_on(
        self, seconds: float, epoch_channel: tuple[str, int] | None = None
    ) -> dict[TopicPartition, PartitionResult]:
        """Copy for a while."""
        assert epoch_channel is None
        self.runtime.between_epochs()
        if self.flow.slot is None:
            self.take_producer()
        if self.flow.slot is None:
            return {}
        result = self.copied(seconds, epoch_channel)
        for each in result.partitions:
            if each.handover is not None:
                self.handovers[each.source] = each.handover
        self.runtime.take_slot(0, result.slots[EAST_WEST])
        self._take_slot()
        return {each.source: each for each in result.partitions}

    def copied(self, seconds: float, epoch_channel: tuple[str, int] | None = None) -> TaskResult:
        """Run one task."""
        partitions = tuple(
            PartitionWork(
                self.flow.flow,
                source,
                target,
                "",
                self.handovers.get(source),
                left_out=self.left_out,
                is_watched=self.is_watched,
            )
            for source, target in self.pairs.items()
            if not self.runtime.waits(source, target)
        )
        return copy(TaskWork((self.flow,), partitions, seconds, 0.1, epoch_channel))

    def copies(self, source: TopicPartition) -> list[Record]:
        """Return the records of the copy that a reader of committed data sees."""
        target = self.pairs[source]
        (end,) = ends_of(self.flow.target_client, [target]).values()
        return list(read_records(self.flow.target_client, target, 0, end, read_committed=True))

    def mm2_positions(self) -> dict[TopicPartition, int]:
        """Return the positions that Java MM2 would begin from."""
        tail = LogTail(self.flow.target_client, self.flow.offsets_topic, range(self.flow.offsets_partitions))
        try:
            return connect_offsets.read_source_positions([(each.key, each.value) for each in tail.poll()], "east")
        finally:
            tail.close()


def committed(client: dict[str, str], topic: str, partitions: int) -> list[list[int]]:
    """Return what a consumer of committed data reads of each partition, to its end."""
    consumer = Consumer(
        {**client, "group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": "true"}
    )
    found: list[list[int]] = [[] for _ in range(partitions)]
    consumer.assign([ClientPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(20.0)
        assert message is not None
        if message.error():
            ended.add(message.partition() or 0)
        else:
            found[message.partition() or 0].append(int(message.value() or b"-1"))
    consumer.close()
    return found


def main() -> None:
    """Copy until killed."""
    told = json.loads(sys.argv[1])
    known = {"flow": EAST_WEST, "writers": frozenset(), "slot": None}
    flow = FlowWork(**{**told["flow"], **known, "fetch_limits": FetchLimits(**told["flow"]["fetch_limits"])})
    pairs = {TopicPartition(*source): TopicPartition(*target) for source, target in told["pairs"]}
    copying = InTransactions(flow, pairs, prefix=told["prefix"])
    while True:
        for result in copying.epoch(0.7).values():
            sys.stderr.write(f"{result.source} {result.records} {result.trouble or result.stopped or ''}\n")


if __name__ == "__main__":
    main()
