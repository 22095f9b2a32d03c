"""What a comparison leaves behind is relied on only while the logs are those that were compared."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirror.model.absences import Absence, AbsenceKind
from mirror.model.offset_map import Run, Runs
from mirror.model.partition import TopicPartition
from mirror.proof.comparison import Compared, PartitionEquivalence
from mirror.proof.log_reader import LogRange
from mirror.proof.pairs import Amount, Mark, PartitionPair
from mirror.proof.verified_ranges import Entry, Logs, Memory, NotRemembered, misfit, parse, updated

SOURCE, COPY = TopicPartition("orders", 1), TopicPartition("east.orders", 1)
LOGS = Logs("east.orders", "id-1", "id-2", 0, committed=False, remote_committed=True)
GAP = Absence(AbsenceKind.GAP, 40, 42, "poison", acknowledged=True)
ENTRY = Entry(LOGS, 0, 50, 48, ((40, 42),), 48, 4_800, 3, Mark(40, 2, 11), Mark(38, 0, 12))
PAIR = PartitionPair(
    LogRange("east", {}, SOURCE, 0, 90),
    LogRange("west", {}, COPY, 0, 88),
    Runs.of([Run(0, 0, 40), Run(42, 40, 48)]),
    absences=(GAP,),
    is_shared=True,
)
MEMORY = Memory("east->west", "E", "W", {SOURCE: ENTRY})
SAID = PartitionEquivalence(
    SOURCE, COPY, 90, 0, 0, 0, 0, 0, 5, None, None,
    absences=(replace(GAP, records=2),),
    compared=Compared(
        (0, 90), (0, 88), Amount(38, 3_000), Amount(4, 300), Amount(48, 4_800), Mark(80, 2, 21), None, is_by_batches=True
    ),
)  # fmt: skip


def from_offset(start: int) -> PartitionPair:
    return replace(PAIR, source=replace(PAIR.source, start=start))


def test_what_is_written_is_read_again() -> None:
    assert parse(MEMORY.as_text()) == MEMORY
    assert "partitions" in json.loads(MEMORY.as_text())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        (MEMORY.as_text()[:-30], "no JSON"),
        ("[]", "format"),
        ('{"clusters": 3}', "format"),
        (MEMORY.as_text().replace('"records": 48', '"records": "48"'), "records is '48'"),
        (MEMORY.as_text().replace('"turn"', '"turns"'), "turn"),
        (MEMORY.as_text().replace('"turn": 0', '"turn": false'), "turn is False"),
        (MEMORY.as_text().replace('"id-1"', "5"), "topic_id is 5"),
    ],
)
def test_what_is_damaged_or_something_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(NotRemembered, match=why):
        parse(text)


def test_it_is_relied_on_where_the_logs_go_on() -> None:
    assert misfit(ENTRY, LOGS, PAIR, lost=False) is None
    found = ENTRY.remembered(PAIR)
    assert (found.source_end, found.target_end, found.amount, found.foreign) == (50, 48, Amount(48, 4_800), 3)


def test_what_the_source_has_removed_since_is_not_counted() -> None:
    assert misfit(ENTRY, LOGS, from_offset(26), lost=False) is None
    assert ENTRY.remembered(from_offset(26)).amount == Amount(22, 2_200)


@pytest.mark.parametrize(
    ("logs", "pair", "why"),
    [
        (replace(LOGS, topic_id="id-3"), PAIR, "not what they were"),
        (replace(LOGS, remote_topic_id="id-3"), PAIR, "not what they were"),
        (replace(LOGS, incarnation=1), PAIR, "not what they were"),
        (replace(LOGS, committed=True), PAIR, "not what they were"),
        (LOGS, replace(PAIR, source=replace(PAIR.source, end=49)), "are to be"),
        (LOGS, replace(PAIR, target=replace(PAIR.target, end=47)), "are to be"),
        (LOGS, from_offset(50), "are to be"),
        (LOGS, from_offset(-1), "are to be"),
        (LOGS, replace(PAIR, absences=()), "said to be absent"),
        (LOGS, replace(PAIR, absences=(replace(GAP, end=43),)), "said to be absent"),
        (LOGS, replace(PAIR, absences=(GAP, replace(GAP, start=10, end=11))), "said to be absent"),
    ],
)
def test_it_is_not_relied_on_when_anything_has_changed(logs: Logs, pair: PartitionPair, why: str) -> None:
    assert why in (misfit(ENTRY, logs, pair, lost=False) or "")


def test_a_copy_that_has_lost_its_beginning_is_compared_anew() -> None:
    assert "lost" in (misfit(ENTRY, LOGS, PAIR, lost=True) or "")


def test_records_of_others_that_may_not_write_there_are_compared_anew() -> None:
    for foreign in (1, 3):
        entry = replace(ENTRY, foreign=foreign)
        assert f"{foreign} records of others" in (misfit(entry, LOGS, replace(PAIR, is_shared=False), lost=False) or "")


def test_what_is_equal_is_remembered_to_its_end() -> None:
    pair = replace(PAIR, remembered=ENTRY.remembered(PAIR))
    (entry,) = updated(MEMORY, {SOURCE: LOGS}, [(pair, SAID)]).entries.values()

    assert entry == Entry(LOGS, 0, 90, 88, ((40, 42),), 88, 8_100, 5, Mark(80, 2, 21), ENTRY.remote_last)


def test_what_differs_is_not_remembered_and_what_was_before_it_still_is() -> None:
    pair = replace(PAIR, remembered=ENTRY.remembered(PAIR))
    differs = replace(SAID, missing=1)
    not_read = replace(SAID, compared=replace(SAID.compared, is_by_batches=False))

    assert updated(MEMORY, {SOURCE: LOGS}, [(pair, differs)]) == MEMORY
    assert updated(MEMORY, {SOURCE: LOGS}, [(pair, not_read)]) == MEMORY
    unknown = replace(SAID, problem="west was not read to the end")
    assert updated(MEMORY, {SOURCE: LOGS}, [(pair, unknown)]) == MEMORY
    # What was not relied on is forgotten.
    assert updated(MEMORY, {SOURCE: LOGS}, [(PAIR, differs)]).entries == {}


def test_it_is_relied_on_where_nothing_has_come_since() -> None:
    same = replace(PAIR, source=replace(PAIR.source, end=50), target=replace(PAIR.target, end=48))
    assert misfit(ENTRY, LOGS, same, lost=False) is None


def test_nothing_is_remembered_of_a_pair_of_which_no_batch_was_compared_on_either_side() -> None:
    empty = replace(SAID, compared=replace(SAID.compared, last=None))
    assert updated(MEMORY, {SOURCE: LOGS}, [(PAIR, SAID)]).entries == {}, "nothing of the copy"
    whole = replace(SAID, compared=replace(SAID.compared, target_last=Mark(78, 0, 22)))
    assert updated(MEMORY, {SOURCE: LOGS}, [(PAIR, whole)]).entries[SOURCE].remote_last == Mark(78, 0, 22)
    half = replace(empty, compared=replace(empty.compared, target_last=Mark(78, 0, 22)))
    assert updated(MEMORY, {SOURCE: LOGS}, [(PAIR, half)]).entries == {}, "nothing of the source"


def test_the_last_batches_are_those_of_this_time_or_where_nothing_came_of_the_time_before() -> None:
    pair = replace(PAIR, remembered=ENTRY.remembered(PAIR))
    later = replace(SAID, compared=replace(SAID.compared, target_last=Mark(78, 0, 22)))
    (entry,) = updated(MEMORY, {SOURCE: LOGS}, [(pair, later)]).entries.values()
    assert (entry.last, entry.remote_last) == (Mark(80, 2, 21), Mark(78, 0, 22))
    idle = replace(SAID, compared=replace(SAID.compared, last=None))
    (entry,) = updated(MEMORY, {SOURCE: LOGS}, [(pair, idle)]).entries.values()
    assert (entry.last, entry.remote_last, entry.upstream_end) == (ENTRY.last, ENTRY.remote_last, 90)


def test_an_absence_whose_records_nobody_counted_takes_none_away() -> None:
    pair = replace(PAIR, remembered=ENTRY.remembered(PAIR))
    uncounted = replace(SAID, absences=(replace(GAP, records=None), replace(GAP, records=2)))
    assert updated(MEMORY, {SOURCE: LOGS}, [(pair, uncounted)]).entries[SOURCE].records == 88
