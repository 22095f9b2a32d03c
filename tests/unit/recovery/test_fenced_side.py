"""Who writes to the old cluster of a flow that is failed over, and what that makes of the flow's state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from mirror.config.settings import MirrorSettings
from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.kafka.channel import Channel
from mirror.kafka.partition_state import ActiveProducer
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.recovery import fenced_side
from mirror.recovery.fenced_side import (
    FencedSide,
    Seen,
    WrittenBehind,
    entry_to_watch,
    late_writers,
    look_at_fenced_side,
    look_at_logs,
    moved_on,
    with_fenced_side,
    written_behind,
)
from mirror.recovery.late_writers import LateWriter
from mirror.recovery.recent_writers import RecentWriter
from tests.unit.config.files import flows_of
from tests.unit.recovery.logs import Batch, Logs, batches

FLOW = Flow("east", "west")
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)
DONE = FailoverEntry("run", "unplanned", Phase.DONE, "host:/run", 7_000)
CUT = Pauses(cut=PauseWish("w", None, True, "mirror failover", 5_000, is_cut=True))
WRITER = RecentWriter(ORDERS, 12, 3, 9_000, 100)
STATUS = FlowStatus(FLOW, "PAUSED", (), (), pauses=CUT, failovers=(DONE,))


def test_what_bears_a_time_behind_the_cut_or_grows_was_written_after_it() -> None:
    seen = Seen({ORDERS: 20}, {ORDERS: 30, BILLS: 5}, {ORDERS: 30, BILLS: 9}, (WRITER,))
    assert written_behind(seen) == (
        WrittenBehind(BILLS, 5, 9, True),
        WrittenBehind(ORDERS, 20, 30, False, (WRITER,)),
    )
    assert written_behind(Seen({}, {ORDERS: 30}, {ORDERS: 30})) == ()


@pytest.mark.parametrize(
    ("status", "since"),
    [
        (STATUS, 5_000),
        (replace(STATUS, pauses=Pauses()), 7_000),
        (replace(STATUS, failovers=()), None),
        (replace(STATUS, failovers=(replace(DONE, phase=Phase.UNDER_WAY),)), 5_000),
        # Its applications have not been stopped yet.
        (replace(STATUS, pauses=Pauses(), failovers=(replace(DONE, phase=Phase.UNDER_WAY),)), None),
        # They are moved back.
        (replace(STATUS, failovers=(DONE, replace(DONE, run="home", phase=Phase.RETURNING))), None),
    ],
)
def test_a_cluster_is_watched_from_the_cut_to_the_way_home(status: FlowStatus, since: int | None) -> None:
    found = entry_to_watch(status)
    assert (found[1] if found else None) == since


def test_who_writes_makes_a_flow_degraded_and_is_named() -> None:
    side = FencedSide(FLOW, DONE, 5_000, (WrittenBehind(ORDERS, 20, 30, True, (WRITER,)),))
    found = with_fenced_side(STATUS, side)
    assert found.state == "DEGRADED"
    assert found.reasons[0].startswith(
        "somebody writes to east, which was failed over (1970-01-01T00:00:05Z), and nobody copies it: orders-0 from 20 to "
        "29, growing (orders-0: producer 12 (epoch 3)"
    )
    assert with_fenced_side(replace(STATUS, state="STOPPED"), side).state == "STOPPED"
    (row,) = side.as_json()["still_written"]
    assert (row["topic"], row["partition"], row["from"], row["to"], row["growing"]) == ("orders", 0, 20, 30, True)
    (producer,) = row["producers"]
    assert (producer["producer_id"], producer["epoch"], producer["client_id"]) == (12, 3, None)


BACK = Flow("west", "east")


@pytest.mark.parametrize(
    ("later", "is_moved_on"),
    [
        (replace(DONE, at_ms=8_000), True),
        (replace(DONE, at_ms=4_000), False),
        (replace(DONE, at_ms=8_000, phase=Phase.UNDER_WAY), False),
        (None, False),
    ],
)
def test_where_the_standby_was_lost_as_well_nobody_is_to_fence_the_applications_on_the_first_cluster(
    later: FailoverEntry | None, is_moved_on: bool
) -> None:
    """They were moved on to it: the advice to deny writes there would have stopped them."""
    others = {BACK: replace(STATUS, flow=BACK, failovers=() if later is None else (later,))}
    found = moved_on(STATUS, 5_000, others)
    assert (found is not None) is is_moved_on
    assert moved_on(STATUS, 5_000, {}) is None
    if found is not None:
        told = with_fenced_side(STATUS, FencedSide(FLOW, DONE, 5_000, moved_on=found))
        assert (told.state, told.reasons) == ("PAUSED", ())
        assert "fail that back first (mirror failback FILE --flow 'west->east'), then this" in told.notes[0]


def test_a_cluster_that_is_gone_or_silent_is_no_reason() -> None:
    gone = with_fenced_side(STATUS, FencedSide(FLOW, DONE, 5_000, problem="east does not answer"))
    assert (gone.state, gone.reasons) == ("PAUSED", ())
    assert gone.notes[0].endswith("is not known: east does not answer")
    silent = with_fenced_side(STATUS, FencedSide(FLOW, DONE, 5_000))
    assert (silent.state, "nobody was seen writing to east" in silent.notes[0]) == ("PAUSED", True)
    assert with_fenced_side(STATUS, None) is STATUS


CUT_MS, MIRROR = 5_000, 77


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FencedSide]:
    """Look at logs of which so much was copied before the cut, where mirrors write with these producer ids."""

    def looked(
        logs: Logs,
        copied: Mapping[TopicPartition, int],
        own: Collection[int] = (),
        *,
        by_offsets: bool = False,
        by_times: Collection[TopicPartition] = (),
    ) -> FencedSide:
        logs.serve(monkeypatch)
        seen = look_at_logs(
            *(cast(Channel, logs), copied, CUT_MS, lambda: set(own)),
            by_offsets=by_offsets,
            by_times=by_times,
            seconds=0.0,
            monotonic=lambda: 0.0,
        )
        return FencedSide(FLOW, DONE, CUT_MS, written_behind(seen), seen.unknown)

    return looked


def test_behind_what_a_planned_failover_has_copied_all_came_later_whatever_its_times_say(
    look: Callable[..., FencedSide],
) -> None:
    """Producers give times of their own, and who failed over had a clock that was ahead."""
    came_back = batches(10, 5, from_ms=1, producer_id=MIRROR)
    logs = Logs({ORDERS: (*batches(0, 10, from_ms=1), *came_back, Batch(15, 2), Batch(16, 2, is_control=True))})
    assert look(logs, {ORDERS: 10}, {MIRROR}).written == ()
    (found,) = look(logs, {ORDERS: 10}, {MIRROR}, by_offsets=True).written
    assert (found.start, found.end, found.is_growing) == (15, 17, False)
    assert look(logs, {ORDERS: 16}, {MIRROR}, by_offsets=True).written == ()


def test_where_the_log_begins_behind_what_was_copied_it_is_looked_at_from_there(
    look: Callable[..., FencedSide],
) -> None:
    """Retention has removed what came right behind: what is not there any more cannot be read."""
    came_back = batches(20, 5, from_ms=1, producer_id=MIRROR)
    assert look(Logs({ORDERS: came_back}), {ORDERS: 10}, {MIRROR}, by_offsets=True) == FencedSide(FLOW, DONE, CUT_MS)
    (found,) = look(Logs({ORDERS: (*came_back, Batch(25, 2))}), {ORDERS: 10}, {MIRROR}, by_offsets=True).written
    assert (found.start, found.end) == (25, 26)


def test_of_another_failover_and_of_a_flow_that_is_copied_again_the_times_of_records_tell() -> None:
    for mode, is_cut, by_offsets in (
        ("planned", True, True),
        ("planned", False, False),
        ("cut-off", True, False),
        ("unplanned", True, False),
    ):
        side = FencedSide(FLOW, replace(DONE, mode=mode), 5_000, is_cut=is_cut)
        assert side.is_told_by_offsets == by_offsets
        assert ("by the times of its records" in side.notes()[0]) != by_offsets


def test_a_topic_that_was_created_anew_on_the_old_side_is_looked_at_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was copied of the one before says nothing of it."""
    looked = looked_at(monkeypatch, {})
    known = PartitionStatus("orders", 0, 100, 120, 90, 20, 1.0)
    anew = PartitionStatus("bills", 1, 100, 20, 90, None, None)
    silent = PartitionStatus("audits", 0, 100, None, 90, None, None)
    look_at_fenced_side(EAST_ALONE, CHOSEN, replace(STATUS, partitions=(known, anew, silent)), {})
    assert looked == [({ORDERS: 100, BILLS: 0, TopicPartition("audits", 0): 100}, frozenset())]


