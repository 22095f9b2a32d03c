"""Positions of groups are translated exactly: what leaves holes in the logs, what ends engines, and what shortens logs.

OST-06 to OST-08: where MirrorMaker 2 is the less exact the further a group lags behind, no record is read again here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

import confluent_kafka
import pytest

from mirror.control.dead_chunks import DeadChunksTick
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.copier import lane
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import Record, read_records
from mirror.lab import faults
from mirror.model.partition import TopicPartition
from mirror.model.topics import IdentityReplicationPolicy
from mirror.model.translation import Bounded, Exact
from mirror.waiting import wait_until
from tests.brokers.copying import (
    Copying,
    NewCopying,
    assert_translated,
    can_tell,
    contents,
    ends_of,
    producer_to,
    write,
)
from tests.flows import EAST_WEST

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "600000",
}


def assert_exact(copying: Copying, source: TopicPartition, but_for: Callable[[Record], bool] = lambda _: False) -> None:
    """Every position of the log, also one that no record has, leads to the copy of the first record from there on."""
    known = copying.state().offset_map(source)
    assert known is not None
    originals = [each for each in copying.originals(source) if not but_for(each)]
    copies = copying.copies(source)
    assert contents(copies) == contents(originals)
    assert_translated(known, originals, copies)


def in_transactions(client: dict[str, str], topic: str, ends: Sequence[str], chance: random.Random) -> None:
    """Write a transaction for each of ``ends``, which is what becomes of it."""
    producer = confluent_kafka.Producer({**client, "transactional.id": topic})
    producer.init_transactions(60)
    for number, end in enumerate(ends):
        producer.begin_transaction()
        for each in range(chance.randrange(1, 6)):
            producer.produce(topic, b"%s %d %d" % (end.encode(), number, each), partition=0)
        producer.flush()
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)()


@pytest.mark.parametrize("read_committed", [False, True])
def test_positions_on_markers_and_among_aborted_records_are_exact_across_engines(
    read_committed: bool, new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Also of groups that lag far behind, through chunks of the map that are full, and after engines began anew."""
    chance = random.Random(7)
    copying = new_copying(read_committed=read_committed)
    (source,) = copying.pairs
    for _ in range(3):
        ends = [chance.choice(["commit", "commit", "abort"]) for _ in range(20)]
        in_transactions(copying.flow.source_client, source.topic, ends, chance)
        copying.until_caught_up()
        new_process()
        copying.from_the_target()
    assert_exact(copying, source, lambda each: read_committed and (each.value or b"").startswith(b"abort"))


def test_positions_on_what_compaction_removed_are_exact_and_those_of_partitions_that_came_later(
    new_copying: NewCopying, east: Cluster, west: Cluster
) -> None:
    """The map goes on over growth; a target that is compacted by itself leads a reader to what is left of the copy."""
    copying = new_copying(configs=COMPACTED, copy_configs={"orders": COMPACTED})
    (source,) = copying.pairs
    target, client = copying.pairs[source], copying.flow.source_client
    roll = producer_to(client)

    def compacted(side: dict[str, str], partition: TopicPartition) -> Callable[[], bool]:
        def is_sparse() -> bool:
            # Only a segment that is no longer written to is cleaned, and only a write after a while closes one.
            roll.produce(source.topic, b"roll", os.urandom(8), source.partition)
            roll.flush()
            copying.until_caught_up([source])
            (end,) = ends_of(side, [partition]).values()
            return sum(1 for _ in read_records(side, partition, 0, end)) < end

        return is_sparse

    write(client, source, range(30))
    wait_until(compacted(client, source), "the source to be compacted", timeout_seconds=40)
    wait_until(compacted(copying.flow.target_client, target), "the copy to be compacted", timeout_seconds=40)
    for cluster, topic in ((east, source.topic), (west, target.topic)):
        assert [each.problem for each in cluster.grow_partitions({topic: 2})] == [None]
    later = TopicPartition(source.topic, 1)
    copying.pairs[later] = TopicPartition(target.topic, 1)
    for side, each in ((client, later), (copying.flow.target_client, copying.pairs[later])):
        wait_until(lambda side=side, each=each: can_tell(side, [each]), "the new partition", timeout_seconds=60)  # type: ignore[misc]
    write(client, later, range(20))
    copying.until_caught_up()

    assert_exact(copying, later)
    known = copying.state().offset_map(source)
    assert known is not None
    copies = copying.copies(source)
    for position in range(known.upstream_next + 1):
        found = known.translate(position)
        assert isinstance(found, Exact)
        # A copy lies behind the position exactly if its original does.
        for copied in copies:
            original = known.source_of(copied.offset)
            assert original is not None
            assert (copied.offset >= found.downstream) == (original >= position)


