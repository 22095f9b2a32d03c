"""What `mirror verify` takes for granted of the engine beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.errors import ConfigError
from mirror.config.settings import ClusterSettings
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import EARLIEST, LATEST, View
from mirror.kafka.problems import LeaderUnknown
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import chunk_record, transactional_id_record
from mirror.model.verdict import Verdict
from mirror.proof.comparison import Equivalence, PartitionEquivalence
from mirror.proof.log_reader import LogRange
from mirror.proof.outside import Found, Outside, Seen
from mirror.proof.pairs import Mark, PartitionPair
from mirror.proof.verified_ranges import Entry, Logs, Memory, parse
from mirror.recovery import verify, verify_memory
from tests.unit.config.files import flows_of

FLOW = flows_of("A->B")[0]


@pytest.mark.parametrize("runs", [True, False])
def test_whether_an_engine_runs_is_told_by_what_was_read_before_the_comparison(
    monkeypatch: pytest.MonkeyPatch, *, runs: bool
) -> None:
    """A comparison takes minutes, in which the report that was read grows old: the plan keeps it."""
    plan = SimpleNamespace(
        pairs=[PAIR], outside=["outside"], left_out=[], uncopied={}, state=FlowState(), is_running=runs
    )
    judged: list[tuple[bool, str]] = []

    def compare(*_: object) -> Equivalence:
        return Equivalence((EQUAL,))

    def judge(_: object, __: object, ___: object, what: tuple[Any, Any, str], *_____: object, is_running: bool) -> Any:
        judged.append((is_running, what[2]))
        return "partition", []

    monkeypatch.setattr(verify, "plan_pairs", lambda *_, **__: plan)
    monkeypatch.setattr(verify, "spark_session", lambda _: None)
    monkeypatch.setattr(verify, "verify", compare)
    monkeypatch.setattr(verify, "look_outside", lambda *_: ["seen"])
    monkeypatch.setattr(verify, "_once_recorded", lambda *known: [f"{each}, and on record since" for each in known[3]])
    monkeypatch.setattr(verify, "judged", judge)
    verify.verify_flow(FLOW, {})
    assert judged == [(runs, "seen, and on record since" if runs else "seen")]


@pytest.mark.parametrize(
    ("writes_transactions", "reads_back", "views"),
    [
        (True, None, [View.STABLE]),
        (False, None, []),
        (False, False, []),
        # Of what applications abort there the flow back copies nothing: with one open it was waited for 30 s.
        (False, True, [View.STABLE]),
    ],
)
def test_a_copy_in_transactions_is_looked_at_up_to_the_first_that_is_open(
    monkeypatch: pytest.MonkeyPatch, *, writes_transactions: bool, reads_back: bool | None, views: list[View]
) -> None:
    """What lies behind is perhaps aborted, and its position is not on record: it would be called anything."""
    back = None if reads_back is None else SimpleNamespace(reads_committed=reads_back)
    mirrors = SimpleNamespace(flow_back=lambda _: back)
    state, asked = FlowState(), list[object]()
    if writes_transactions:
        state.apply(*transactional_id_record("mirror-0", 1))

    class Enough(Exception):
        """What was asked is known."""

    polled = iter([state])

    def poll() -> FlowState:
        for each in polled:
            return each
        raise Enough

    def offsets(partitions: object, where: int, seen_as: View = View.VISIBLE) -> dict[TopicPartition, int]:
        if where == LATEST and COPY in list(cast(Any, partitions)):
            asked.append(seen_as)
        return {}

    monkeypatch.setattr(
        verify, "FlowLog", lambda *_, **__: SimpleNamespace(poll=poll, observe=poll, close=lambda: None)
    )
    monkeypatch.setattr(verify, "Channel", lambda *_: SimpleNamespace(offsets=offsets, close=lambda: None))
    monkeypatch.setattr(verify, "_chosen", lambda *_: ({ORDERS: COPY}, {ORDERS: 0}, []))
    monkeypatch.setattr(
        verify, "_looked_up", lambda *_: (mirrors, (frozenset(), ()), ("a", "b"), SimpleNamespace(sides=()), [])
    )
    monkeypatch.setattr(verify, "_never_copied", lambda *_: [])
    with pytest.raises(Enough):
        verify.plan_pairs(FLOW, {each: ClusterSettings(each, {}) for each in "AB"})
    assert asked == [View.VISIBLE, *views]


ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
PAIR = PartitionPair(LogRange("A", {}, ORDERS, 0, 10), LogRange("B", {}, COPY, 0, 11), writers=frozenset({7}))
EQUAL, UNREAD, DIFFERENT = (
    cast(PartitionEquivalence, SimpleNamespace(problem=problem, differs=differs))
    for problem, differs in ((None, False), ("out of range", False), (None, True))
)
PLACE = Outside(PAIR.target, (0, 0), (11, 20), PAIR.writers)


def on_record(*records: StateRecord) -> FlowState:
    state = FlowState()
    for key, value in records:
        state.apply(key, value)
    return state


BEFORE = on_record(Position(10, 11, 0, complete=True).record(ORDERS), chunk_record(ORDERS, 0, (Run(0, 1, 10),)))


@pytest.mark.parametrize(
    ("position", "runs", "late"),
    [
        # All that was seen behind the position was on its way.
        (Position(14, 15, 0, complete=True), (Run(0, 1, 14),), Seen()),
        # The partition is idle: its position goes by what is there twice.
        (Position(10, 15, 0, complete=True), (Run(0, 1, 10),), Seen(4, 11, 15)),
        (Position(12, 15, 0, complete=True), (Run(0, 1, 10), Run(10, 13, 2)), Seen(2, 11, 13)),
        # Not on record in time, or of another incarnation of the copy by now: nothing can be said.
        (Position(12, 13, 0, complete=True), (Run(0, 1, 12),), None),
        (Position(14, 15, 0, complete=True, incarnation=1), (Run(0, 1, 14),), None),
    ],
)
def test_what_the_flow_has_written_behind_its_position_is_there_twice_unless_the_engine_records_it(
    monkeypatch: pytest.MonkeyPatch, position: Position, runs: tuple[Run, ...], late: Seen | None
) -> None:
    """An engine that runs does so within seconds; for ever on its way is nothing."""

    def look(places: Sequence[Outside]) -> list[Found]:
        return [Found(own_behind=Seen(end - start, start, end)) for start, end in (each.behind for each in places)]

    seen = Found(own_behind=Seen(4, 11, 15), foreign_behind=Seen(1, 15, 16))
    found = once_recorded(monkeypatch, position, runs, seen, look)
    assert found == (seen if late is None else replace(seen, own_behind=Seen(), late_behind=late))


def test_what_is_there_twice_and_cannot_be_read_is_not_taken_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Found(own_behind=Seen(4, 11, 15))
    gone = Found(problem="B: broker 1 hung up")
    position, runs = Position(10, 15, 0, complete=True), (Run(0, 1, 10),)
    found = once_recorded(monkeypatch, position, runs, seen, lambda places: [gone for _ in places])
    assert found.problem == gone.problem


def once_recorded(
    monkeypatch: pytest.MonkeyPatch,
    position: Position,
    runs: tuple[Run, ...],
    seen: Found,
    look: Callable[[Sequence[Outside]], list[Found]],
) -> Found:
    after = on_record(position.record(ORDERS), chunk_record(ORDERS, 0, runs))
    polled = iter([BEFORE])

    class Log:
        state = BEFORE

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def poll(self) -> FlowState:
            self.state = next(polled, after)
            return self.state

        observe = poll

        def offset_map(self, source: TopicPartition) -> OffsetMap | None:
            return self.state.offset_map(source)

        def close(self) -> None:
            pass

    monkeypatch.setattr(verify, "FlowLog", Log)
    monkeypatch.setattr(verify, "_RECORD_SECONDS", 0.2)
    plan: Any = SimpleNamespace(pairs=[PAIR], outside=[PLACE], state=BEFORE, is_running=True)
    clusters: Any = {"B": SimpleNamespace(client={})}
    (found,) = verify._once_recorded(FLOW, clusters, plan, [seen], look)
    return found


class Compared:
    """A comparison without Spark: what is planned, and what comes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, plan: SimpleNamespace) -> None:
        self.updated: list[tuple[object, ...]] = []
        monkeypatch.setattr(verify, "plan_pairs", lambda *_, **__: plan)
        monkeypatch.setattr(verify, "spark_session", self.session)
        monkeypatch.setattr(verify, "verify", lambda *_: Equivalence((EQUAL,)))
        monkeypatch.setattr(verify, "look_outside", lambda *_: ["seen"])
        monkeypatch.setattr(verify, "judged", lambda *_, **__: ("partition", ["left out too"]))
        monkeypatch.setattr(verify, "updated", self.update)
        self.sessions = 0

    def session(self, _: str) -> None:
        self.sessions += 1

    def update(self, memory: Memory, logs: object, compared: Any) -> Memory:
        self.updated.append((memory, logs, list(compared)))
        return memory


