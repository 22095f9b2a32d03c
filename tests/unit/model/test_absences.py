"""What gaps on record explain of a copy that lacks records: what was parked or left out, as long as it is that log."""

from __future__ import annotations

import pytest

from mirror.model.absences import Absence, AbsenceKind, absences
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.parked import Origin, origin, parked_headers
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 3)


def state(*gaps: Gap, known: Gap | None = None) -> FlowState:
    made = FlowState()
    for gap in gaps:
        made.apply(*gap.record())
    if known is not None:
        made.apply(*Acknowledgement("ann", "a test", 99).record(known.key))
    return made


def test_what_was_parked_or_left_out_is_absent_and_a_record_parked_twice_is_one() -> None:
    parked = Gap(ORDERS, 5, 6, "too large", 10, GapKind.PARKED)
    again = Gap(ORDERS, 5, 6, "too large", 20, GapKind.PARKED)
    left_out = Gap(ORDERS, 2, 4, "poison", 30, GapKind.SKIPPED)
    elsewhere = Gap(TopicPartition("orders", 4), 0, 1, "poison", 30, GapKind.SKIPPED)
    assert absences(state(parked, again, left_out, elsewhere, known=again), ORDERS) == (
        Absence(AbsenceKind.GAP, 2, 4, "poison", acknowledged=False),
        Absence(AbsenceKind.PARKED, 5, 6, "too large", acknowledged=True),
    )


@pytest.mark.parametrize("kind", [GapKind.RETENTION, GapKind.TARGET_LOST, GapKind.UNMATCHED, GapKind.COPIED_AGAIN])
def test_of_other_gaps_the_copy_has_all_that_the_source_still_has(kind: GapKind) -> None:
    assert absences(state(Gap(ORDERS, 2, 4, "r", 30, kind)), ORDERS) == ()


@pytest.mark.parametrize(
    ("later", "is_explained"),
    [
        (Gap(ORDERS, 90, 95, "r", 40, GapKind.RECREATED), False),
        (Gap(ORDERS, 2, 95, "r", 40, GapKind.TRUNCATED), False),
        (Gap(ORDERS, 6, 95, "r", 40, GapKind.TRUNCATED), True),
        (Gap(ORDERS, 90, 95, "r", 20, GapKind.RECREATED), False),
    ],
)
def test_a_gap_of_a_log_that_is_no_more_explains_nothing(later: Gap, is_explained: bool) -> None:
    """By the order in which they are recorded, whatever the clocks said."""
    poison = Gap(ORDERS, 2, 4, "poison", 30)
    assert bool(absences(state(poison, later), ORDERS)) is is_explained
    assert absences(state(later, poison), ORDERS)


def test_a_parked_record_says_where_it_comes_from_and_what_headers_it_had() -> None:
    """Also one that had been parked before, by another mirror."""
    own: tuple[tuple[str, bytes | None], ...] = (("a", b"1"), *parked_headers("north", ORDERS, 1, 2, "large"))
    assert origin((*own, *parked_headers("east", ORDERS, 7, 1234, "too large"))) == Origin(ORDERS, 7, 1234, own)
    assert origin((("a", b"1"),)) is None
    assert origin((("mirror.parked.cluster", b"east"), ("mirror.parked.topic", b"orders"))) is None
