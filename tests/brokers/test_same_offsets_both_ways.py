"""Topics of one name that are copied both ways to the same offsets: one side is written to, the other follows."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from mirror.kafka import codes
from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import mirror
from tests.brokers.copying import delete_records, leave_marker, producer_to, write
from tests.brokers.same_offsets_both_ways import PATIENCE_SECONDS, SETTINGS, Pair
from tests.brokers.same_offsets_killed import read
from tests.brokers.same_offsets_late import late_append

pytestmark = pytest.mark.long

_TRANSACTIONS = 400


def test_no_record_goes_round_and_applications_move_there_and_back_without_anything_made_anew(pair: Pair) -> None:
    """Both topics are empty when the engine starts: a record used to come back into the topic it was written to."""
    orders = pair.orders
    with pair.engine() as first:
        pair.await_copied(pair.there, 0)
        pair.await_copied(pair.back, 0)
        write(pair.home, orders, range(10))
        pair.await_end(pair.away, 10)
        pair.await_copied(pair.back, 10)
        # The applications move.
        write(pair.away, orders, range(10, 15))
        pair.await_end(pair.home, 15)
        pair.await_copied(pair.there, 15)
        first.kill()
    write(pair.away, orders, range(15, 18))
    with pair.engine():
        pair.await_end(pair.home, 18)
        pair.await_copied(pair.there, 18)
        # And home again.
        write(pair.home, orders, range(18, 20))
        pair.await_end(pair.away, 20)
        pair.await_copied(pair.back, 20)
    at_home, away = (read(client, orders, "read_uncommitted") for client in (pair.home, pair.away))
    assert at_home == away
    assert len(at_home) == 20


@contextmanager
def applications_at_work(client: dict[str, str], partition: TopicPartition) -> Iterator[None]:
    """Write one record after the other meanwhile, as fast as they are acknowledged."""
    over, numbers = threading.Event(), itertools.count(1_000)

    def write_on() -> None:
        producer = producer_to(client, **{"linger.ms": 0})
        while not over.is_set():
            producer.produce(partition.topic, b"%d" % next(numbers), partition=partition.partition)
            producer.flush(60)

    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(write_on)
        try:
            yield
        finally:
            over.set()
        writing.result()


def test_the_flow_back_is_gone_on_with_while_applications_write_to_the_original(pair: Pair) -> None:
    """An engine that was started then found the original's end moving, and waited until nobody wrote for a moment."""
    orders = pair.orders
    with pair.engine():
        pair.await_copied(pair.there, 0)
        pair.await_copied(pair.back, 0)
        write(pair.home, orders, range(10))
        pair.await_copied(pair.back, 10)
    with applications_at_work(pair.home, orders), pair.engine() as engine:
        wait_until(
            lambda: [each["upstream_next"] for each in pair.status(pair.back)["partitions"]],
            f"{pair.back} to go on",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda found: found != [] and found[0] > 10,
        )
        assert "looked at again" not in engine.log_tail(100)


def test_a_marker_of_the_applications_at_the_end_of_the_original_is_nobody_s_truncation(
    pair: Pair, unique: Callable[[str], str]
) -> None:
    """The flow back stopped when it began while the original ended with a marker that was not copied yet."""
    orders = pair.orders
    write(pair.home, orders, range(10))
    with pair.engine():
        pair.await_end(pair.away, 10)
        pair.await_copied(pair.back, 10)
    leave_marker(pair.home, orders, unique("writer"))
    with pair.engine():
        pair.await_end(pair.away, 11)
        pair.await_copied(pair.back, 11)
        write(pair.home, orders, [11])
        pair.await_end(pair.away, 12)
        pair.await_copied(pair.back, 12)
    assert read(pair.away, orders, "read_uncommitted") == read(pair.home, orders, "read_uncommitted")


def test_short_transactions_one_after_the_other_are_copied_by_an_engine_that_keeps_up_with_them(
    pair: Pair, unique: Callable[[str], str]
) -> None:
    """A marker that the engine had just written was taken for somebody else's record: the partition stopped."""
    orders = pair.orders
    with pair.engine():
        pair.await_copied(pair.there, 0)
        pair.await_copied(pair.back, 0)
        writer = producer_to(pair.home, **{"transactional.id": unique("writer"), "linger.ms": 0})
        writer.init_transactions(60)
        for number in range(_TRANSACTIONS):
            writer.begin_transaction()
            writer.produce(orders.topic, b"%d" % number, partition=orders.partition)
            writer.commit_transaction(60)
        pair.await_copied(pair.there, 2 * _TRANSACTIONS)
    assert read(pair.away, orders, "read_uncommitted") == read(pair.home, orders, "read_uncommitted")


def test_what_applications_abort_on_either_side_is_no_difference_where_nobody_copies_it(
    pair: Pair, unique: Callable[[str], str]
) -> None:
    """It was extra on the target of the other flow: no planned failover and no failback got behind its comparison."""
    orders = pair.orders
    pair.settings += "".join(f"{each}.consumer.isolation.level = read_committed\n" for each in pair.aliases)

    def write_transactions(client: dict[str, str], count: int) -> None:
        writer = producer_to(client, transactional_id=unique("writer"))
        writer.init_transactions(60)
        for end in (writer.abort_transaction, writer.commit_transaction):
            writer.begin_transaction()
            for number in range(count):
                writer.produce(orders.topic, b"%d" % number, partition=orders.partition)
            writer.flush(60)
            end(60)

    with pair.engine():
        pair.await_copied(pair.there, 0)
        pair.await_copied(pair.back, 0)
        write_transactions(pair.home, 5)
        pair.await_copied(pair.there, 12)
        pair.await_copied(pair.back, 12)
        write_transactions(pair.away, 3)
        pair.await_copied(pair.back, 20)
        pair.await_copied(pair.there, 20)
    for flow in (pair.there, pair.back):
        found = mirror("verify", str(pair.file), "--flow", str(flow), "--others-write")
        assert found.returncode == 0, found.stdout + found.stderr
    assert read(pair.away, orders, "read_committed") == read(pair.home, orders, "read_committed")


