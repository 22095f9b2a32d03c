"""What tails a MirrorMaker can leave, and what becomes of them; written here by a plain producer in its place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import confluent_kafka
import pytest

from mirror.copier.epoch_channel import EpochChannel
from mirror.copier.work import PartitionResult
from mirror.kafka.log import LogWriter
from mirror.model.gap import Acknowledgement, GapKind
from mirror.model.mm2_trace import Mm2Trace, Pair
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, NewCopying, contents, delete_before, write
from tests.brokers.java_copies import Java


@pytest.fixture
def made(new_copying: NewCopying) -> Callable[..., tuple[Copying, Java]]:
    """Make a topic with 100 records, and one who copies it in the place of Java MirrorMaker."""

    def make(**more: object) -> tuple[Copying, Java]:
        copying = new_copying(**more)
        (source,) = copying.pairs
        write(copying.flow.source_client, source, range(100))
        return copying, Java(copying, source)

    return make


def taken(copying: Copying, trace: Mm2Trace, java: Java) -> PartitionResult:
    """Take over, and copy on."""
    copying.mm2[java.source] = trace
    result = copying.take_over()[java.source]
    if result.stopped is None and result.trouble is None:
        copying.until_caught_up()
    return result


def assert_once(copying: Copying, java: Java) -> None:
    """Every record is there once, in order, and every position translates to it."""
    originals, copies = copying.originals(java.source), copying.copies(java.source)
    assert contents(copies) == contents(originals)
    known = copying.state().offset_map(java.source)
    assert known is not None
    for original, copy in zip(originals, copies, strict=True):
        if original.offset >= known.origin:
            assert known.translate(original.offset) == Exact(copy.offset)


Made = Callable[..., tuple[Copying, Java]]


@pytest.mark.parametrize("has_syncs", [True, False])
@pytest.mark.parametrize("position", [None, 20, 62])
@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
def test_a_tail_is_found_with_syncs_and_without(has_syncs: bool, position: int | None, stamps: str, made: Made) -> None:
    copying, java = made(copy_configs={"orders": {"message.timestamp.type": stamps}})
    java.life(0, 62)
    trace = java.trace(position)
    result = taken(copying, trace if has_syncs else replace(trace, stretches=()), java)
    assert result.stopped is None
    assert result.skipped_by_match == 62 - (position or 0)
    copies = copying.copies(java.source)
    assert [each.value for each in copies] == [each.value for each in copying.originals(java.source)]
    if stamps == "CreateTime":
        assert_once(copying, java)


def test_batches_are_compressed_as_its_producer_likes(made: Made) -> None:
    copying, java = made()
    java.life(0, 62, batch=30, **{"compression.type": "zstd"})
    assert taken(copying, java.trace(None), java).stopped is None
    assert_once(copying, java)


def test_what_it_copied_twice_stays_and_nothing_is_added_to_it(made: Made) -> None:
    copying, java = made()
    java.life(0, 62)
    java.life(20, 40)
    java.life(30, 70)
    assert taken(copying, java.trace(30), java).stopped is None
    values = [each.value for each in copying.copies(java.source)]
    numbers = [*range(62), *range(20, 40), *range(30, 100)]
    assert values == [b"value %d" % number for number in numbers]
    (report,) = copying.state().takeovers.values()
    assert (report.upstream, report.doubled, report.others) == (70, 20 + 32, 0)


def test_records_of_others_between_are_not_taken_for_copies(made: Made) -> None:
    """Where the topic keeps its name, others may write to it, with producer ids and without."""
    copying, java = made()
    target = TopicPartition(java.source.topic, 0)
    # A topic of the same name on the other cluster.
    made_there = confluent_kafka.admin.AdminClient(copying.flow.target_client)
    for done in made_there.create_topics([confluent_kafka.admin.NewTopic(target.topic, 1, 1)]).values():
        done.result(20)
    copying.pairs = {java.source: target}
    client = copying.flow.target_client
    write(client, target, range(500, 510))
    java.life(0, 30)
    write(client, target, range(600, 605))
    write(client, target, range(700, 705), enable_idempotence=True)
    java.life(30, 50)
    write(client, target, range(800, 803))
    for trace in (java.trace(None), replace(java.trace(20), stretches=())):
        copying.handovers.clear()
        copying.mm2[java.source] = trace
        result = copying.take_over()[java.source]
        assert result.stopped is None
        assert result.handover is not None
        assert result.handover.position.upstream == 50
    copying.until_caught_up()
    values = [each.value for each in copying.copies(java.source)]
    ours = [b"value %d" % number for number in range(100)]
    assert [value for value in values if value in set(ours)] == ours
    assert len(values) == 100 + 23


def test_a_partition_never_copied_begins_at_its_start_although_mm2_has_run(made: Made) -> None:
    copying, java = made()
    copying.mm2[java.source] = Mm2Trace()
    copying.until_caught_up()
    assert_once(copying, java)
    assert copying.state().takeovers == {}


def test_a_partition_with_an_unknown_tail_is_taken_over_first(made: Made) -> None:
    """MirrorMaker was killed at its first records, before a sync or a position was written."""
    copying, java = made()
    java.life(0, 5)
    copying.mm2[java.source] = Mm2Trace()
    result = copying.epoch()[java.source]
    assert (result.written_by_mm2, result.records) == (True, 0)
    assert taken(copying, Mm2Trace(), java).stopped is None
    assert_once(copying, java)


def test_what_does_not_fit_stops_the_partition_and_says_what_to_do(made: Made) -> None:
    copying, java = made()
    java.life(0, 30)
    write(copying.flow.target_client, copying.pairs[java.source], range(500, 505))
    result = taken(copying, java.trace(10), java)
    assert result.stopped is not None
    assert "offset 30 of the target" in result.stopped
    assert "mirror.takeover = position" in result.stopped
    # Which is to copy again what lies behind the position.
    copying.stopped.clear()
    assert taken(copying, replace(java.trace(10), matches=False), java).stopped is None
    values = [each.value for each in copying.copies(java.source)]
    assert values[35:] == [b"value %d" % number for number in range(10, 100)]


# Two flows that differ in their aliases only share the topic of offset syncs, and so its keys.
OTHERS = (Pair(3000, 3000), Pair(3100, 3100))


def test_syncs_of_another_flow_do_not_keep_a_copy_from_beginning(made: Made) -> None:
    copying, java = made()
    result = taken(copying, Mm2Trace(None, (OTHERS,)), java)
    assert (result.stopped, result.skipped_by_match) == (None, 0)
    assert "has never had a record and begins at its start" in result.note
    assert_once(copying, java)
    (report,) = copying.state().takeovers.values()
    assert (report.upstream, report.downstream, report.note) == (0, 0, result.note)


def test_a_copy_whose_records_were_deleted_is_not_one_that_never_had_any(made: Made) -> None:
    copying, java = made()
    java.life(0, 62)
    admin = confluent_kafka.admin.AdminClient(copying.flow.target_client)
    emptied = confluent_kafka.TopicPartition(*copying.pairs[java.source], 62)
    for done in admin.delete_records([emptied]).values():
        done.result(20)
    result = taken(copying, java.trace(None), java)
    assert result.stopped is not None
    assert "begins and ends at offset 62" in result.stopped
    assert copying.copies(java.source) == []


def test_among_syncs_of_another_flow_a_copy_is_found_by_its_contents(made: Made) -> None:
    copying, java = made()
    java.life(0, 62)
    trace = replace(java.trace(20), stretches=(*java.trace(20).stretches, OTHERS))
    result = taken(copying, trace, java)
    assert (result.stopped, result.skipped_by_match) == (None, 42)
    copies = copying.copies(java.source)
    assert contents(copies) == contents(copying.originals(java.source))


@pytest.mark.parametrize("left", [0, 30])
def test_a_copy_that_lacks_what_was_recorded_is_truncated_and_stops(left: int, made: Made) -> None:
    copying, java = made()
    java.life(0, left)
    result = taken(copying, Mm2Trace(40, ((Pair(0, 0), Pair(50, 50)),)), java)
    assert result.stopped is not None
    assert f"the target ends at {left}: it was truncated or created anew" in result.stopped
    assert len(copying.copies(java.source)) == left


def test_what_java_copied_behind_our_own_position_is_found_although_it_recorded_nothing(made: Made) -> None:
    copying, java = made()
    copying.until_caught_up()
    write(copying.flow.source_client, java.source, range(100, 200))
    java.life(100, 150)
    copying.from_the_target()
    copying.mm2[java.source] = java.trace(None)
    result = copying.epoch()[java.source]
    assert (result.written_by_mm2, result.records) == (True, 0)
    result = taken(copying, java.trace(None), java)
    assert result.skipped_by_match == 50
    assert_once(copying, java)


def test_our_own_tail_behind_our_position_is_no_javas(made: Made) -> None:
    """A killed engine leaves syncs of its own beyond its position."""
    copying, java = made()
    copying.until_caught_up()
    recorded = {source: replace(handover, clean=False) for source, handover in copying.handovers.items()}
    write(copying.flow.source_client, java.source, range(100, 150))
    copying.until_caught_up()
    copying.handovers = recorded
    copying.mm2[java.source] = Mm2Trace(None, ((Pair(100, 100), Pair(140, 140)),))
    result = copying.epoch()[java.source]
    assert (result.written_by_mm2, result.skipped_by_match) == (False, 50)
    assert_once(copying, java)


def lost(copying: Copying, source: TopicPartition, trace: Mm2Trace) -> PartitionResult:
    """Go on without any position, with what is then known of a partition, and tell what becomes of it."""
    copying.handovers.clear()
    copying.flow = replace(copying.flow, writers=frozenset())
    copying.mm2[source] = trace
    assert copying.epoch()[source].written_by_mm2
    return copying.take_over()[source]


def test_a_copy_whose_positions_are_lost_is_found_by_its_contents(made: Made) -> None:
    """Also behind what the source has removed since; nothing is copied twice."""
    copying, java = made()
    copying.until_caught_up()
    write(copying.flow.source_client, java.source, range(100, 120))
    delete_before(copying, java.source, 50)
    result = lost(copying, java.source, Mm2Trace(is_alone=True))
    assert (result.stopped, result.skipped_by_match) == (None, 50)
    copying.until_caught_up()
    assert [each.value for each in copying.copies(java.source)] == [b"value %d" % number for number in range(120)]


@pytest.mark.parametrize("from_latest", [False, True])
def test_a_copy_of_unknown_origin_stops_its_partition_until_somebody_says_that_it_may_go_on(
    from_latest: bool, made: Made
) -> None:
    """It then goes on at the start of the source, or its end, as the file says."""
    copying, java = made(from_latest=from_latest)
    write(copying.flow.target_client, copying.pairs[java.source], range(500, 505))
    for _ in range(2):
        result = lost(copying, java.source, Mm2Trace(is_alone=True))
        assert result.stopped is not None
        assert "no copy of the first record that the source has" in result.stopped
        assert "mirror gaps FILE --acknowledge" in result.stopped
        (gap,) = copying.state().gaps.values()
        assert (gap.kind, gap.source, gap.downstream, gap.passed) == (GapKind.UNKNOWN_ORIGIN, java.source, 5, False)
        copying.stopped.clear()
        copying.discover()
    writer = LogWriter(copying.flow.target_client)
    writer.append(copying.flow.state_topic, 0, [(*Acknowledgement("ann", "a test", 1).record(gap.key), (), 1)])
    writer.close()
    copying.discover()
    copying.mm2[java.source] = Mm2Trace(is_alone=True)
    copying.until_caught_up()
    values = [each.value for each in copying.copies(java.source)]
    assert values[5:] == [b"value %d" % number for number in range(0 if not from_latest else 100, 100)]
    assert copying.state().barriers == {}


def test_a_takeover_whose_driver_no_longer_leads_the_flow_writes_nothing(made: Made) -> None:
    """It has read for long; another engine leads by now. With the right to, it writes down why it stops."""
    copying, java = made()
    write(copying.flow.target_client, copying.pairs[java.source], range(500, 505))
    for seconds, gaps in ((0.0, 0), (60.0, 1)):
        with EpochChannel("127.0.0.1", write_seconds=lambda left=seconds: left) as epoch_channel:  # type: ignore[misc]
            copying.mm2[java.source] = Mm2Trace(is_alone=True)
            result = copying.take_over(epoch_channel.address)[java.source]
        assert len(copying.state().gaps) == gaps
        said = result.stopped if gaps else result.trouble
        assert said is not None
        assert ("nothing is written" in said) is (gaps == 0)


def test_an_empty_copy_begins_at_the_start_whatever_the_syncs_say_of_a_former_one(made: Made) -> None:
    copying, java = made()
    assert taken(copying, Mm2Trace(None, ((Pair(0, 0), Pair(60, 60)),)), java).stopped is None
    assert_once(copying, java)


def test_an_open_transaction_on_the_target_is_waited_for(made: Made) -> None:
    """What a killed MirrorMaker wrote exactly once is not there before its transaction has ended."""
    copying, java = made()
    java.life(0, 20)
    target = copying.pairs[java.source]
    producer = confluent_kafka.Producer({**copying.flow.target_client, "transactional.id": target.topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    (after,) = (each for each in copying.originals(java.source) if each.offset == 20)
    producer.produce(target.topic, after.value, after.key, target.partition, timestamp=after.timestamp)
    producer.flush()
    began = time.monotonic()
    result = taken(copying, java.trace(10), java)
    assert result.trouble is not None
    assert "open transaction from offset 20" in result.trouble
    # It would end by itself after a minute.
    assert time.monotonic() - began < 40
    producer.abort_transaction()
    wait_until(lambda: taken(copying, java.trace(10), java).trouble is None, "its end", timeout_seconds=60)
    copies = [each for each in copying.copies(java.source) if each.offset != 20]
    assert contents(copies) == contents(copying.originals(java.source))
