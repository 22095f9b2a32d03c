"""Who has written between two looks: by id where brokers tell, and markers are no records."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import cast

import pytest

from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.partition_state import ActiveProducer
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.recovery.late_writers import LateWriter
from mirror.recovery.sentinel import Look, StillWritten, Watched, look, seen_in, still_written, until_quiet

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
SHOP = ActiveProducer(40, 2, 7, 1_000)
TILL = ActiveProducer(41, 0, 3, 900)


def test_who_wrote_is_named_and_who_was_there_before_is_not() -> None:
    before = Look({ORDERS: 10, BILLS: 5}, {ORDERS: (SHOP, TILL), BILLS: (TILL,)})
    later = replace(SHOP, last_sequence=9)
    now = Look({ORDERS: 12, BILLS: 5}, {ORDERS: (later, TILL), BILLS: (TILL,)})
    assert still_written(before, now) == (StillWritten(ORDERS, 10, 12, (later,)),)
    assert still_written(now, now) == ()
    (one,) = still_written(Look({BILLS: 4}), Look({BILLS: 5}))
    assert (one.start, one.end) == (4, 5), "one record is enough"


def test_who_has_got_a_new_epoch_and_written_nothing_has_not_written_and_who_began_again_at_0_has() -> None:
    """Taking an id over appends a marker; sequences wrap, and records may bear any time."""
    before = Look({ORDERS: 10}, {ORDERS: (SHOP,)})
    taken = replace(SHOP, epoch=3, last_sequence=-1)
    (found,) = still_written(before, Look({ORDERS: 11}, {ORDERS: (taken,)}))
    assert (found.producers, found.is_marker) == ((), True)
    for wrote in (replace(SHOP, last_sequence=0), replace(SHOP, last_sequence=9), replace(SHOP, last_timestamp_ms=1)):
        (found,) = still_written(before, Look({ORDERS: 11}, {ORDERS: (wrote,)}))
        assert (found.producers, found.is_marker) == ((wrote,), False)


def test_a_new_producer_and_one_with_a_new_epoch_have_written() -> None:
    before = Look({ORDERS: 10}, {ORDERS: (SHOP,)})
    again = replace(SHOP, epoch=3, last_sequence=0)
    (found,) = still_written(before, Look({ORDERS: 12}, {ORDERS: (again, TILL)}))
    assert found.producers == (again, TILL)


def test_where_no_producer_has_changed_it_was_one_without_an_id() -> None:
    """Its one record at offset 10 was said to reach to 11, and in ``mirror status`` to 10."""
    (found,) = still_written(Look({ORDERS: 10}, {ORDERS: (SHOP,)}), Look({ORDERS: 11}, {ORDERS: (SHOP,)}))
    assert (found.producers, found.is_marker) == ((), False)
    assert found.describe({}, {}) == "orders-0 from 10 to 10: a client without a producer id"


def test_a_transaction_whose_marker_took_the_producer_s_sequences_is_its_producer_s() -> None:
    """From Kafka 4 each marker has a new epoch: it was "a client without a producer id", unless a look saw it open."""
    before = Look({ORDERS: 10}, {ORDERS: (SHOP, TILL)})
    done = replace(SHOP, epoch=3, last_sequence=-1)
    (found,) = still_written(before, Look({ORDERS: 12}, {ORDERS: (done, TILL)}))
    assert (found.producers, found.is_marker) == ((done,), False)
    (found,) = still_written(Look({ORDERS: 10}), Look({ORDERS: 12}, {ORDERS: (done,)}))
    assert found.producers == (done,), "its first transaction"
    till = replace(TILL, last_sequence=4)
    (found,) = still_written(before, Look({ORDERS: 13}, {ORDERS: (done, till)}))
    assert set(found.producers) == {done, till}


def test_who_has_only_ended_a_transaction_beside_another_s_record_is_not_named() -> None:
    was_open = Look({ORDERS: 10}, {ORDERS: (replace(SHOP, open_since=8), TILL)})
    done, till = replace(SHOP, epoch=3, last_sequence=-1), replace(TILL, last_sequence=4)
    (found,) = still_written(was_open, Look({ORDERS: 12}, {ORDERS: (done, till)}))
    assert found.producers == (till,)
    (found,) = still_written(was_open, Look({ORDERS: 12}, {ORDERS: (done, TILL)}))
    assert found.producers == (done,), "nobody else is known to have written"
    (found,) = still_written(was_open, Look({ORDERS: 12}, {ORDERS: (SHOP, TILL)}))
    assert found.producers == (), "its sequence is the former one"


class _WritingOn:
    """A leader to whose log a producer appends a record before each request, so many times, and then no more."""

    def __init__(self, records: int) -> None:
        self.records, self.end = records, 0

    def _written(self) -> int:
        self.end = min(self.end + 1, self.records)
        return self.end

    def find_offsets(self, partitions: list[TopicPartition], at: int, view: View) -> PartitionAnswers[int]:
        assert (at, view) == (LATEST, View.WRITTEN)
        return PartitionAnswers(dict.fromkeys(partitions, self._written()))

    def ask_leaders(
        self, what: str, wanted: list[TopicPartition], ask: object
    ) -> PartitionAnswers[tuple[ActiveProducer, ...]]:
        return PartitionAnswers(dict.fromkeys(wanted, (replace(SHOP, last_sequence=self._written()),)))


@pytest.mark.parametrize("records", range(2, 10))
def test_who_wrote_between_two_questions_of_a_look_is_named(records: int) -> None:
    """The last record of a producer, written right behind where a look saw the log end, was nobody's at the next."""
    channel = cast(Channel, _WritingOn(records))
    looks = [look(channel, [ORDERS]) for _ in range(5)]
    grown = [one for before, now in itertools.pairwise(looks) for one in still_written(before, now)]
    assert all([each.producer_id for each in one.producers] == [SHOP.producer_id] for one in grown)
    assert bool(grown) == (records > 2)


