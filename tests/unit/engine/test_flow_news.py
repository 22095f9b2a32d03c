"""The log tells each change of a flow's condition once, and partitions in the same condition together."""

from __future__ import annotations

import pytest

from mirror.control.tick import TickReport
from mirror.copier.work import Handover, PartitionResult
from mirror.engine import flow_messages
from mirror.engine.cluster_news import NO_OUTAGES, Away, ClusterNews, Outages
from mirror.engine.flow_news import FlowNews, log_begun
from mirror.engine.flow_pauses import take_pauses
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.model.state_values import ForeignWriter
from tests.flows import EAST_WEST
from tests.unit.control.builders import flow_settings

ORDERS = [TopicPartition("orders", number) for number in range(4)]
COPIES = tuple((each, TopicPartition("east.orders", each.partition), "", "") for each in ORDERS)


class Watched:
    """A flow that this engine leads, and what the log says of it."""

    def __init__(self, caplog: pytest.LogCaptureFixture, outages: Outages = NO_OUTAGES) -> None:
        caplog.set_level("INFO", "mirror")
        self.now = 0.0
        self.runtime = FlowRuntime(flow_settings())
        self.news = FlowNews(self.runtime, outages, clock=lambda: self.now)
        self._caplog = caplog
        self.runtime.lead(1, was_settled=True)
        self.runtime.take_state(FlowState(), Mm2Traces(), TakenProducers())
        self.runtime.take_partitions(COPIES)

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
    assert watched.runtime.is_starting
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    reported = ["INFO the first epoch has reported; partitions copied: 4, topics: 1"]
    assert (watched.look(), watched.look()) == (reported, [])
    assert not watched.runtime.is_starting
    watched.runtime.stand_by()
    assert watched.look() == []
    watched.runtime.lead(3, was_settled=True)
    assert watched.look() == []
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    assert watched.look() == reported


def test_a_flow_without_anything_to_copy_does_not_start_for_ever(watched: Watched) -> None:
    watched.runtime.take_partitions(())
    assert not watched.runtime.is_starting


def test_stopped_partitions_are_told_with_the_reason_and_when_they_go_on(watched: Watched) -> None:
    for source in ORDERS[:3]:
        watched.runtime.take_result(PartitionResult(EAST_WEST, source, None, stopped="KeyError: 'x' in mask"))
    watched.runtime.take_trouble(ORDERS[3], "west: NotEnoughReplicas")
    assert watched.look()[1:] == [
        "WARNING orders-0 (and 2 more) is stopped: KeyError: 'x' in mask",
        "WARNING orders-3 waits: west: NotEnoughReplicas",
    ]
    assert watched.look() == []
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[1], None))
    watched.runtime.take_trouble(ORDERS[3], None)
    assert watched.look() == ["INFO orders-3 goes on"], "two of the three are stopped still"
    watched.now += 10
    assert watched.look() == ["INFO orders-1 goes on"]


def test_partitions_that_waited_and_are_stopped_now_do_not_go_on(watched: Watched) -> None:
    """A topic that is created anew has no leader for a moment: the log said that its stopped partitions went on."""
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[3], None))
    for source in ORDERS[:3]:
        watched.runtime.take_trouble(source, "east: no leader")
    assert watched.look()[1:] == ["WARNING orders-0 (and 2 more) waits: east: no leader"]
    for source in ORDERS[:2]:
        watched.runtime.take_result(PartitionResult(EAST_WEST, source, None, stopped="created anew"))
    for source in ORDERS[:3]:
        watched.runtime.take_trouble(source, None)
    assert watched.look() == ["WARNING orders-0 (and 1 more) is stopped: created anew", "INFO orders-2 goes on"]
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[1], None))
    assert watched.look() == ["INFO orders-0 (and 1 more) goes on"]


