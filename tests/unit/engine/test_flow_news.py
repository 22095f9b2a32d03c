"""The log tells each change of a flow's condition once, and partitions in the same condition together."""

from __future__ import annotations

import pytest

from mirror.control.tick import TickReport
from mirror.copier.work import PartitionResult
from mirror.engine.flow_news import FlowNews
from mirror.engine.hold import Held
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.standing import FlowStanding
from mirror.model.flow_state import Acknowledgement, FlowState, ForeignWriter, Gap
from mirror.model.partition import TopicPartition
from tests.flows import EAST_WEST
from tests.unit.control.builders import flow_settings

ORDERS = [TopicPartition("orders", number) for number in range(4)]
COPIES = tuple((each, TopicPartition("east.orders", each.partition), "", "") for each in ORDERS)


class Watched:
    """A flow that this engine leads, and what the log says of it."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "mirror")
        self.now = 0.0
        self.standing = FlowStanding(flow_settings())
        self.news = FlowNews(self.standing, clock=lambda: self.now)
        self._caplog = caplog
        self.standing.lead(1, was_settled=True)
        self.standing.take_state(FlowState(), Mm2Traces(), Held())
        self.standing.take_partitions(COPIES)

    def look(self) -> list[str]:
        """Return the level and text of what is logged now."""
        self._caplog.clear()
        self.news.look()
        return [f"{record.levelname} {record.getMessage()}" for record in self._caplog.records]


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_the_first_epoch_is_told_once_in_each_term(watched: Watched) -> None:
    assert watched.look() == []
    assert watched.standing.is_starting
    watched.standing.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    reported = ["INFO the first epoch has reported; partitions copied: 4, topics: 1"]
    assert (watched.look(), watched.look()) == (reported, [])
    assert not watched.standing.is_starting
    watched.standing.stand_by()
    assert watched.look() == []
    watched.standing.lead(3, was_settled=True)
    assert watched.look() == []
    watched.standing.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    assert watched.look() == reported


def test_a_flow_without_anything_to_copy_does_not_start_for_ever(watched: Watched) -> None:
    watched.standing.take_partitions(())
    assert not watched.standing.is_starting


def test_stopped_partitions_are_told_with_the_reason_and_when_they_go_on(watched: Watched) -> None:
    for source in ORDERS[:3]:
        watched.standing.take_result(PartitionResult(EAST_WEST, source, None, stopped="KeyError: 'x' in mask"))
    watched.standing.take_trouble(ORDERS[3], "west: NotEnoughReplicasError")
    assert watched.look()[1:] == [
        "WARNING orders-0 (and 2 more) is stopped: KeyError: 'x' in mask",
        "WARNING orders-3 waits: west: NotEnoughReplicasError",
    ]
    assert watched.look() == []
    watched.standing.take_result(PartitionResult(EAST_WEST, ORDERS[1], None))
    watched.standing.take_trouble(ORDERS[3], None)
    assert watched.look() == ["INFO orders-1 is stopped: no longer", "INFO orders-3 waits: no longer"]


def test_what_comes_and_goes_or_changes_its_words_is_told_once_a_minute(watched: Watched) -> None:
    said = []
    for second in range(120):
        watched.now = float(second)
        watched.standing.take_trouble(ORDERS[0], f"attempt {second}" if second % 2 else None)
        said += watched.look()
    assert said == [
        "WARNING orders-0 waits: attempt 1",
        "INFO orders-0 waits: no longer",
        "WARNING orders-0 waits: attempt 61",
        "INFO orders-0 waits: no longer",
    ]


def test_gaps_and_foreign_writers_are_told_with_their_place(watched: Watched) -> None:
    gap = Gap(ORDERS[0], 2000, 3000, "retention was faster", 5)
    foreign = ForeignWriter(TopicPartition("east.orders", 1), 77, 10, 12, 2, 2**60)
    state = FlowState(gaps={gap.key: gap}, foreign={(foreign.copy, 77): foreign})
    watched.standing.follow(state)
    told = watched.look()
    assert told[0].startswith("WARNING writer 77 in east.orders-1: east.orders-1 on west has 2 records")
    assert told[1:] == ["WARNING gap found: orders-0 lacks offsets 2000 to 2999 (skipped): retention was faster"]
    assert watched.look() == []
    state.acknowledgements[gap.key] = Acknowledgement("ann", "known", 6)
    watched.standing.follow(state)
    assert watched.look() == ["INFO orders-0 gaps: acknowledged"]


def test_a_report_of_ten_thousand_failing_groups_and_partitions_stays_small(watched: Watched) -> None:
    """The target refuses records beyond a megabyte: the report would never be written, and status say STOPPED."""
    problems = tuple(f"group {number}: {'refused ' * 500}" for number in range(10_000))
    watched.standing.keep(TickReport("group offsets east->west", 1, 0, problems, problems))
    for number in range(10_000):
        watched.standing.take_trouble(TopicPartition("orders", number), f"no leader of {number}")
    reasons, notes = watched.standing.reasons(), watched.standing.notes()
    assert "... and 9,990 more" in reasons
    assert "group offsets east->west: ... and 9,990 more" in reasons
    assert "group offsets east->west: ... and 9,990 more" in notes
    assert sum(len(each) for each in (*reasons, *notes)) < 50_000