def test_topics_that_were_created_on_the_old_side_since_are_looked_at_by_the_times_of_their_records(
    monkeypatch: pytest.MonkeyPatch, look: Callable[..., FencedSide]
) -> None:
    """A producer that was forgotten has its broker create one: nobody was seen writing, and nobody copies it."""
    looked = looked_at(monkeypatch, {"orders": 2, "late": 1, "west.there": 1, "heartbeats": 1, "__offsets": 1})
    known = PartitionStatus("orders", 0, 100, 120, 90, 20, 1.0)
    look_at_fenced_side(EAST_ALONE, CHOSEN, replace(STATUS, partitions=(known,)), {})
    late, added = TopicPartition("late", 0), TopicPartition("orders", 1)
    assert looked == [({ORDERS: 100, late: 0, added: 0}, frozenset({late, added}))]
    logs = Logs({ORDERS: batches(0, 20, from_ms=1), late: (*batches(0, 5, from_ms=1), Batch(5, CUT_MS + 1))})
    (found,) = look(logs, {ORDERS: 20, late: 0}, by_offsets=True, by_times={late}).written
    assert (found.partition, found.start, found.end) == (late, 5, 6)


def test_where_nothing_was_copied_yet_what_was_created_on_the_old_side_since_is_looked_at_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = looked_at(monkeypatch, {"late": 1})
    look_at_fenced_side(EAST_ALONE, CHOSEN, replace(STATUS, partitions=()), {})
    late = TopicPartition("late", 0)
    assert looked == [({late: 0}, frozenset({late}))]


