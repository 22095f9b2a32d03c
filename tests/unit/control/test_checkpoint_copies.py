"""Offsets of a checkpoint are of one copy: after it was created anew, or its source was, the lower position counts."""

from __future__ import annotations

from typing import cast

import pytest

from mirror.control.checkpoint_copies import CheckpointCopies
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.model.checkpoint import Checkpoint, CheckpointedCopy, CopyId
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import checkpointed_record, chunk_record
from mirror.model.topics import DefaultReplicationPolicy

ORDERS, COPY = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
OLD = CopyId("source", "copy", 0)


class Log:
    """What a flow has on record."""

    def __init__(self, position: Position, *runs: Run, known: CheckpointedCopy | None = None) -> None:
        self.state = FlowState()
        records = [chunk_record(ORDERS, 0, runs), position.record(ORDERS)]
        for key, value in records + ([checkpointed_record(known)] if known else []):
            self.state.apply(key, value)

    def poll(self) -> FlowState:
        return self.state

    def source_of(self, copy: TopicPartition) -> TopicPartition | None:
        return ORDERS if copy == COPY else None

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        return self.state.offset_map(source)


def copies(log: Log) -> CheckpointCopies:
    return CheckpointCopies(FlowTranslator(cast("FlowLog", log), lambda: None, DefaultReplicationPolicy("."), "west"))


def going_on(copy: CopyId, *runs: Run, known: CopyId | None = OLD, since: int = 5) -> CheckpointCopies:
    """Return what tells checkpoints when ``copy`` is the present one, and ``known`` the last that had checkpoints."""
    position = Position(
        runs[-1].upstream_end,
        runs[-1].downstream_end,
        runs[0].upstream,
        True,
        topic_id=copy.source_id,
        target_id=copy.target_id,
        target=COPY.topic,
        incarnation=copy.incarnation,
    )
    return copies(Log(position, *runs, known=CheckpointedCopy(COPY, known, since) if known else None))


def at(upstream: int, downstream: int, offset: int | None = 7) -> Checkpoint:
    return Checkpoint("billing", COPY, upstream, downstream, "note", offset)


def test_checkpoints_are_of_the_present_copy_from_the_record_on_that_is_remembered() -> None:
    same = going_on(OLD, Run(0, 0, 9))
    assert [same.is_current(at(1, 1, offset)) for offset in (4, 5, None)] == [False, True, True]
    assert [same.unrecorded([COPY], since) for since in (5, 9)] == [[], []]


def test_in_a_checkpoints_topic_that_begins_lower_again_they_are_of_the_present_copy_from_there_on() -> None:
    """It was deleted, or truncated: else none would count until it had grown past the former offset."""
    assert going_on(OLD, Run(0, 0, 9)).unrecorded([COPY], 4) == [CheckpointedCopy(COPY, OLD, 4)]


@pytest.mark.parametrize(
    "copy", [CopyId("other", "copy", 0), CopyId("source", "other", 0), CopyId("source", "copy", 1)]
)
def test_of_another_copy_none_is_and_that_goes_on_record_before_its_own(copy: CopyId) -> None:
    other = going_on(copy, Run(0, 0, 9))
    assert not other.is_current(at(1, 1))
    assert other.unrecorded([COPY, COPY], 9) == [CheckpointedCopy(COPY, copy, 9)]


@pytest.mark.parametrize("copy", [CopyId("", "copy", 0), CopyId("source", "A" * 22, 0)])
def test_an_id_that_is_not_known_is_no_other(copy: CopyId) -> None:
    assert going_on(copy, Run(0, 0, 9)).is_current(at(1, 1))


def test_before_anything_was_remembered_only_a_copy_that_never_began_anew_is_known() -> None:
    assert going_on(OLD, Run(0, 0, 9), known=None).is_current(at(1, 1))
    assert not going_on(CopyId("source", "copy", 2), Run(0, 0, 9), known=None).is_current(at(1, 1))


def test_of_what_is_not_copied_nothing_is_known() -> None:
    elsewhere = Checkpoint("billing", TopicPartition("elsewhere", 0), 1, 1)
    known = going_on(OLD, Run(0, 0, 9))
    assert known.is_current(elsewhere)
    assert known.lowered(elsewhere) is None
    assert known.unrecorded([elsewhere.topic_partition], 9) == []


def test_after_the_source_was_created_anew_a_group_goes_on_where_it_was_on_the_copy() -> None:
    """Behind that lies what of the old one it has not read, then the new one from its start."""
    anew = going_on(CopyId("other", "copy", 1), Run(0, 8000, 100))
    assert anew.lowered(at(5000, 5000)) == at(0, 5000)
    assert anew.lowered(at(9000, 9000)) == at(0, 8000)


def test_after_the_copy_was_created_anew_a_group_goes_on_by_its_position_on_the_source() -> None:
    anew = going_on(CopyId("source", "other", 1), Run(900, 0, 500))
    assert anew.lowered(at(1000, 1000)) == at(1000, 100)


def test_after_the_copy_went_back_the_lower_position_counts() -> None:
    back = going_on(CopyId("source", "copy", 1), Run(0, 0, 100), Run(100, 150, 100))
    assert back.lowered(at(120, 120)) == at(120, 120)
    assert back.lowered(at(50, 50)) == at(50, 50)


def test_after_both_were_created_anew_it_has_read_nothing() -> None:
    anew = going_on(CopyId("other", "other", 1), Run(20, 3, 100))
    assert anew.lowered(at(50, 50)) == at(20, 3)
    assert anew.lowered(at(50, 1)) == at(20, 3)


def test_after_the_copy_was_created_anew_a_group_is_not_put_behind_where_it_was_on_the_one_before() -> None:
    assert going_on(CopyId("source", "other", 1), Run(900, 0, 500)).lowered(at(1000, 60)) == at(1000, 60)


def test_where_it_is_not_known_which_copy_was_before_the_lower_position_counts() -> None:
    unknown = going_on(CopyId("source", "copy", 2), Run(0, 20, 9), known=None)
    assert unknown.lowered(at(5, 50)) == at(5, 25)
    assert unknown.lowered(at(5, 10)) == at(5, 10)
    assert unknown.unrecorded([COPY], 9) == [CheckpointedCopy(COPY, CopyId("source", "copy", 2), 9)]


def test_a_checkpoint_from_before_the_present_copy_began_is_replaced_by_none() -> None:
    position = Position(950, 50, 900, False, topic_id="source", target_id="other", target=COPY.topic, incarnation=1)
    late = copies(Log(position, Run(900, 0, 50), known=CheckpointedCopy(COPY, OLD, 5)))
    assert late.lowered(at(899, 899)) is None
    assert late.lowered(at(900, 900)) == at(900, 0)