def test_who_wrote_is_told_in_the_form_of_all_late_writers_with_what_brokers_do_not_tell() -> None:
    named, nameless = StillWritten(ORDERS, 10, 12, (SHOP, TILL)), StillWritten(BILLS, 5, 6)
    assert named.late_writers("east", {40: "shop"}) == (
        LateWriter("east", ORDERS, 10, 12, 40, 2, "shop", 1_000),
        LateWriter("east", ORDERS, 10, 12, 41, 0, None, 900),
    )
    assert nameless.late_writers("east", {}) == (LateWriter("east", BILLS, 5, 6),)
    first, second = Watched((named, nameless), {40: "shop"}).as_json("east")
    who = {"producer_id": 40, "epoch": 2, "transactional_id": "shop", "client_id": None, "address": None}
    assert first["producers"][0] == who | {"last_timestamp_ms": 1_000, "last_sequence": 7, "flow": None}
    assert ([each["producer_id"] for each in first["producers"]], second["producers"]) == ([40, 41], [])


def test_the_end_of_a_transaction_is_no_writing_but_a_record_beside_it_is() -> None:
    before = Look({ORDERS: 10}, {ORDERS: (replace(SHOP, open_since=8),)})
    (found,) = still_written(before, Look({ORDERS: 11}, {ORDERS: (SHOP,)}))
    assert found.is_marker
    (found,) = still_written(before, Look({ORDERS: 12}, {ORDERS: (SHOP,)}))
    assert not found.is_marker


def test_of_a_partition_that_could_not_be_looked_at_before_nothing_is_claimed() -> None:
    before = Look({}, {}, {ORDERS: "it has no leader"})
    assert still_written(before, Look({ORDERS: 11})) == ()
    (found,) = still_written(Look({}), Look({ORDERS: 11}))
    assert found.start == -1


def test_it_is_quiet_once_nothing_was_written_for_a_while_and_the_last_that_was_is_told() -> None:
    ends = iter([1, 2, 3, 3, 3, 3, 3, 3])
    time = iter(range(100))
    written, last = until_quiet(lambda: Look({ORDERS: next(ends)}), 3, 60, lambda: next(time))
    assert (written, last.ends) == ((), {ORDERS: 3})
    more = iter(range(1_000_000))
    written, _ = until_quiet(lambda: Look({ORDERS: next(more)}), 600, 0.05)
    assert [each.partition for each in written] == [ORDERS]


def test_behind_a_write_it_must_rest_for_as_long_again() -> None:
    ends = [1, 1, 2, 2, 2, 2, 2]
    looks: list[int] = []

    def seen() -> Look:
        looks.append(ends[len(looks)])
        return Look({ORDERS: looks[-1]})

    written, _ = until_quiet(seen, 3, 60, lambda: len(looks) - 1)
    assert (written, len(looks)) == ((), 6), "three looks after the one that saw it"


SILENT = Look({}, {}, {ORDERS: "its leader is silent"})


def test_what_grew_while_its_leader_was_silent_is_seen_once_it_answers() -> None:
    looks = [Look({ORDERS: 10}), SILENT, Look({ORDERS: 12}), *[Look({ORDERS: 12})] * 9]
    asked: list[Look] = []

    def seen() -> Look:
        asked.append(looks[len(asked)])
        return asked[-1]

    assert until_quiet(seen, 3, 60, lambda: len(asked))[0] == ()
    # Quiet since the third look, not since the first.
    assert len(asked) == 6
    more, last = iter(looks[:2]), looks[2]
    assert until_quiet(lambda: next(more, last), 600, 0.5)[0] == (StillWritten(ORDERS, 10, 12),)