def planned(memory: Memory, pairs: Sequence[PartitionPair] | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        pairs=[PAIR] if pairs is None else list(pairs),
        outside=["outside"],
        left_out=["left out"],
        uncopied={},
        state=FlowState(),
        is_running=False,
        memory=memory,
        logs="logs",
        nothing="nothing selected",
    )


ENTRY = Entry(
    Logs("A.orders", "1", "2", 0, committed=False, remote_committed=True),
    0,
    5,
    5,
    (),
    5,
    50,
    1,
    Mark(4, 0, 1),
    Mark(4, 0, 2),
)
KNOWN = Memory("A->B", "id of A", "id of B", {ORDERS: ENTRY})


def test_what_was_compared_is_remembered_once_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    remember = tmp_path / "memory.json"
    compared = Compared(monkeypatch, planned(KNOWN))
    found = verify.verify_flow(FLOW, {}, remember=remember)
    assert (found.partitions, found.left_out) == (("partition",), ("left out", "left out too"))
    assert compared.updated == [(KNOWN, "logs", [(PAIR, EQUAL)])]
    assert parse(remember.read_text()) == KNOWN


def test_nothing_is_remembered_that_nobody_wants_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compared = Compared(monkeypatch, planned(KNOWN))
    verify.verify_flow(FLOW, {})
    assert compared.updated == []
    assert list(tmp_path.iterdir()) == []


