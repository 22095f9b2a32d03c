"""On a long line more is asked for at once; on a narrow one, less; on a short one what did well stays."""

from __future__ import annotations

from mirror.kafka.fetch_sizes import FIRST_PARTITION_BYTES, FIRST_TOTAL_BYTES, FetchSizes
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
LIMIT = 64 << 20


def fetch(sizes: FetchSizes, round_trip: float, bandwidth: float, *, there: int = LIMIT) -> float:
    """Let one answer arrive over such a line; return the bytes a second it made."""
    asked = min(sizes.of(ORDERS, LIMIT), sizes.total(LIMIT))
    brought = min(asked, there)
    seconds = brought / bandwidth
    sizes.learn(brought, seconds, round_trip, {ORDERS: (asked, brought)})
    return brought / (round_trip + seconds)


def test_a_long_line_is_filled() -> None:
    """One partition, 80 ms: at 1 MB a round trip it would be 12 MB/s."""
    sizes = FetchSizes()
    assert fetch(sizes, 0.08, 200e6) < 13e6
    for _ in range(10):
        reached = fetch(sizes, 0.08, 200e6)
    assert reached > 100e6


def test_a_short_line_keeps_its_size() -> None:
    sizes = FetchSizes()
    for _ in range(10):
        fetch(sizes, 0.0003, 1e9)
    assert sizes.of(ORDERS, LIMIT) == FIRST_PARTITION_BYTES


def test_a_narrow_line_brings_answers_within_about_a_second() -> None:
    sizes = FetchSizes()
    for _ in range(10):
        sizes.learn(sizes.total(LIMIT), sizes.total(LIMIT) / 1.2e6, 0.01, {})
    assert sizes.total(LIMIT) == FIRST_PARTITION_BYTES


def test_many_partitions_together_grow_to_the_limit() -> None:
    sizes = FetchSizes()
    assert sizes.total(LIMIT) == FIRST_TOTAL_BYTES
    for _ in range(10):
        sizes.learn(sizes.total(LIMIT), sizes.total(LIMIT) / 1e9, 0.0003, {})
    assert sizes.total(LIMIT) == LIMIT


def test_a_partition_that_has_caught_up_goes_back() -> None:
    sizes = FetchSizes()
    for _ in range(3):
        fetch(sizes, 0.08, 200e6)
    assert sizes.of(ORDERS, LIMIT) > FIRST_PARTITION_BYTES
    fetch(sizes, 0.08, 200e6, there=1000)
    assert sizes.of(ORDERS, LIMIT) == FIRST_PARTITION_BYTES


def test_settings_are_kept_to() -> None:
    sizes = FetchSizes()
    assert (sizes.total(1000), sizes.of(ORDERS, 10)) == (1000, 10)


def test_an_answer_that_a_quota_holds_back_is_asked_for_smaller_until_one_comes() -> None:
    """A broker drops it whole: one as large as the quota's window never comes while others read a little beside it."""
    sizes, window = FetchSizes(), 100_000
    asked = []
    while sizes.total(LIMIT) > window:
        asked.append(sizes.total(LIMIT))
        sizes.throttled(asked[-1])
    assert asked == sorted(asked, reverse=True)
    assert sizes.total(LIMIT) > window // 2
    for _ in range(20):
        sizes.throttled(sizes.total(LIMIT))
    assert sizes.total(LIMIT) == 16 << 10


def test_after_a_quota_is_lifted_answers_grow_to_what_they_were() -> None:
    sizes = FetchSizes()
    for _ in range(8):
        sizes.throttled(sizes.total(LIMIT))
    small = sizes.total(LIMIT)
    sizes.brought(small // 4)
    assert sizes.total(LIMIT) == small, "there was no more"
    for _ in range(20):
        sizes.brought(sizes.total(LIMIT))
    assert sizes.total(LIMIT) == FIRST_TOTAL_BYTES


def test_a_reader_of_one_batch_that_is_held_back_makes_the_others_on_the_connection_ask_for_no_less() -> None:
    """However little is asked for, a batch comes whole: that it was held back says nothing of the size."""
    sizes = FetchSizes()
    sizes.throttled(1)
    assert sizes.allowed(LIMIT) == LIMIT