def test_partitions_that_waited_or_were_stopped_do_not_go_on_where_nobody_copies_them_any_more(
    watched: Watched,
) -> None:
    """Their topic was paused, deleted, or taken out of the file's topics: the log said that they went on."""
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None, stopped="KeyError: 'x' in mask"))
    watched.runtime.take_trouble(ORDERS[1], "west: NotEnoughReplicas")
    assert len(watched.look()) == 3
    watched.runtime.take_partitions(COPIES[2:])
    assert watched.look() == []
    watched.now += 60
    assert watched.look() == []
    watched.runtime.handovers[ORDERS[2]] = Handover(Position(5, 5, 0, True), (), clean=True)
    watched.runtime.take_trouble(ORDERS[2], "west: NotEnoughReplicas")
    assert len(watched.look()) == 1
    take_pauses(watched.runtime, Pauses((PauseWish("all", None, True, "ann", 1),)))
    assert watched.look() == []


def test_a_task_that_says_nothing_any_more_is_told_in_the_log_and_in_the_report(watched: Watched) -> None:
    """It was RUNNING for as long as the epoch lasted, and without an end if Spark was frozen with it."""
    silent = 16.4
    watched.runtime.silent_seconds = lambda: silent
    words = "a task has said nothing for 16 s: what it copies stands still"
    watched.runtime.begin_epoch({source: copy for source, copy, *_ in COPIES}, None)
    assert watched.look() == [], "it is starting"
    watched.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    assert watched.look()[1:] == [f"WARNING tasks: {words}"]
    assert flow_messages.reasons(watched.runtime) == (words,)
    silent = 0.4
    assert flow_messages.reasons(watched.runtime) == ()
    assert watched.look() == ["INFO tasks: all are heard of again"]
    silent = 20.0
    watched.runtime.end_epoch()
    assert (watched.look(), flow_messages.reasons(watched.runtime)) == ([], ()), "nobody is to copy"


def test_what_comes_and_goes_or_changes_its_words_is_told_once_a_minute(watched: Watched) -> None:
    said = []
    for second in range(120):
        watched.now = float(second)
        watched.runtime.take_trouble(ORDERS[0], f"attempt {second}" if second % 2 else None)
        said += watched.look()
    assert said == [
        "WARNING orders-0 waits: attempt 1",
        "INFO orders-0 goes on",
        "WARNING orders-0 waits: attempt 61",
        "INFO orders-0 goes on",
    ]


def test_partitions_of_one_line_end_in_one_line_that_names_the_same(watched: Watched) -> None:
    for source in ORDERS[:3]:
        watched.runtime.take_trouble(source, "west: no leader")
    assert watched.look() == ["WARNING orders-0 (and 2 more) waits: west: no leader"]
    said = []
    for source in ORDERS[:3]:
        watched.runtime.take_trouble(source, None)
        watched.now += 1
        said += watched.look()
    assert said == ["INFO orders-0 (and 2 more) goes on"]


def test_partitions_whose_reasons_differ_in_name_and_numbers_alone_are_one_line_with_that_of_the_first(
    watched: Watched,
) -> None:
    for number, source in enumerate(ORDERS[:3]):
        watched.runtime.take_trouble(source, f"{source} on east ended at offset {9 + number}")
    watched.runtime.take_trouble(ORDERS[3], "west: no leader")
    assert watched.look() == [
        "WARNING orders-0 (and 2 more) waits: orders-0 on east ended at offset 9",
        "WARNING orders-3 waits: west: no leader",
    ]


def test_what_waits_for_a_cluster_that_is_away_is_one_line_and_the_end_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reasons: list[Away | None] = [Away("10.0.0.1:9092: connection refused")]
    clock = [0.0]
    west = ClusterNews("west", lambda: reasons[-1], lambda: clock[0])
    watched = Watched(caplog, Outages({"west": west}))
    said: list[str] = []

    def look(seconds: float) -> None:
        clock[0] = watched.now = seconds
        said.extend(watched.look())
        caplog.clear()
        west.look()
        said.extend(f"{record.levelname} {record.getMessage()}" for record in caplog.records)

    watched.runtime.take_trouble(ORDERS[0], "west: connection refused")
    look(1)
    watched.runtime.take_trouble(ORDERS[1], "west, broker 1: the broker closed the connection")
    look(2)
    watched.runtime.take_trouble(ORDERS[2], "west: no broker of it is connected")
    look(3)
    assert said == [
        "WARNING west does not answer (10.0.0.1:9092: connection refused); trying again",
        "WARNING the copy waits for west",
    ]
    said.clear()
    reasons.append(None)
    look(64)
    for source in ORDERS[:2]:
        watched.runtime.take_trouble(source, None)
    look(65)
    assert said == ["INFO west answers again after 63 s"], "one waits still"
    said.clear()
    look(80)
    assert said == [
        "INFO the copy no longer waits for west, but for 1 of its partitions",
        "WARNING orders-2 waits: west: no broker of it is connected",
    ], "the cluster itself is back"


