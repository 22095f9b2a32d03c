"""Between clusters, whichever flows put a group where, it passes no record that it has not read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirror.control.group_translator import translate_read
from mirror.control.groups import GroupAction, GroupDecision, TargetGroups, plan_group_writes
from mirror.control.mesh import MeshTranslator, Third
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.model.checkpoint import Checkpoint
from mirror.model.offset_map import OffsetMap, Run, Runs, extend
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.shared_topic import translate_shared
from mirror.model.translation import Bounded, Exact, NothingRead, Translation

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)


def decide(
    partition: TopicPartition, upstream: int, downstream: int, log: tuple[int, int], present: int | None = None
) -> GroupDecision:
    """Return what is done with a group's checkpoint where the log has these ends."""
    positions = Found({} if present is None else {partition: GroupPosition(present)})
    target = TargetGroups(
        Found({"billing": GroupDescription("Empty", 0)}),
        Found({"billing": positions}),
        Found({partition: log[1]}),
        Found({partition: log[0]}),
    )
    (decision,) = plan_group_writes([Checkpoint("billing", partition, upstream, downstream)], target)
    return decision


class One:
    """A translator by one map, in one direction."""

    def __init__(self, known: OffsetMap, *, back: bool) -> None:
        self._translate = known.translate_back if back else known.translate

    def translate(self, _source: TopicPartition, position: int) -> Translation:
        return self._translate(position)


@dataclass(frozen=True)
class Pair:
    """A partition and its copy: which record became which, and where the log of the copy begins and ends."""

    copied: dict[int, int]
    known: OffsetMap
    start: int
    end: int


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Holes on both sides: what was filtered, parked or lost, markers, other writers; a log that lost its beginning."""
    upstream, downstream = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    copied: dict[int, int] = {}
    runs: list[Run] = []
    steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=6)
    for upstream_hole, downstream_hole, length in draw(steps):
        upstream, downstream = upstream + upstream_hole, downstream + downstream_hole
        extend(runs, Run(upstream, downstream, length))
        copied |= {upstream + number: downstream + number for number in range(length)}
        upstream, downstream = upstream + length, downstream + length
    known = OffsetMap(0, True, Runs.of(runs), upstream + draw(st.integers(0, 3)), downstream)
    return Pair(copied, known, draw(st.integers(0, downstream)), downstream)


@given(pairs(), st.integers(0, 40), st.integers(0, 20))
def test_home_from_the_copy_a_group_passes_only_what_it_has_read_there(pair: Pair, position: int, read: int) -> None:
    there = translate_read(One(pair.known, back=False), ORDERS, position, None)
    assert isinstance(there, Exact | Bounded)
    put = decide(COPY, position, there.downstream, (pair.start, pair.end))
    assert put.action is GroupAction.WRITE
    at = min(put.wanted.position + read, pair.end)
    home = translate_read(One(pair.known, back=True), COPY, at, put.placement)
    if at == put.wanted.position:
        assert isinstance(home, NothingRead)
        assert (home.position, home.home) == (at, position)
        return
    assert isinstance(home, Exact | Bounded)
    last = max(position, max(pair.copied, default=0) + 10)
    final = decide(ORDERS, at, home.downstream, (0, last), position)
    reached = final.wanted.position if final.action is GroupAction.WRITE else position
    handed = {up for up, down in pair.copied.items() if put.wanted.position <= down < at}
    assert reached <= max(position, max(handed, default=-1) + 1)
    assert not {up for up in range(position, reached) if up in pair.copied} - handed


@pytest.mark.parametrize(
    ("run", "origin", "written", "home", "restart"),
    [
        # The topic was made anew from the standby, which has others than the records 10 and 11 that were read.
        (Run(0, 0, 15), 0, 10, 12, 10),
        # The copy was deleted, and made anew from where the source's log begins by now.
        (Run(500, 0, 1200), 500, 1000, 1000, 500),
        # It was begun at the source's end: all that is copied lies behind what was read.
        (Run(1000, 0, 200), 1000, 700, 700, 0),
        # Nothing was made anew.
        (Run(0, 0, 1200), 0, 1000, 1000, 1000),
    ],
)
def test_who_has_read_nothing_and_is_nowhere_any_more_passes_nothing_in_a_topic_that_was_made_anew(
    run: Run, origin: int, written: int, home: int, restart: int
) -> None:
    known = OffsetMap(origin, origin < written, Runs.of([run]), run.upstream + run.length, run.downstream + run.length)
    put = Placement("billing", COPY, home, written, written)
    found = translate_read(One(known, back=False), ORDERS, written, put)
    assert isinstance(found, NothingRead)
    assert (found.home, found.restart) == (home, restart)


# A record is known by who wrote it first, and its number there; a marker is None.
Record = tuple[str, int] | None


@dataclass
class Side:
    """One cluster's log of a topic that all share, and what of its own records the others have."""

    name: str
    log: list[Record] = field(default_factory=list)
    written: int = 0
    runs: dict[str, list[Run]] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    def write(self, count: int) -> None:
        self.log += [(self.name, self.written + number) for number in range(count)]
        self.written += count

    def copy_to(self, other: Side, count: int) -> None:
        begin = self.copied.get(other.name, 0)
        for offset in range(begin, min(begin + count, len(self.log))):
            record = self.log[offset]
            if record is not None and record[0] == self.name:
                extend(self.runs.setdefault(other.name, []), Run(offset, len(other.log), 1))
                other.log.append(record)
                self.ends[other.name] = len(other.log)
            self.copied[other.name] = offset + 1

    def map_to(self, other: Side) -> OffsetMap:
        runs = Runs.of(self.runs.get(other.name, []))
        return OffsetMap(0, True, runs, self.copied.get(other.name, 0), self.ends.get(other.name, 0))


