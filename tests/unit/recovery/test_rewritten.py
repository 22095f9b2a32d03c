"""What was compared with a source, and of which partitions nothing could be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from mirror.kafka import topic_ids
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import EARLIEST, Channel
from mirror.kafka.problems import LeaderUnknown
from mirror.model.failover import Phase
from mirror.model.flow_state import FlowState
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import chunk_record
from mirror.model.verdict import Verdict
from mirror.recovery import rewritten as module
from mirror.recovery.failback import steps_home
from mirror.recovery.rewritten import Rewritten, find_rewritten
from tests.unit.recovery.world import ENTRY, ORDERS, THERE, StandInEnds, World, move_home

COPIED = Position(10, 10, 0, complete=True, epochs=(EpochEnd(3, 10),))


@dataclass
class Source:
    """A source whose leaders tell of epochs, or refuse to; where its logs begin it does not tell."""

    epoch_ends: Mapping[Any, EpochEnd | None] = field(default_factory=dict)

    def learn_leaders(self, _: object) -> None:
        """As `Channel`."""

    def topic_id(self, _: str) -> str:
        return ""

    def find_epoch_ends(self, wanted: Mapping[Any, int]) -> PartitionAnswers[EpochEnd | None]:
        left = (each for each in wanted if each not in self.epoch_ends)
        return PartitionAnswers(self.epoch_ends, {each: LeaderUnknown("no epochs") for each in left})

    def find_offsets(self, wanted: list[Any], _: int) -> PartitionAnswers[int]:
        return PartitionAnswers(problems={each: LeaderUnknown("no start") for each in wanted})


def rewritten(source: Source) -> Rewritten:
    channel = cast(Channel, source)
    return find_rewritten(THERE, FlowState(), {ORDERS: COPIED}, channel, channel)


def test_what_neither_leader_epochs_nor_records_tell_is_not_known() -> None:
    found = rewritten(Source())
    assert (dict(found.differences), found.compared) == ({}, 0)
    assert found.unknown_messages() == ["orders-0: no start; of its leader epochs: no epochs"]


def test_leader_epochs_alone_are_enough() -> None:
    found = rewritten(Source({ORDERS: EpochEnd(3, 10)}))
    assert (dict(found.differences), dict(found.unknown), found.compared) == ({}, {}, 0)


@pytest.mark.parametrize(
    ("compared", "said"),
    [(2, "the last records that were copied are there, compared in 2 partitions"), (0, "no records were compared")],
)
def test_records_are_said_to_be_there_only_where_they_were_compared(compared: int, said: str, tmp_path: Path) -> None:
    world = World(rewritten=Rewritten(compared=compared), record={"ours": replace(ENTRY, phase=Phase.DONE)})
    steps = steps_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow))
    returned = next(each for each in steps if each.name == "returned").act({})
    assert returned.verdict is Verdict.PASS
    assert said in returned.detail
    assert ("are there" in returned.detail) is bool(compared)


COPY = TopicPartition("east.orders", 0)


@dataclass
class Logs(Source):
    """A cluster's log as prints by offset; its topic has an id."""

    prints: Mapping[int, int] = field(default_factory=dict)
    start: int = 0
    end: int = 100
    id: str = "id"

    def topic_id(self, _: str) -> str:
        return self.id

    def find_offsets(self, wanted: list[Any], _: int) -> PartitionAnswers[int]:
        return PartitionAnswers(dict.fromkeys(wanted, self.start))

    def offsets(self, wanted: list[Any], at: int) -> dict[Any, int]:
        return dict.fromkeys(wanted, self.start if at == EARLIEST else self.end)