def test_the_cluster_that_is_away_is_told_and_not_the_one_that_has_just_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ten seconds after the source was back the target was gone: "the copy waits for east", for half a minute."""
    east, west = (ClusterNews(alias, lambda: None, lambda: looked.now) for alias in ("east", "west"))
    looked = Watched(caplog, Outages({"east": east, "west": west}))
    looked.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    looked.look()
    east.begin_away(Away("e:1: connection refused"))
    looked.now = 30.0
    east.look()
    looked.now = 40.0
    looked.runtime.take_trouble(ORDERS[0], "west: connection refused")
    assert looked.look() == [], "whether west is away is found out first"
    west.begin_away(Away("w:1: connection refused"))
    assert looked.look() == ["WARNING the copy waits for west"]


def test_a_flow_that_has_not_begun_waits_for_a_source_that_lets_nobody_in_and_is_reminded_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There were three lines for thirteen minutes: of partitions that nobody knows none can be told to wait."""
    east = ClusterNews("east", lambda: None, clock=lambda: told.now)
    told = Watched(caplog, Outages({"east": east}))
    told.runtime.take_partitions(())
    assert told.look() == []
    east.begin_away(Away("e:1: authentication failed", is_refusal=True))
    said = told.look()
    for _ in range(13 * 60):
        told.now += 1
        said += told.look()
    reminders = [
        f"WARNING the copy has waited for east for {minutes} min: e:1: authentication failed" for minutes in (5, 10)
    ]
    assert said == ["WARNING the copy waits for east", *reminders]
    east.look()
    told.now += 15
    assert told.look() == ["INFO the copy no longer waits for east"]