def test_a_log_must_have_been_seen_for_as_long_as_it_is_said_to_be_quiet() -> None:
    """It was silent up to the last look, and quiet by that one alone."""
    looks = [*[SILENT] * 4, *[Look({ORDERS: 12})] * 9]
    asked: list[Look] = []

    def seen() -> Look:
        asked.append(looks[len(asked)])
        return asked[-1]

    _, last = until_quiet(seen, 5, 60, lambda: len(asked))
    assert (len(asked), last.unknown) == (10, {})
    once = iter([SILENT])
    _, last = until_quiet(lambda: next(once, Look({ORDERS: 12})), 600, 0.5)
    assert last.unknown == SILENT.unknown


def test_of_what_the_first_look_could_not_tell_nobody_knows_whether_it_grew_before_the_second() -> None:
    looks, last = iter([SILENT]), Look({ORDERS: 12})
    written, seen = seen_in(lambda: next(looks, last), 0.2)
    assert (written, seen.unknown) == ((), SILENT.unknown)


def test_all_that_was_written_in_a_time_is_told_together() -> None:
    looks = iter(
        [
            Look({ORDERS: 1, BILLS: 5}),
            Look({ORDERS: 2, BILLS: 5}, {ORDERS: (SHOP,)}),
            Look({ORDERS: 4}, {ORDERS: (SHOP, TILL)}, {BILLS: "it has no leader"}),
        ]
    )
    last = Look({ORDERS: 4, BILLS: 5}, {ORDERS: (SHOP, TILL)})
    written, seen = seen_in(lambda: next(looks, last), 0.2)
    assert written == (StillWritten(ORDERS, 1, 4, (SHOP, TILL)),)
    assert seen.unknown == {}


def test_it_is_told_with_transactional_ids_where_there_are_any() -> None:
    watched = Watched((StillWritten(ORDERS, 1, 2, (SHOP, TILL)),), {40: "till-7"}, {BILLS: "it has no leader"})
    till = "producer 40 (epoch 2, transactional id till-7, last at 1970-01-01T00:00:01Z)"
    other = "producer 41 (epoch 0, last at 1970-01-01T00:00:00Z)"
    assert watched.messages() == (
        f"orders-0 from 1 to 1: {till}, {other}",
        "bills-0 is not known: it has no leader",
    )
    (row,) = watched.as_json("east")
    assert [each["transactional_id"] for each in row["producers"]] == ["till-7", None]


def test_a_flow_that_goes_on_writing_is_named_and_is_nobody_who_should_write_no_more() -> None:
    """After a planned failover under unchanged names the flow back failed the look at who writes to the old cluster."""
    written = StillWritten(ORDERS, 1, 2, (SHOP,))
    back = Watched((written,), mirrors={SHOP.producer_id: "west->east"})
    assert back.verdict is Verdict.PASS
    assert back.messages()[0].startswith("orders-0 from 1 to 1: the flow west->east, producer 40 (epoch 2")
    assert [each["flow"] for row in back.as_json("east") for each in row["producers"]] == ["west->east"]
    assert replace(back, written=(replace(written, producers=(SHOP, TILL)),)).verdict is Verdict.FAIL
    assert replace(back, written=(replace(written, producers=()),)).verdict is Verdict.FAIL
    assert replace(back, unknown={BILLS: "it has no leader"}).verdict is Verdict.UNKNOWN


def test_who_writes_now_is_told_first_and_who_wrote_long_ago_last() -> None:
    """Where the first look could not tell the producers, the leader's old ones stood before those that still write."""
    now = replace(SHOP, producer_id=50, last_timestamp_ms=9_000)
    unknown = replace(SHOP, producer_id=60, last_timestamp_ms=-1)
    audit = TopicPartition("audit", 0)
    written = (
        StillWritten(audit, 1, 2, (TILL,)),
        StillWritten(BILLS, 1, 2),
        StillWritten(ORDERS, 1, 2, (SHOP, now, unknown)),
    )
    told = Watched(written).messages()
    assert [each.split(" ")[0] for each in told] == ["bills-0", "orders-0", "audit-0"]
    orders = told[1]
    assert orders.index("producer 50") < orders.index("producer 40") < orders.index("producer 60")
    assert "producer 60 (epoch 2)" in orders
    assert [each["topic"] for each in Watched(written).as_json("east")] == ["audit", "bills", "orders"]
