"""Copying with the source's offsets, as tasks do it: records where they belong, whatever the source has no record of."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror.copier import hole_filling
from mirror.copier.work import Handover, PartitionResult
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Record, encode
from mirror.kafka.channel import EARLIEST
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.kafka.log_tail import LogTail
from mirror.model.gap import GapKind
from mirror.model.offset_map import Run
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.transforms.chain import Chain, ChainedTransform
from mirror.model.transforms.python_function import PythonFunction
from mirror.model.translation import Same
from mirror.same_offsets import fillers
from mirror.same_offsets.chain import producer_of
from mirror.waiting import wait_until
from tests.brokers.copying import (
    Copying,
    NewCopying,
    as_program,
    delete_before,
    ends_of,
    leave_marker,
    producer_to,
    write,
)
from tests.brokers.same_offsets_killed import fill, read

LIMIT, NOW = 1_000_000, 1_700_000_000_000


@pytest.fixture
def same_copying(new_copying: NewCopying) -> Callable[..., Copying]:
    def make(*topics: str, **settings: Any) -> Copying:
        made = new_copying(*topics, **settings)
        made.pad_limit = LIMIT
        made.from_the_target()
        return made

    return make


def assert_same(copying: Copying) -> None:
    """Every record is at its offset, for every reader, and every position leads where it led on the source."""
    isolation = "read_committed" if copying.flow.read_committed else "read_uncommitted"
    state = copying.state()
    for source, target in copying.pairs.items():
        originals = read(copying.flow.source_client, source, isolation)
        for each in ("read_committed", "read_uncommitted"):
            assert read(copying.flow.target_client, target, each) == originals
        ends = ends_of(copying.flow.source_client, [source])
        assert ends_of(copying.flow.target_client, [target])[target] == ends[source]
        known, (start,) = state.offset_map(source), ends_of(copying.flow.source_client, [source], EARLIEST).values()
        assert known is not None
        assert known.upstream_next == known.downstream_next == ends[source]
        assert all(known.translate(each) == Same(each) for each in range(max(start, known.origin), ends[source] + 1))


@pytest.mark.parametrize("read_committed", [False, True])
def test_every_record_has_its_offset_behind_a_removed_head_transactions_and_a_long_hole(
    same_copying: Callable[..., Copying], read_committed: bool
) -> None:
    copying = same_copying(read_committed=read_committed)
    (source,) = copying.pairs
    fill(copying.flow.source_client, source)
    copying.until_caught_up()
    assert_same(copying)
    tail = LogTail(copying.flow.source_client, copying.flow.syncs_topic or "")
    syncs = [sync for each in tail.poll() if (sync := OffsetSync.parse(each.key, each.value))]
    tail.close()
    assert syncs
    assert all(each.upstream == each.downstream for each in syncs)
    # Somebody else goes on from what the target says.
    copying.from_the_target()
    write(copying.flow.source_client, source, range(300, 320))
    copying.until_caught_up()
    assert_same(copying)


def test_a_compacted_copy_has_tombstones_of_the_reserved_key_where_the_source_has_nothing(
    same_copying: Callable[..., Copying],
) -> None:
    copying = same_copying(copy_configs={"orders": {"cleanup.policy": "compact"}}, read_committed=True)
    (source, target), *_ = copying.pairs.items()
    fill(copying.flow.source_client, source)
    copying.until_caught_up()
    assert_same(copying)
    assert fillers.RESERVED_KEY in {each.key for each in copying.copies(source)}
    assert ends_of(copying.flow.target_client, [target], EARLIEST) == {target: 0}


@pytest.mark.long
def test_aborted_transactions_of_many_partitions_are_filled_together(
    same_copying: Callable[..., Copying], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker for each offset and partition by itself would be 1,240 empty transactions; the source would get away."""
    asked = {"one": 0, "many": 0}

    def counting(kind: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            asked[kind] += 1
            return ask(*arguments, **named)

        return counted

    monkeypatch.setattr(hole_filling, "leave_one", counting("one", hole_filling.leave_one))
    monkeypatch.setattr(hole_filling, "leave_many", counting("many", hole_filling.leave_many))
    copying = same_copying(partitions=10, read_committed=True)
    producer = producer_to(copying.flow.source_client, transactional_id=f"{next(iter(copying.pairs))}")
    producer.init_transactions()
    for _ in range(4):
        for is_kept, count in ((True, 1), (False, 30)):
            producer.begin_transaction()
            for each in copying.pairs:
                for _ in range(count):
                    producer.produce(each.topic, b"x", partition=each.partition)
            producer.flush()
            if is_kept:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    copying.until_caught_up()
    assert_same(copying)
    # How many partitions wait at once depends on the machine: one by one each would take its own.
    assert asked["many"] > 0
    assert asked["one"] + asked["many"] < 10 * 4 * 31 / 4


@pytest.mark.long
def test_a_copier_that_is_killed_at_any_moment_leaves_every_record_once_at_its_offset(
    same_copying: Callable[..., Copying],
) -> None:
    """Records, transactions and holes come in meanwhile; two copiers at once for a while, as behind a frozen one."""
    copying = same_copying("orders", "payments", partitions=2)
    client = copying.flow.source_client
    first = next(iter(copying.pairs))
    fill(client, first)

    def copied() -> int:
        return sum(ends_of(copying.flow.target_client, list(copying.pairs.values())).values())

    for number in range(6):
        # Counted before the copiers begin: on a slow machine they have copied everything by the time all is written.
        before = copied()
        at_once = [begun_copying(copying) for _ in range(1 + number % 2)]
        for each in copying.pairs:
            write_in_transactions(client, each, number)
            write(client, each, range(400 + 50 * number, 450 + 50 * number))
        wait_until(
            copied, "the copies to grow", until=lambda copied, before=before: copied > before, timeout_seconds=120
        )
        for process in at_once:
            process.kill()
            process.wait()
    copying.from_the_target()
    copying.until_caught_up()
    assert_same(copying)


def begun_copying(copying: Copying) -> subprocess.Popen[bytes]:
    return subprocess.Popen(as_program(copying))


def write_in_transactions(client: dict[str, str], source: TopicPartition, number: int) -> None:
    producer = producer_to(client, transactional_id=f"{source}-{number}")
    producer.init_transactions()
    for each in range(5):
        producer.begin_transaction()
        for record in range(each):
            producer.produce(source.topic, b"%d %d" % (number, record), b"k", source.partition)
        producer.flush()
        if each % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()


def test_what_somebody_else_writes_stops_the_partition_by_name(same_copying: Callable[..., Copying]) -> None:
    copying = same_copying()
    (source, target), *_ = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    write(copying.flow.target_client, target, [0])
    write(copying.flow.source_client, source, range(10, 20))
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert f"{target}" in stopped
    assert "somebody else" in stopped
    # Nothing of it is on record, and whoever is next finds it, too.
    copying.from_the_target()
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert "somebody else" in stopped


def test_what_somebody_else_writes_just_where_the_source_has_a_hole_is_not_taken_for_what_fills_it(
    same_copying: Callable[..., Copying], unique: Callable[[str], str]
) -> None:
    """The copy then ends where the source goes on, and nothing that follows is shifted."""
    copying = same_copying()
    (source, target), *_ = copying.pairs.items()
    results: list[PartitionResult] = []
    copier = threading.Thread(target=lambda: results.extend(copying.epoch(30.0).values()))
    copier.start()
    write(copying.flow.source_client, source, range(10))
    wait_until(
        lambda: ends_of(copying.flow.target_client, [target])[target],
        "ten records",
        until=lambda end: end == 10,
        timeout_seconds=60,
    )
    write(copying.flow.target_client, target, [0])
    leave_marker(copying.flow.source_client, source, unique("shop"))
    copier.join()
    (lost,) = results
    assert lost.trouble == f"{target} ends at 11, and not at 10: what lies there is looked up"
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert f"{target} on west: somebody else has written at offset 10" in stopped


def test_a_copy_that_holds_records_of_other_offsets_is_refused_by_name(same_copying: Callable[..., Copying]) -> None:
    copying = same_copying("orders", "payments")
    orders, payments = copying.pairs
    write(copying.flow.source_client, orders, range(10))
    write(copying.flow.source_client, payments, range(10))
    write(copying.flow.target_client, copying.pairs[orders], [0])
    results = copying.epoch(5.0)
    stopped = results[orders].stopped
    assert stopped is not None
    assert "nothing says that they are the source's" in stopped
    assert results[payments].stopped is None
    copying.until_caught_up([payments])
    ends = ends_of(copying.flow.target_client, list(copying.pairs.values()))
    assert ends == {copying.pairs[orders]: 1, copying.pairs[payments]: 10}


def test_what_retention_removes_before_it_is_copied_is_a_gap_and_later_records_keep_their_offsets(
    same_copying: Callable[..., Copying],
) -> None:
    copying = same_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    write(copying.flow.source_client, source, range(10, 200))
    delete_before(copying, source, 150)
    copying.until_caught_up()
    copies = {each.offset: each.value for each in copying.copies(source)}
    assert copies == {each: b"value %d" % each for each in (*range(10), *range(150, 200))}
    assert [(gap.start, gap.end) for gap in copying.state().open_gaps] == [(10, 150)]


def test_a_copy_that_was_deleted_is_made_anew_and_a_source_that_was_created_anew_stops_by_name(
    same_copying: Callable[..., Copying], east: Cluster, west: Cluster
) -> None:
    copying = same_copying()
    (source, target), *_ = copying.pairs.items()
    client = copying.flow.source_client
    write(client, source, range(10))
    copying.until_caught_up()
    created_anew(west, target.topic)
    copying.from_the_target()
    write(client, source, range(10, 20))
    delete_before(copying, source, 5)
    copying.until_caught_up()
    assert_same(copying)
    assert sorted(read(copying.flow.target_client, target, "read_uncommitted")) == list(range(5, 20))
    created_anew(east, source.topic)
    write(client, source, range(3))
    copying.from_the_target()
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert "was deleted and created anew" in stopped
    assert ends_of(copying.flow.target_client, [target]) == {target: 20}
    # Once the copy is deleted, too, it begins with what the source has now.
    created_anew(west, target.topic)
    copying.from_the_target()
    copying.until_caught_up()
    assert_same(copying)


def created_anew(cluster: Cluster, topic: str) -> None:
    (gone,) = cluster.delete_topics([topic])
    assert gone.problem is None
    wait_until(lambda: topic not in cluster.topics([topic]), f"{topic} to be gone", timeout_seconds=120)
    (made,) = wait_until(
        lambda: cluster.create_topics([NewTopic(topic, 1, 1, {"retention.ms": "-1"})]),
        f"{topic} to be made",
        timeout_seconds=120,
        until=lambda results: results[0].problem is None,
    )
    assert made.problem is None


def test_a_marker_in_the_place_of_a_record_stops_whoever_takes_over(
    same_copying: Callable[..., Copying], unique: Callable[[str], str]
) -> None:
    """It is no record of anybody, and the copy is as long as it should be: what it lacks is seen by the source."""
    copying = same_copying()
    (source, target), *_ = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    leave_marker(copying.flow.target_client, target, unique("stranger"))
    copying.from_the_target()
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert f"goes up to offset 11, and {source} on east ends at 10" in stopped
    write(copying.flow.source_client, source, range(10, 12))
    copying.from_the_target()
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert "something else lies at offset 10, where the source has a record" in stopped


def as_if_cut_off(copying: Copying, source: TopicPartition) -> None:
    """As if the copy, which has ten records, had held the ten that the source gets now, too."""
    write(copying.flow.source_client, source, range(10, 20))
    handover = copying.handovers[source]
    position = replace(handover.position, upstream=20, downstream=20)
    copying.handovers[source] = replace(handover, position=position, runs=(Run(0, 0, 20),))


@pytest.mark.parametrize("came", ["nothing", "a record", "a marker"])
def test_a_copy_that_was_cut_off_is_gone_on_with_unless_something_came_behind_the_cut(
    same_copying: Callable[..., Copying], unique: Callable[[str], str], came: str
) -> None:
    """What the target has lost (an unclean leader election) is copied again, but not over what is there now."""
    copying = same_copying()
    (source, target), *_ = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    as_if_cut_off(copying, source)
    if came == "a record":
        write(copying.flow.target_client, target, [0])
    elif came == "a marker":
        leave_marker(copying.flow.target_client, target, unique("stranger"))
    result = copying.epoch(5.0)[source]
    if came == "nothing":
        assert result.stopped is None
        assert "ended at offset 10, before the position 20 on record" in result.note
        copying.until_caught_up()
        assert_same(copying)
    else:
        assert result.stopped is not None
        assert f"{target} on west: " in result.stopped
        found = "somebody else has written at offset 10" if came == "a record" else "something else lies at offset 10"
        assert found in result.stopped


def test_what_the_target_has_lost_and_the_source_has_removed_since_is_a_gap_and_the_rest_is_copied_again(
    same_copying: Callable[..., Copying],
) -> None:
    """An unclean leader election on the target, and retention on the source: the records are nowhere any more."""
    copying = same_copying()
    (source, target), *_ = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    as_if_cut_off(copying, source)
    delete_before(copying, source, 15)
    copying.until_caught_up()
    copies = read(copying.flow.target_client, target, "read_uncommitted")
    assert list(copies) == [*range(10), *range(15, 20)]
    (gap,) = copying.state().gaps.values()
    assert (gap.source, gap.start, gap.end, gap.kind) == (source, 10, 15, GapKind.RETENTION)


@pytest.mark.parametrize("changed", ["value", "header"])
def test_whatever_record_behind_the_position_on_record_is_not_the_source_s_stops_whoever_takes_over(
    same_copying: Callable[..., Copying], changed: str
) -> None:
    """As behind a source that was truncated and written to while no engine ran: its last record may be the same."""
    copying = same_copying()
    (source, target), *_ = copying.pairs.items()
    originals = [Record(each, NOW, b"k", b"%d" % each, (("h", b"same"),), -1) for each in range(10)]
    others = {
        "value": originals[4]._replace(value=b"other"),
        "header": originals[4]._replace(headers=(("h", b"other"),)),
    }
    copies = [*originals[:4], others[changed], *originals[5:]]
    with Appender("east", copying.flow.source_client) as appender:
        assert appender.append(source, encode(originals, 0)).code == 0
    with Appender("west", copying.flow.target_client) as appender:
        assert appender.append(target, encode(copies, 0, producer_of(copying.flow.flow), 0)).code == 0
    begun = Position(0, 0, 0, True, same_offsets=True)
    copying.handovers[source] = Handover(begun, (), clean=False)
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert f"{target} on west: its record at offset 4 is not the source's" in stopped


def test_a_marker_in_the_place_of_a_record_is_seen_behind_transforms_and_what_they_drop_is_missed_by_nobody(
    same_copying: Callable[..., Copying], unique: Callable[[str], str]
) -> None:
    copying = same_copying()
    copying.transforms = Chain((ChainedTransform("mine", PythonFunction("tests.transform_functions:drop_odd")),))
    (source, target), *_ = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    assert sorted(read(copying.flow.target_client, target, "read_uncommitted")) == [0, 2, 4, 6, 8]
    # As if nothing of it were on record yet.
    handover = copying.handovers[source]
    position = replace(handover.position, upstream=0, downstream=0, epochs=())
    copying.handovers[source] = Handover(position, (), clean=False)
    assert copying.epoch(3.0)[source].stopped is None
    leave_marker(copying.flow.target_client, target, unique("stranger"))
    write(copying.flow.source_client, source, range(10, 20))
    copying.handovers[source] = Handover(position, (), clean=False)
    stopped = copying.epoch(3.0)[source].stopped
    assert stopped is not None
    assert "something else lies at offset 10, where the source has a record" in stopped


def test_a_copy_that_was_translated_in_between_is_refused_from_then_on(same_copying: Callable[..., Copying]) -> None:
    copying = same_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    copying.pad_limit = None
    copying.from_the_target()
    write(copying.flow.source_client, source, range(10, 20))
    copying.until_caught_up()
    assert not copying.state().positions[source].same_offsets
    copying.pad_limit = LIMIT
    copying.from_the_target()
    stopped = copying.epoch(5.0)[source].stopped
    assert stopped is not None
    assert "was copied to other offsets" in stopped