def test_what_waits_no_longer_since_it_is_paused_does_not_read_as_if_the_cluster_were_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At the cut of an unplanned failover the log said that the copy no longer waits for east, which was dead."""
    east = ClusterNews("east", lambda: None, clock=lambda: told.now)
    told = Watched(caplog, Outages({"east": east}))
    told.runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    told.look()
    east.begin_away(Away("e:1: connection refused"))
    told.runtime.take_trouble(ORDERS[0], "east: connection refused")
    assert told.look() == ["WARNING the copy waits for east"]
    told.runtime.take_trouble(ORDERS[0], None)
    assert told.look() == [
        "INFO the copy no longer waits for east, which does not answer yet: nothing is to be copied now"
    ]


def test_an_outage_is_one_reason_of_the_report_whoever_has_met_it(caplog: pytest.LogCaptureFixture) -> None:
    """`mirror status` told one refused connection four times, in four ways."""
    east = ClusterNews("east", lambda: None)
    watched = Watched(caplog, Outages({"east": east}))
    runtime, refused = watched.runtime, "connecting to e:1: connection refused"
    for source in ORDERS[:3]:
        runtime.take_trouble(source, "east: e:1: connection refused")
    runtime.take_trouble(ORDERS[3], "west, broker 2: connection refused")
    for name in ("topics", "partitions"):
        runtime.keep(TickReport(f"{name} east->west", 1, 0, (f"cluster east: {refused}",), unreached="east"))
    runtime.keep(TickReport("checkpoints east->west", 1, 0, ("group a: refused",)))
    outages = Outages({"east": east})
    assert len(flow_messages.reasons(runtime, outages)) == 5, "whether it is away is not known yet"
    east.begin_away(Away("e:1: connection refused"))
    assert flow_messages.reasons(runtime, outages) == (
        "east does not answer (e:1: connection refused); for it wait orders-0 (and 2 more)",
        "orders-3: west, broker 2: connection refused",
        "checkpoints east->west: group a: refused",
    )


def test_a_cluster_that_answers_explains_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    west = ClusterNews("west", lambda: None, lambda: clock[0])
    watched = Watched(caplog, Outages({"west": west}))
    watched.runtime.take_trouble(ORDERS[0], "west: no leader")
    assert watched.look() == [], "it is asked first"
    clock[0] = watched.now = 2.0
    west.look()
    assert watched.look() == ["WARNING orders-0 waits: west: no leader"]


def test_what_is_copied_again_is_not_called_lacking(watched: Watched) -> None:
    gap = Gap(ORDERS[0], 7, 9, "nobody can tell", 5, GapKind.COPIED_AGAIN)
    watched.runtime.follow(FlowState(gaps={gap.key: gap}))
    assert watched.look() == ["WARNING gap found: orders-0 copies again offsets 7 to 8 (copied-again): nobody can tell"]


def test_a_gap_of_no_offsets_is_told_by_where_it_begins(watched: Watched) -> None:
    gap = Gap(ORDERS[0], 8100, 8100, "created anew", 5, GapKind.RECREATED)
    watched.runtime.follow(FlowState(gaps={gap.key: gap}))
    assert watched.look() == ["WARNING gap found: orders-0 from offset 8100 on (recreated): created anew"]


def test_gaps_and_foreign_writers_are_told_with_their_place(watched: Watched) -> None:
    gap = Gap(ORDERS[0], 2000, 3000, "retention was faster", 5)
    foreign = ForeignWriter(TopicPartition("east.orders", 1), 77, 10, 12, 2, 2**60)
    state = FlowState(gaps={gap.key: gap}, foreign={(foreign.copy, 77): foreign})
    watched.runtime.follow(state)
    told = watched.look()
    assert told[0].startswith("WARNING east.orders-1 on west, producer 77: 2 records at offsets 10 to 11")
    assert told[0].count("east.orders-1") == 1
    assert told[1:] == ["WARNING gap found: orders-0 lacks offsets 2000 to 2999 (skipped): retention was faster"]
    assert watched.look() == []
    state.acknowledgements[gap.key] = Acknowledgement("ann", "known", 6)
    watched.runtime.follow(state)
    assert watched.look() == ["INFO orders-0 gaps: acknowledged"]


def test_a_producer_without_an_id_is_not_called_minus_one(watched: Watched) -> None:
    foreign = ForeignWriter(TopicPartition("east.orders", 1), -1, 10, 12, 2, 2**60)
    watched.runtime.follow(FlowState(foreign={(foreign.copy, -1): foreign}))
    (told,) = watched.look()
    assert told.startswith("WARNING east.orders-1 on west, a producer without an id: 2 records at offsets 10 to 11")
    assert "-1 " not in told.replace("east.orders-1 ", "")


def test_a_report_of_ten_thousand_failing_groups_and_partitions_stays_small(watched: Watched) -> None:
    """The target refuses records beyond a megabyte: the report would never be written, and status say STOPPED."""
    problems = tuple(f"group {number}: {'refused ' * 500}" for number in range(10_000))
    watched.runtime.keep(TickReport("group offsets east->west", 1, 0, problems, problems))
    for number in range(10_000):
        watched.runtime.take_trouble(TopicPartition("orders", number), f"no leader of {number}")
    reasons, notes = flow_messages.reasons(watched.runtime), flow_messages.notes(watched.runtime)
    assert "... and 9,990 more" in reasons
    assert "group offsets east->west: ... and 9,990 more" in reasons
    assert "group offsets east->west: ... and 9,990 more" in notes
    assert sum(len(each) for each in (*reasons, *notes)) < 50_000


def test_copies_that_are_gone_on_with_behind_the_flow_back_are_one_line_and_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "mirror")
    flow = EAST_WEST
    places = [PartitionResult(flow, TopicPartition("orders", each), None, followed_to=10) for each in range(7)]
    log_begun([*places, PartitionResult(flow, TopicPartition("bills", 0), None, note="it was truncated")])
    assert [f"{record.levelname} {record.getMessage()}" for record in caplog.records] == [
        "WARNING bills-0: it was truncated",
        "INFO copies from where west->east has copied to, what lies before that is there: "
        + "".join(f"orders-{each} from offset 10, " for each in range(4))
        + "orders-4 from offset 10 and 2 more",
    ]