EAST_ALONE = cast(MirrorSettings, SimpleNamespace(clusters={"east": SimpleNamespace(client={})}))
(CHOSEN,) = flows_of("east->west")


def looked_at(patched: pytest.MonkeyPatch, topics: Mapping[str, int]) -> list[object]:
    """Have the old cluster list these topics, with so many partitions; return what is looked at, and how."""
    looked: list[object] = []

    def look(_: object, copied: object, *__: object, by_times: object, **___: object) -> Seen:
        looked.append((copied, by_times))
        return Seen()

    listed = [
        SimpleNamespace(name=name, partitions=[SimpleNamespace(partition_index=each) for each in range(count)])
        for name, count in topics.items()
    ]
    channel = SimpleNamespace(close=lambda: None, call=lambda _: SimpleNamespace(topics=listed))
    patched.setattr(fenced_side, "Channel", lambda *_, **__: channel)
    patched.setattr(fenced_side, "look_at_logs", look)
    return looked


def test_what_is_copied_again_is_not_called_copied_by_nobody() -> None:
    side = FencedSide(FLOW, DONE, 5_000, (WrittenBehind(ORDERS, 20, 30, True, (WRITER,)),), is_cut=False)
    assert "nobody copies it" not in side.reasons()[0]


def test_who_wrote_among_the_copies_that_came_back_is_seen_however_much_came_since(
    look: Callable[..., FencedSide],
) -> None:
    """Under unchanged names the flow back writes there too, and brokers tell nothing of clients without an id."""
    came_back = (*batches(10, 20, from_ms=6_000, producer_id=MIRROR), Batch(30, 6_500))
    logs = Logs({ORDERS: (*came_back, *batches(31, 900, from_ms=7_000, producer_id=MIRROR))})
    (found,) = look(logs, {ORDERS: 10}, {MIRROR}).written
    assert (found.start, found.end, found.is_growing) == (30, 931, False)
    assert [each.producer_id for each in found.writers] == [-1]


def test_of_a_burst_it_is_told_how_much_of_it_was_not_read_for_clients_without_an_id(
    look: Callable[..., FencedSide],
) -> None:
    """One writes a record without an id in the middle of what another has written: of that one nobody tells."""
    burst = (*batches(10, 300, from_ms=6_000, producer_id=12), Batch(310, 6_000))
    logs = Logs({ORDERS: (*burst, *batches(311, 500, from_ms=6_000, producer_id=12))})
    side = look(logs, {ORDERS: 10})
    (found,) = side.written
    assert ([each.producer_id for each in found.writers], found.unread) == ([12], 601)
    assert "and 601 more offsets that were not read for clients without an id" in side.reasons()[0]
    assert side.as_json()["still_written"][0]["unread"] == 601


def test_of_a_burst_with_old_times_only_the_first_record_is_read_and_the_others_are_told(
    look: Callable[..., FencedSide],
) -> None:
    logs = Logs({ORDERS: batches(0, 9, from_ms=1)}, {ORDERS: batches(9, 300, from_ms=1)})
    (found,) = look(logs, {ORDERS: 9}).written
    assert (found.start, found.end, found.unread) == (9, 309, 299)


def test_what_was_not_read_of_the_time_before_the_late_records_is_none_of_them(look: Callable[..., FencedSide]) -> None:
    copies = batches(10, 900, from_ms=6_000, producer_id=MIRROR)
    (found,) = look(Logs({ORDERS: (*copies, Batch(910, 6_500))}), {ORDERS: 10}, {MIRROR}).written
    assert (found.start, found.end, found.unread) == (910, 911, 0)