def compared(
    monkeypatch: pytest.MonkeyPatch, source: Logs, target: Logs, *, topic_id: str = "id", origin: int = 0
) -> Rewritten:
    """Compare a copy of offsets 0 to 49, three further on the target, with its source."""
    position = Position(50, 53, origin, complete=True, topic_id=topic_id, target=COPY.topic)
    state = FlowState()
    for key, value in (chunk_record(ORDERS, 0, [Run(0, 3, 50)]), position.record(ORDERS)):
        state.apply(key, value)
    monkeypatch.setattr(
        module,
        "_prints_at",
        lambda log, _, wanted: {each: log.prints[each] for each in wanted if each in log.prints},
    )
    return find_rewritten(THERE, state, {ORDERS: position}, cast(Channel, source), cast(Channel, target))


def held(rewritten_from: int = 50, start: int = 0) -> Logs:
    """The source, whose records from some offset on are others than were copied."""
    prints = {offset: offset + (1000 if offset >= rewritten_from else 0) for offset in range(start, 50)}
    return Logs(prints=prints, start=start)


def test_a_source_that_still_has_what_was_copied_is_the_one_that_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(monkeypatch, held(), Logs(prints={offset + 3: offset for offset in range(50)}))
    assert (dict(found.differences), dict(found.unknown), found.compared) == ({}, {}, 1)


@pytest.mark.parametrize("first", range(50))
def test_the_first_record_that_is_another_one_is_found(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    found = compared(monkeypatch, held(first), Logs(prints={offset + 3: offset for offset in range(50)}))
    (said,) = found.difference_messages()
    assert said.startswith(f"orders-0: it has other records than were copied from offset {first} on (the copy")


def test_what_is_gone_from_either_side_is_not_held_against_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = "neither side has the last records that were copied any more; of its leader epochs: none are on record"
    for source, target in (
        (Logs(start=50), Logs(prints={offset + 3: offset for offset in range(50)})),
        (held(), Logs(start=53)),
        # The copy was cut, and others have written there since.
        (held(), Logs(prints=dict.fromkeys(range(53), 7), start=53)),
    ):
        found = compared(monkeypatch, source, target)
        assert (dict(found.differences), found.unknown_messages()) == ({}, [f"orders-0: {nothing}"])


@pytest.mark.parametrize(("known", "now", "is_other"), [("id", "new", True), ("id", "", False), ("", "new", False)])
def test_a_topic_with_another_id_is_another_topic_and_without_ids_the_records_tell(
    monkeypatch: pytest.MonkeyPatch, known: str, now: str, is_other: bool
) -> None:
    source = replace(held(), id=now)
    found = compared(monkeypatch, source, Logs(prints={offset + 3: offset for offset in range(50)}), topic_id=known)
    assert ("deleted and created anew" in "".join(found.difference_messages()), found.compared) == (
        is_other,
        0 if is_other else 1,
    )


def test_of_a_partition_of_which_nothing_was_copied_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(monkeypatch, held(0), Logs(), origin=50)
    assert (dict(found.differences), dict(found.unknown), found.compared) == ({}, {}, 0)


@pytest.mark.parametrize("now", ["", topic_ids.NONE])
def test_a_topic_that_the_source_has_no_more_was_not_created_anew(now: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planned failover was refused for a topic that had been deleted on the source long ago."""
    monkeypatch.setattr(Source, "topic_id", lambda *_: now)
    channel = cast(Channel, Source())
    copied = {ORDERS: replace(COPIED, topic_id="AbCdEfGhIjKlMnOpQrStUw")}
    assert find_rewritten(THERE, FlowState(), copied, channel, channel, by_epochs=True).differences == {}


@pytest.mark.parametrize(
    ("epochs", "is_unknown"), [((EpochEnd(3, 10),), True), ((EpochEnd(NOT_KNOWN, 10),), False), ((), False)]
)
def test_leader_epochs_that_are_on_record_and_not_answered_are_not_known_and_others_tell_nothing(
    epochs: tuple[EpochEnd, ...], *, is_unknown: bool
) -> None:
    """What a broker that does not answer has lost was called exact."""
    channel = cast(Channel, Source())
    copied = {ORDERS: replace(COPIED, epochs=epochs)}
    found = find_rewritten(THERE, FlowState(), copied, channel, channel, by_epochs=True)
    assert (ORDERS in found.unknown, found.differences) == (is_unknown, {})