def test_each_pair_has_its_comparison(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Compared(monkeypatch, planned(KNOWN, (PAIR, PAIR)))
    with pytest.raises(ValueError, match="shorter"):
        verify.verify_flow(FLOW, {}, remember=tmp_path / "memory.json")


@pytest.mark.parametrize(
    ("starts", "looks"),
    [
        # What was not read is there still, whatever kept it from being read.
        ([(0, 0)], 1),
        ([(5, 0), (5, 0)], 2),
        ([(0, 5), (0, 5)], 2),
        # Retention may be faster: then it is reported.
        ([(5, 0), (6, 0), (7, 0)], 3),
    ],
)
def test_what_was_removed_before_it_was_read_is_planned_anew_from_where_the_logs_begin_then(
    starts: Sequence[tuple[int, int]], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found equal is remembered, so that it is not read again."""
    plans = iter(
        planned(KNOWN, [replace(PAIR, source=replace(PAIR.source, start=one), target=replace(PAIR.target, start=two))])
        for one, two in starts
    )
    compared: list[PartitionPair] = []

    def compare(pairs: Sequence[PartitionPair]) -> Equivalence:
        compared.extend(pairs)
        return Equivalence((UNREAD,))

    monkeypatch.setattr(verify, "updated", lambda memory, *_: memory)
    remembered: list[Memory] = []

    def plan_anew(memory: Memory) -> verify.Plan:
        remembered.append(memory)
        return cast(verify.Plan, next(plans))

    plan, found = verify._compared(cast(verify.Plan, planned(KNOWN)), compare, plan_anew)
    assert (len(compared), found.partitions) == (looks, (UNREAD,))
    assert plan.pairs == compared[-1:]
    assert remembered == [KNOWN] * min(looks, 2)


@pytest.mark.parametrize(("found", "lacks"), [((UNREAD, DIFFERENT), False), ((UNREAD, EQUAL), True)])
def test_neither_a_difference_nor_a_partition_is_lost_by_another_look(
    found: Sequence[PartitionEquivalence], lacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then retention may have removed the very record that the copy lacks, or the topic be gone."""
    monkeypatch.setattr(verify, "updated", lambda memory, *_: memory)
    both = [PAIR, replace(PAIR, source=replace(PAIR.source, partition=TopicPartition("orders", 7)))]
    anew = [replace(PAIR, source=replace(PAIR.source, start=5)), *([] if lacks else both[1:])]
    looks = iter([Equivalence(tuple(found))])
    plan, seen = verify._compared(
        cast(verify.Plan, planned(KNOWN, both)),
        lambda _: next(looks),
        lambda _: cast(verify.Plan, planned(KNOWN, anew)),
    )
    assert (plan.pairs, seen.partitions) == (both, tuple(found))


def test_where_there_is_nothing_to_compare_spark_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch, planned(KNOWN, ()))
    found = verify.verify_flow(FLOW, {})
    assert (found.partitions, found.left_out, compared.sessions) == ((), ("left out",), 0)
    assert found.nothing == "nothing selected"


@pytest.mark.parametrize(
    ("written", "is_refused"),
    [
        (KNOWN, False),
        (replace(KNOWN, source_id="id of another A"), True),
        (replace(KNOWN, target_id="id of another B"), True),
        # Nothing was compared between those.
        (replace(KNOWN, source_id="id of another A", entries={}), False),
    ],
)
def test_what_is_remembered_of_two_other_clusters_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: Memory, is_refused: bool
) -> None:
    remember = tmp_path / "memory.json"
    remember.write_text(written.as_text())
    compared = Compared(monkeypatch, planned(KNOWN))
    if is_refused:
        with pytest.raises(ConfigError, match="it is about A->B between two other clusters"):
            verify.verify_flow(FLOW, {}, remember=remember)
        assert (compared.sessions, remember.read_text()) == (0, written.as_text())
    else:
        verify.verify_flow(FLOW, {}, remember=remember)
        assert parse(remember.read_text()) == KNOWN