def test_late_writers_of_all_flows_are_told_in_one_form() -> None:
    burst = WrittenBehind(ORDERS, 20, 30, True, (WRITER, replace(WRITER, producer_id=13, transactional_id="till")))
    sides = (
        None,
        FencedSide(FLOW, DONE, 5_000),
        FencedSide(FLOW, DONE, 5_000, (burst, WrittenBehind(BILLS, 5, 9, True))),
    )
    assert late_writers(sides) == (
        LateWriter("east", ORDERS, 20, 30, 12, 3, None, 9_000),
        LateWriter("east", ORDERS, 20, 30, 13, 3, "till", 9_000),
        LateWriter("east", BILLS, 5, 9),
    )
    assert late_writers(sides[:2]) == ()


def test_copies_that_came_back_are_nobodys_writes(look: Callable[..., FencedSide]) -> None:
    more = batches(910, 3, from_ms=8_000, producer_id=MIRROR)
    logs = Logs({ORDERS: batches(10, 900, from_ms=6_000, producer_id=MIRROR)}, {ORDERS: more})
    side = look(logs, {ORDERS: 10}, {MIRROR})
    assert (side.written, side.unknown) == ((), {})
    assert "nobody was seen writing to east" in side.notes()[0]


def test_what_is_not_read_whole_is_not_known(look: Callable[..., FencedSide]) -> None:
    large = tuple(Batch(each, 6_000, MIRROR, size=4_000_000) for each in range(10, 40))
    side = look(Logs({ORDERS: large}), {ORDERS: 10}, {MIRROR})
    assert side.written == ()
    assert side.unknown.keys() == {ORDERS}
    assert not any("nobody was seen" in each for each in side.notes())
    assert "is not known of orders-0" in side.notes()[0]
    # Of a producer with an id its leader tells all the same.
    told = {ORDERS: (ActiveProducer(12, 3, 5, 9_000),)}
    (found,) = look(Logs({ORDERS: large}, producers=told), {ORDERS: 10}, {MIRROR}).written
    assert [each.producer_id for each in found.writers] == [12]


def test_a_partition_that_nobody_leads_is_not_known(look: Callable[..., FencedSide]) -> None:
    side = look(Logs({ORDERS: batches(0, 9, from_ms=1)}, leaderless=frozenset({BILLS})), {ORDERS: 9, BILLS: 9})
    assert (side.written, dict(side.unknown)) == ((), {BILLS: "bills-1 has no leader"})
    assert "is not known of bills-1 (bills-1 has no leader)" in side.notes()[0]
    assert side.as_json()["unknown"] == [{"topic": "bills", "partition": 1, "reason": "bills-1 has no leader"}]


def test_a_record_from_the_future_that_was_copied_is_not_written_behind_the_cut(
    look: Callable[..., FencedSide],
) -> None:
    ahead = (*batches(0, 42, from_ms=1), Batch(42, 900_000), *batches(43, 56, from_ms=50))
    assert look(Logs({ORDERS: ahead}), {ORDERS: 99}).written == ()
    (found,) = look(Logs({ORDERS: (*ahead, Batch(99, 6_000))}), {ORDERS: 99}).written
    assert (found.start, found.end) == (99, 100)


def test_the_end_of_a_transaction_is_no_record(look: Callable[..., FencedSide]) -> None:
    """That it is aborted at its timeout, behind the cut, appends a marker."""
    held = (*batches(0, 9, from_ms=1, producer_id=5), Batch(9, 6_000, 5, is_control=True))
    side = look(Logs({ORDERS: held}, {ORDERS: (Batch(10, 6_100, 6, is_control=True),)}), {ORDERS: 9})
    assert (side.written, side.unknown) == ((), {})


def test_a_log_that_grows_by_records_with_old_times_is_being_written_to(look: Callable[..., FencedSide]) -> None:
    logs = Logs({ORDERS: batches(0, 9, from_ms=1)}, {ORDERS: (Batch(9, 1),)})
    (found,) = look(logs, {ORDERS: 9}).written
    assert (found.start, found.end, found.is_growing) == (9, 10, True)


def test_what_was_written_before_the_cut_and_not_copied_is_not_written_behind_it(
    look: Callable[..., FencedSide],
) -> None:
    """It is lost, and told as that. Behind it lies what a clock that is ahead has stamped, and then what is late."""
    held = (*batches(0, 9, from_ms=1), Batch(9, 6_000, MIRROR), Batch(10, 4_000), Batch(11, 6_500))
    (found,) = look(Logs({ORDERS: held}), {ORDERS: 9}, {MIRROR}).written
    assert (found.start, found.end) == (11, 12)