def test_a_transaction_that_is_open_on_the_copy_is_not_waited_for_by_a_comparison(
    pair: Pair, unique: Callable[[str], str]
) -> None:
    """Where the flow back reads committed records: it was waited for 30 s, and the verdict was UNKNOWN."""
    orders = pair.orders
    pair.settings += "".join(f"{each}.consumer.isolation.level = read_committed\n" for each in pair.aliases)
    with pair.engine():
        write(pair.home, orders, range(5))
        pair.await_copied(pair.there, 5)
        pair.await_copied(pair.back, 5)
        writer = producer_to(pair.away, transactional_id=unique("writer"), **{"transaction.timeout.ms": 600_000})
        writer.init_transactions(60)
        writer.begin_transaction()
        writer.produce(orders.topic, b"open", partition=orders.partition)
        writer.flush(60)
        try:
            pair.await_end(pair.away, 6)
            found = mirror("verify", str(pair.file), "--flow", str(pair.there), "--others-write")
        finally:
            writer.abort_transaction(60)
        assert found.returncode == 0, found.stdout + found.stderr


def test_a_topic_with_records_is_followed_once_it_is_copied_and_stops_where_both_sides_have_others(pair: Pair) -> None:
    orders = pair.orders
    write(pair.home, orders, range(10))
    with pair.engine():
        pair.await_end(pair.away, 10)
        pair.await_copied(pair.back, 10)
    # Nobody copies while both are written to.
    write(pair.home, orders, [98, 99])
    write(pair.away, orders, range(10, 13))
    before = [read(client, orders, "read_uncommitted") for client in (pair.home, pair.away)]
    with pair.engine():
        pair.await_reason(pair.back, "with records that")
        pair.await_reason(pair.there, "with records that")
    assert [read(client, orders, "read_uncommitted") for client in (pair.home, pair.away)] == before


def test_what_only_the_old_cluster_has_is_not_passed_by_where_the_standby_has_removed_its_own(pair: Pair) -> None:
    """Five records of the old cluster passed for copied: neither status, stranded nor a failback named them."""
    orders = pair.orders
    write(pair.home, orders, range(5))
    with pair.engine():
        pair.await_end(pair.away, 5)
        pair.await_copied(pair.back, 5)
    # The old cluster is lost behind offset 10, and the applications go on on the other one.
    write(pair.home, orders, range(5, 10))
    # In one batch, of which the log has the end alone by then: a broker answers with the whole of it.
    write(pair.away, orders, range(100, 118), **{"linger.ms": 1000})
    delete_records(pair.away, orders, 20)
    with pair.engine():
        pair.await_reason(pair.back, "has none: waits until")
    assert list(read(pair.home, orders, "read_uncommitted")) == list(range(10))


def test_what_only_the_original_has_stays_there_where_its_copy_began_behind_it(pair: Pair) -> None:
    """The flow back, with nothing to copy, took it for padding of its own, and deleted it."""
    orders = pair.orders
    write(pair.home, orders, range(10))
    pair.settings = SETTINGS + "".join(f"{each}.consumer.auto.offset.reset = latest\n" for each in pair.aliases)
    with pair.engine():
        pair.await_end(pair.away, 10)
        pair.await_copied(pair.back, 10)
        # The head is filled before it is removed.
        wait_until(
            lambda: read(pair.away, orders, "read_uncommitted"),
            "the padding to be removed",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda found: found == {},
        )
    pair.heartbeats = ""
    for number in (10, 11):
        before = pair.copied_heartbeats(pair.back)
        with pair.engine():
            pair.await_heartbeats(pair.back, before)
            write(pair.home, orders, [number])
            pair.await_end(pair.away, number + 1)
            pair.await_copied(pair.back, number + 1)
    at_home = read(pair.home, orders, "read_uncommitted")
    assert list(at_home) == list(range(12))
    assert read(pair.away, orders, "read_uncommitted") == {each: at_home[each] for each in (10, 11)}


def test_once_both_flows_translate_what_arrives_late_is_refused_and_both_go_on(pair: Pair, west: Cluster) -> None:
    """It was there twice; and the flow back took the originals that it had passed by for copies somebody replaced."""
    orders = pair.orders
    with pair.engine() as first:
        pair.await_copied(pair.there, 0)
        write(pair.home, orders, range(10))
        pair.await_end(pair.away, 10)
        pair.await_copied(pair.back, 10)
        first.kill()
    late = late_append(pair.away, pair.there, west, orders, b"10")
    pair.settings = SETTINGS.replace("mirror.offsets = same", "mirror.offsets = translated")
    write(pair.home, orders, [10, 11])

    def await_records(client: dict[str, str], count: int) -> None:
        wait_until(
            lambda: len(read(client, orders, "read_uncommitted")),
            f"{count} records",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda found: found == count,
        )

    with pair.engine():
        await_records(pair.away, 12)
        assert late() == codes.INVALID_PRODUCER_EPOCH
        write(pair.away, orders, [12])
        await_records(pair.home, 13)
        write(pair.home, orders, [13])
        await_records(pair.away, 14)
        partitions = [each for flow in (pair.there, pair.back) for each in pair.status(flow)["partitions"]]
    assert [each["stopped"] for each in partitions if each["topic"] == orders.topic] == [None, None]