def test_a_file_that_tells_of_another_flow_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    remember = tmp_path / "memory.json"
    remember.write_text(replace(KNOWN, flow="B->A").as_text())
    Compared(monkeypatch, planned(KNOWN))
    with pytest.raises(ConfigError, match="it is about the flow B->A, not of A->B"):
        verify.verify_flow(FLOW, {}, remember=remember)


def test_a_partition_with_records_and_without_a_position_is_named() -> None:
    empty, one = TopicPartition("bills", 0), TopicPartition("bills", 1)
    ends = {EARLIEST: {empty: 5, one: 5}, LATEST: {empty: 5, one: 6}}
    source: Any = SimpleNamespace(offsets=lambda _, where: ends[where])
    (found,) = verify._never_copied(FLOW, source, [empty, one])
    assert (found.partition, found.start, found.end, found.is_unchecked) == (one, 5, 6, True)


LAST, REMOTE_LAST = Mark(4, 0, 1), Mark(5, 0, 2)


@pytest.mark.parametrize(
    ("found", "gone"),
    [
        ((LAST, REMOTE_LAST), None),
        ((LAST, None), "B"),
        ((None, REMOTE_LAST), "A"),
        # Another batch begins at the same offset.
        ((LAST, Mark(5, 0, 3)), "B"),
        ((Mark(4, 1, 1), REMOTE_LAST), "A"),
        ((None, None), "A and B"),
    ],
)
def test_what_was_compared_earlier_counts_only_where_its_last_batch_still_stands_on_both_sides(
    monkeypatch: pytest.MonkeyPatch, found: tuple[Mark | None, Mark | None], gone: str | None
) -> None:
    """A log that was cut, or written again, ends before it or holds another one there."""
    held = {"A": found[0], "B": found[1]}

    class Reader:
        def __init__(self, channel: Any, *_: object) -> None:
            self._held = held[channel.alias]

        def fetch(self, **_: object) -> list[tuple[bytes, Mark]]:
            return [] if self._held is None else [(b"", self._held)]

    monkeypatch.setattr(verify_memory, "LogReader", Reader)
    monkeypatch.setattr(verify_memory, "mark_of", lambda header: header)
    channels: Any = tuple(SimpleNamespace(alias=alias) for alias in "AB")
    pair = replace(PAIR, source=replace(PAIR.source, end=10), target=replace(PAIR.target, end=11))
    entry = replace(ENTRY, last=LAST, remote_last=REMOTE_LAST, foreign=0)
    compared = verify_memory.with_memory(pair, entry, entry.logs, channels, lost=False)
    assert (compared.remembered is not None) == (gone is None)
    told = f"all of it was compared anew: the last batch that was compared is not there any more on {gone}"
    assert compared.notes == (() if gone is None else (told,))