def test_a_map_grows_no_longer_than_the_log_of_the_copy(
    new_copying: NewCopying, west: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markers make a run a transaction; what the target has removed by itself is forgotten, and nothing else changes."""
    monkeypatch.setattr(lane, "RUNS_PER_CHUNK", 4)
    copying = new_copying()
    (source,) = copying.pairs
    target = copying.pairs[source]
    for part in range(6):
        in_transactions(copying.flow.source_client, source.topic, ["commit"] * 5, random.Random(part))
        copying.until_caught_up()
    before = copying.state().offset_map(source)
    assert before is not None
    start = before.downstream_next // 2
    faults.remove_first_records(west.bootstrap_servers, target, start)
    log = FlowLog(copying.flow.target_client, copying.flow.state_topic, alias="west")
    try:
        log.poll()
        report = DeadChunksTick(EAST_WEST, log, west, copying.dead.update).tick()
        assert (report.problems, report.done) == ((), len(copying.dead[source].chunks))
        assert report.done >= 2
        copying.until_caught_up()
        chunks = len(log.state.chunks[source])
        log.poll()
        assert len(log.state.chunks[source]) == chunks - report.done
        assert DeadChunksTick(EAST_WEST, log, west, copying.dead.update).tick().done == 0
    finally:
        log.close()
    copying.from_the_target()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    after = copying.state().offset_map(source)
    assert after is not None
    for position in range(before.upstream_next):
        expected = before.translate(position)
        assert isinstance(expected, Exact)
        # Behind the last copy of then lies the marker with which the engine that followed has fenced it.
        if start <= expected.downstream < before.downstream_next:
            assert after.translate(position) == expected
    kept = copying.originals(source)[-len(copying.copies(source)) :]
    assert_translated(after, kept, copying.copies(source))
    first = after.runs.first
    assert first is not None
    assert after.translate(0) == Exact(first.downstream)


def test_groups_on_a_topic_of_the_same_name_come_home(
    east: Cluster, west: Cluster, new_copying: NewCopying, unique: Callable[[str], str]
) -> None:
    """IdentityReplicationPolicy: what was read of the mirrored part is known at home; what was not is read there."""
    copying = new_copying()
    name, state = unique("shared"), unique("mm2-state")
    west.create_topics([NewTopic(name, 1, 1)])
    east.create_topics([NewTopic(name, 1, 1), NewTopic(state, 1, 1)])
    shared = TopicPartition(name, 0)
    clients = copying.flow.source_client, copying.flow.target_client
    for client in clients:
        wait_until(lambda client=client: can_tell(client, [shared]), "the topic", timeout_seconds=60)  # type: ignore[misc]
    copying.pairs = {shared: shared}
    in_transactions(clients[0], name, ["commit"] * 4, random.Random(5))
    copying.until_caught_up()
    mirrored = len(copying.copies(shared))
    # The disaster: what the old cluster still wrote never got across; the standby is written to.
    write(clients[0], shared, range(3))
    write(clients[1], shared, range(100, 107))

    forward = FlowLog(clients[0], state, alias="east")
    log = FlowLog(clients[1], copying.flow.state_topic, alias="west")
    translator = FlowTranslator(forward, lambda: log, IdentityReplicationPolicy(), "east")
    try:
        translator.refresh()
        originals = copying.originals(shared)
        # Behind the last record that was read; a marker may follow.
        assert translator.translate(shared, 0) == Exact(0)
        for copied, original in zip(range(mirrored), originals, strict=False):
            assert translator.translate(shared, copied + 1) == Exact(original.offset + 1)
        # In the part that only the standby has: home, to what was left behind there.
        end = originals[mirrored].offset
        assert translator.translate(shared, mirrored + 7) == Bounded(end, 7)
    finally:
        translator.close()
        forward.close()