class Flow:
    """What a flow between two sides has recorded."""

    def __init__(self, source: Side, target: Side) -> None:
        self._map = source.map_to(target)

    def offset_map(self, _source: TopicPartition) -> OffsetMap | None:
        return self._map


class Shared:
    """A translator between two sides by both maps."""

    def __init__(self, source: Side, target: Side) -> None:
        self._maps = source.map_to(target), target.map_to(source)

    def translate(self, _source: TopicPartition, position: int) -> Translation:
        return translate_shared(*self._maps, position)


def between(source: Side, target: Side, sides: list[Side]) -> MeshTranslator:
    """Return how positions are translated from one side to another, beside the others."""
    thirds = [Third(Flow(each, source), Flow(each, target)) for each in sides if each not in (source, target)]
    return MeshTranslator(Shared(source, target), lambda _: thirds)


PAIRS = [(source, target) for source in range(3) for target in range(3) if source != target]


@given(
    sides=st.sampled_from([2, 3]),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 2), st.integers(1, 4)),
            st.tuples(st.just("marker"), st.integers(0, 2), st.just(1)),
            st.tuples(st.sampled_from(PAIRS), st.just(0), st.integers(1, 6)),
        ),
        max_size=24,
    ),
    share=st.floats(0, 1),
    lost=st.floats(0, 1),
    read=st.integers(0, 5),
)
@example(3, [("write", 0, 4), ((0, 1), 0, 4), ((0, 2), 0, 4)], 0.0, 1.0, 0)
def test_on_a_topic_that_all_share_a_group_passes_nothing_unread_on_whichever_cluster_it_is_put(
    sides: int, steps: list[tuple[str | tuple[int, int], int, int]], share: float, lost: float, read: int
) -> None:
    all_sides = [Side(name) for name in "abc"[:sides]]
    for step, side, count in steps:
        match step:
            case "write":
                all_sides[side % sides].write(count)
            case "marker":
                all_sides[side % sides].log.append(None)
            case (source, target) if source < sides and target < sides:
                all_sides[source].copy_to(all_sides[target], count)
            case _:
                pass
    a, b, *_ = all_sides
    position = int(share * len(a.log))
    known = set(a.log[:position])
    there = translate_read(between(a, b, all_sides), ORDERS, position, None)
    assert isinstance(there, Exact | Bounded)
    put = decide(ORDERS, position, there.downstream, (int(lost * len(b.log)), len(b.log)))
    assert put.action is GroupAction.WRITE
    at = min(put.wanted.position + read, len(b.log))
    known |= set(b.log[put.wanted.position : at])
    for third in all_sides:
        if third is b:
            continue
        placed: tuple[Placement | None, list[Placement]] = (
            (put.placement, []) if third is a else (None, [put.placement])
        )
        found = translate_read(between(b, third, all_sides), ORDERS, at, *placed)
        if isinstance(found, NothingRead):
            assert (third, at) == (a, put.wanted.position)
            continue
        assert isinstance(found, Exact | Bounded)
        # Back home it is at its old position, if not further on.
        begin = position if third is a else 0
        assert not [each for each in third.log[begin : found.downstream] if each is not None and each not in known]


def test_a_group_that_was_set_back_where_it_was_put_goes_no_further_than_it_was() -> None:
    known = OffsetMap(0, True, Runs.of([Run(0, 0, 100)]), 100, 100)
    placed = Placement("billing", COPY, 20, 20, 50)
    home = One(known, back=True)
    assert translate_read(home, COPY, 30, placed) == Bounded(20, 10)
    assert translate_read(home, COPY, 10, placed) == Exact(10)
    assert translate_read(home, COPY, 60, placed) == Bounded(20, 40)
    assert translate_read(home, COPY, 60, replace(placed, written=20)) == Exact(60)


def test_a_group_that_stands_where_it_was_put_before_a_write_that_is_pending_has_read_nothing() -> None:
    """It was put at 50, behind what it had not read, and the next position, 60, was not answered."""
    known = OffsetMap(0, True, Runs.of([Run(0, 0, 100)]), 100, 100)
    pending = Placement("billing", COPY, 60, 60, 60, before=50, before_upstream=20, before_downstream=20)
    home = One(known, back=True)
    assert translate_read(home, COPY, 50, pending) == NothingRead(50, 20, 50)
    assert translate_read(home, COPY, 60, pending) == NothingRead(60, 60, 60)
    assert translate_read(home, COPY, 55, pending) == Bounded(20, 35), "what lies before 50 it has not read"
    assert translate_read(home, COPY, 55, pending.answered) == Exact(55)
    assert translate_read(home, COPY, 55, None, [pending]) == Exact(20)
    assert translate_read(home, COPY, 50, replace(pending, before_upstream=None)) == Exact(50), (
        "it had read up to there"
    )
    assert translate_read(home, COPY, 80, replace(pending, written=70)) == Bounded(20, 60), "both were raised"