class Leaders:
    """A cluster that tells of some partitions alone, and lacks others."""

    def __init__(self, untold: Collection[TopicPartition], lacks: Collection[TopicPartition] = ()) -> None:
        self._untold, self._lacks = {*untold, *lacks}, lacks

    def offsets_once_led(self, partitions: Iterable[TopicPartition], _: int) -> PartitionAnswers[int]:
        asked = list(partitions)
        return PartitionAnswers(
            {each: 0 for each in asked if each not in self._untold},
            {each: LeaderUnknown(f"{each} has no leader") for each in asked if each in self._untold},
        )

    def absent(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        return frozenset(partitions) & frozenset(self._lacks)


def test_a_partition_without_a_leader_is_not_checked_and_one_that_is_gone_is_left_out_while_others_are_compared() -> (
    None
):
    one, two, three, four = (TopicPartition("orders", number) for number in range(4))
    at = Position(5, 5, 0, complete=True)
    state = on_record(*(at.record(each) for each in (one, two, three, four)))
    source, target = Leaders([two], lacks=[three]), Leaders([TopicPartition("A.orders", 3)])
    copied, starts, left_out = verify._chosen(FLOW, state, cast(Any, source), cast(Any, target))
    assert copied == {one: TopicPartition("A.orders", 0)}
    assert starts[one] == 0
    assert [(each.partition.partition, each.reason, each.is_unchecked) for each in left_out] == [
        (1, "orders-1 has no leader", True),
        (2, "orders-2 is not on A any more", False),
        (3, "A.orders-3 has no leader", True),
    ]
    assert {(each.cluster, each.start, each.end) for each in left_out} == {("B", 0, 5)}


@pytest.mark.parametrize("dead", ["source", "copy"])
def test_a_partition_without_a_leader_of_which_nothing_is_copied_yet_is_not_checked_either(dead: str) -> None:
    """Its first position is on record before its first record is: it was neither compared nor named, and all was PASS."""
    orders, copy = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
    state = on_record(Position(0, 0, 0, complete=True).record(orders))
    source, target = Leaders([orders] if dead == "source" else []), Leaders([copy] if dead == "copy" else [])
    copied, _, left_out = verify._chosen(FLOW, state, cast(Any, source), cast(Any, target))
    assert copied == {}
    where = "orders-0" if dead == "source" else "A.orders-0"
    assert list(map(str, left_out)) == [f"not checked: B A.orders-0 from 0 on: {where} has no leader"]
    assert Equivalence((), left_out=tuple(left_out)).verdict is Verdict.UNKNOWN
