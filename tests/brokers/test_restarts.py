"""What others have written into a copy is not read again at a restart, and nothing of ours is copied twice for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mirror.copier import loop, placing
from mirror.copier.tail_match import Batch
from mirror.kafka import partition_state
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import Channel
from mirror.kafka.log import LogWriter
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, NewCopying, assert_copied, ends_of, producer_to, write
from tests.brokers.late import send_late

OTHERS = 40_000_000


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches of the target that are read to find out where to begin."""
    sizes: list[int] = []
    read_batches = placing.read_batches

    def reading(channel: Channel, partition: TopicPartition, start: int, end: int, **how: bool) -> Iterator[Batch]:
        for content, header in read_batches(channel, partition, start, end, **how):
            if channel.alias == "west" and not header.is_control:
                sizes.append(len(content))
            yield content, header

    monkeypatch.setattr(placing, "read_batches", reading)
    return sizes


def write_as_others(copying: Copying, target: TopicPartition, size: int = OTHERS) -> None:
    """Write as applications do that use the same topic on the target."""
    producer = producer_to(copying.flow.target_client, linger_ms=50, batch_size=500_000)
    for _ in range(size // 10_000):
        producer.produce(target.topic, b"x" * 10_000, partition=target.partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def settle(copying: Copying) -> None:
    """Record what an engine records when it has been told to stop."""
    writer = LogWriter(copying.flow.target_client)
    for source, handover in copying.handovers.items():
        assert handover.clean
        assert handover.is_recorded
        key, value = replace(handover.position, settled=True).record(source)
        writer.append(copying.flow.state_topic, 0, [(key, value, (), 1)])
    writer.close()


def test_after_a_clean_stop_nothing_of_the_copy_is_read(
    new_copying: NewCopying, new_process: Callable[[], None], matched: list[int]
) -> None:
    """And the mark is gone before anything more is copied: killed then, it is matched again."""
    copying = new_copying()
    ((source, target),) = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    settle(copying)
    write_as_others(copying, target)
    matched.clear()
    copying.from_the_target()
    new_process()
    assert copying.handovers[source].position.settled
    write(copying.flow.source_client, source, range(10, 20))
    copying.until_caught_up()
    assert matched == []
    assert not copying.state().positions[source].settled
    before = copying.handovers[source]
    write(copying.flow.source_client, source, range(20, 30))
    copying.until_caught_up()
    # As if it had been killed before it could record the last ten.
    copying.from_the_target()
    copying.handovers[source] = replace(before, clean=False)
    new_process()
    copying.until_caught_up()
    assert_copied(copying)


def test_a_killed_copy_reads_little_of_what_others_wrote_while_it_rested(
    new_copying: NewCopying, new_process: Callable[[], None], matched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PASS_BY_SECONDS", 0.1)
    copying = new_copying()
    ((source, target),) = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    write_as_others(copying, target)
    (end,) = ends_of(copying.flow.target_client, [target]).values()

    def recorded() -> int:
        copying.epoch()
        return copying.state().positions[source].downstream

    wait_until(recorded, "the position to pass by", timeout_seconds=60, until=lambda at: at == end)
    matched.clear()
    copying.from_the_target()
    new_process()
    write(copying.flow.source_client, source, range(10, 20))
    copying.until_caught_up()
    assert sum(matched) < OTHERS / 100
    assert_copied(copying)


def test_a_killed_copy_reads_nothing_of_what_others_wrote_since_if_the_target_knows_of_nothing_more_of_its_own(
    new_copying: NewCopying, new_process: Callable[[], None], matched: list[int]
) -> None:
    """Also when it was killed once more, before anything was copied."""
    copying = new_copying()
    ((source, target),) = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    for number in (1, 2):
        write_as_others(copying, target)
        copying.from_the_target()
        new_process()
        matched.clear()
        copying.epoch()
        assert matched == []
        assert copying.handovers[source].clean, number
    write(copying.flow.source_client, source, range(10, 20))
    copying.until_caught_up()
    assert_copied(copying)


def test_what_a_killed_copy_had_written_behind_its_position_is_found_among_what_others_wrote(
    new_copying: NewCopying, new_process: Callable[[], None], matched: list[int]
) -> None:
    """It is sent before it is asked for, or between that and the fence."""
    copying = new_copying()
    ((source, target),) = copying.pairs.items()
    for number, is_asked_before in enumerate((False, True)):
        write(copying.flow.source_client, source, range(20 * number, 20 * number + 10))
        copying.until_caught_up()
        killed, sequence = copying.flow.producer, copying.sequences[target]
        assert killed is not None
        write_as_others(copying, target, OTHERS // 10)
        write(copying.flow.source_client, source, range(20 * number + 10, 20 * number + 20))
        left = copying.originals(source)[-10:]
        copying.from_the_target()
        new_process()
        if is_asked_before:
            assert copying.writers is not None
            copying.writers._former = copying.state().producer
            copying.foreign_until({target})
            assert copying.handovers[source].foreign_until is not None
        assert send_late(copying, target, killed, sequence, left) == 0
        matched.clear()
        copying.until_caught_up()
        assert (sum(matched) < OTHERS / 100) is is_asked_before
        assert_copied(copying)


def test_a_long_tail_is_matched_piece_by_piece_while_others_are_copied(
    new_copying: NewCopying, new_process: Callable[[], None], matched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was matched when an epoch was over is not matched again by the next.

    A target as old as Kafka 2.7 does not tell what its producers have written last.
    """
    monkeypatch.setattr(partition_state, "active_producers", lambda *_: PartitionAnswers())
    monkeypatch.setattr(placing, "_MATCH_SECONDS", 0.02)
    copying = new_copying(partitions=2)
    (long, long_copy), (short, _) = copying.pairs.items()
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    write_as_others(copying, long_copy)
    copying.from_the_target()
    new_process()
    matched.clear()
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(10, 20))
    seen = wait_until(
        lambda: copying.epoch(0.2), "the short one", timeout_seconds=60, until=lambda seen: seen[short].records > 0
    )
    assert seen[short].trouble is None
    copying.until_caught_up()
    # Each piece but the first may begin with a fetch of what the one before has read.
    assert sum(matched) < 2 * OTHERS
    assert long in copying.handovers
    assert_copied(copying)
