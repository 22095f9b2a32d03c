"""What lies in a copy outside of what is compared is told by the headers of its batches."""

from __future__ import annotations

from mirror.kafka.batch import Header, Producer
from mirror.proof.outside import Found, Seen, behind, in_front
from tests.raw_logs import MIRROR, SOMEBODY, Log, record

NEXT = Producer(MIRROR.producer_id, MIRROR.epoch + 1)
OWN = frozenset({MIRROR.producer_id})


def headers(*written: tuple[Producer, int]) -> list[Header]:
    """The headers of batches of so many records, one behind the other, from offset 0 on."""
    log = Log()
    for producer, count in written:
        log.append([record(number) for number in range(count)], 0, producer)
    return [header for _, header in log.batches]


def test_records_of_others_are_told_from_those_that_are_on_their_way() -> None:
    found = behind(Found(), headers((MIRROR, 2), (SOMEBODY, 3), (NEXT, 4)), (0, 9), OWN)
    assert found == Found(own_behind=Seen(6, 0, 9), foreign_behind=Seen(3, 2, 5))


def test_what_comes_behind_a_later_epoch_of_the_flow_came_late() -> None:
    found = behind(Found(), headers((NEXT, 2), (MIRROR, 3), (NEXT, 1)), (0, 6), OWN)
    assert found == Found(own_behind=Seen(3, 0, 6), late_behind=Seen(3, 2, 5))


def test_of_a_batch_across_the_edge_no_more_counts_than_lies_inside() -> None:
    assert behind(Found(), headers((SOMEBODY, 4), (SOMEBODY, 4)), (3, 6), OWN) == Found(foreign_behind=Seen(3, 3, 6))
    assert in_front(Found(), headers((SOMEBODY, 2), (MIRROR, 2)), (0, 2), OWN) == Found(foreign_before=Seen(2, 0, 2))


def test_without_a_writer_on_record_everybody_is_somebody_else() -> None:
    assert behind(Found(), headers((MIRROR, 1)), (0, 1), frozenset()) == Found(foreign_behind=Seen(1, 0, 1))
