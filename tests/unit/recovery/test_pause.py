"""What is made of what a flow's leader says of a pause, and of its silence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.control.tick import now_ms
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, PauseWish
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import Standby, claim_record, failover_record, pause_record, pause_report_record
from mirror.model.verdict import Verdict
from mirror.recovery import pause as module
from mirror.recovery.pause import Paused, Resumed, _Waiting, plan_pause
from tests.unit.control.builders import flow_settings
from tests.unit.recovery.world import ENTRY

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
WISH = PauseWish("mine", "orders", True, "ann", 5)
ENGINE = Claim("engine", 3, host="host", pid=7)


class Log:
    """The state topic, read to its end unless a transaction is open in it."""

    def __init__(self, *records: StateRecord) -> None:
        self.state, self.position = FlowState(), len(records)
        for record in records:
            self.state.apply(*record)

    def poll(self) -> FlowState:
        return self.state

    def observe(self) -> FlowState:
        return self.state

    def close(self) -> None:
        pass


class NobodyLeads:
    """In the place of an fencing: of these reports one is given at each try; None: the engine lives."""

    reports: list[PauseReport | None]
    engine = "of the one who asks"

    def __init__(self, *_: object) -> None:
        pass

    def try_once(self, _: object) -> PauseReport | None:
        return self.reports.pop(0)

    def close(self) -> None:
        pass


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PauseReport | None]]:
    """What making sure that no engine writes comes to, try by try; it is not tried more often."""
    found: list[PauseReport | None] = []
    monkeypatch.setattr(NobodyLeads, "reports", found, raising=False)
    monkeypatch.setattr(module, "EngineFencing", NobodyLeads)
    yield found
    assert found == []


def look(
    tmp_path: Path,
    *records: StateRecord,
    awaits_open_ends: bool = True,
    hidden: int = 0,
    wish: PauseWish = WISH,
    more: str = "",
) -> Paused:
    """Look behind a wish, which is the third record."""
    before = (Position(9, 11, 0, True).record(ORDERS), Position(4, 4, 0, True).record(BILLS), pause_record(WISH))
    waiting = waiting_for(tmp_path, wish, Log(*before, *records), 2, hidden=hidden, more=more)
    return waiting.look(awaits_open_ends=awaits_open_ends)


def waiting_for(tmp_path: Path, wish: PauseWish, log: Log, offset: int, *, hidden: int = 0, more: str = "") -> _Waiting:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = e:1\nwest.bootstrap.servers = w:1\neast->west.enabled = true\n"
        + more
    )
    settings = load(file)
    waiting = _Waiting(settings, settings.flows[0], wish)
    log.position -= hidden
    waiting._log, waiting._offset = log, offset  # type: ignore[assignment]
    return waiting


def said(*, busy: TopicPartition | None = None, unsettled: TopicPartition | None = None) -> StateRecord:
    return pause_report_record(
        PauseReport("engine", ("mine",), frozenset(filter(None, [busy])), {unsettled: "why"} if unsettled else {})
    )


def said_nothing() -> StateRecord:
    return said()


def test_an_engine_that_has_said_so_confirms_and_the_positions_of_what_was_meant_are_told(
    tmp_path: Path, reports: list[PauseReport | None]
) -> None:
    found = look(tmp_path, claim_record(ENGINE), said())
    assert (found.verdict, found.has_engine, found.problem) == (Verdict.PASS, True, None)
    (position,) = found.positions
    assert (position.source, position.upstream, position.copy, position.downstream, position.open_end) == (
        ORDERS,
        9,
        TopicPartition("east.orders", 0),
        11,
        None,
    )


def test_what_others_have_paused_is_not_waited_for(tmp_path: Path, reports: list[PauseReport | None]) -> None:
    assert look(tmp_path, claim_record(ENGINE), said(busy=BILLS)).verdict is Verdict.PASS


def test_what_may_arrive_late_is_no_confirmation_until_the_engine_says_otherwise_or_is_gone(
    tmp_path: Path, reports: list[PauseReport | None]
) -> None:
    reports.append(None)
    found = look(tmp_path, claim_record(ENGINE), said(busy=ORDERS))
    assert (found.verdict, found.confirmed_by) == (Verdict.FAIL, None)
    assert "orders-0" in str(found.problem)
    reports.append(PauseReport("me", ("mine",), frozenset(), {ORDERS: "it was killed"}))
    found = look(tmp_path, claim_record(ENGINE), said(busy=ORDERS))
    assert (found.verdict, found.has_engine, found.problem) == (Verdict.UNKNOWN, False, None)
    assert found.open_ends == {ORDERS: "it was killed"}


def test_that_something_may_arrive_which_nothing_refuses_is_what_a_confirmation_does_not_promise(
    tmp_path: Path, reports: list[PauseReport | None]
) -> None:
    report = PauseReport("engine", ("mine",), unrefused=frozenset({ORDERS, BILLS}), weakness="grant Write")
    found = look(tmp_path, claim_record(ENGINE), pause_report_record(report))
    assert (found.verdict, found.problem, found.open_ends) == (Verdict.UNKNOWN, None, {})
    assert found.late == {ORDERS: "grant Write"}
    said = found.as_json()["limit"]
    assert said.startswith("what was sent before to the copies of 1 partition and has not arrived would still be")
    assert "orders-0" in said
    assert "grant Write" in said
    assert [each["may_arrive"] for each in found.as_json()["positions"]] == ["grant Write"]
    assert look(tmp_path, claim_record(ENGINE), said_nothing()).limit is None


def test_open_ends_are_waited_for_if_that_is_wanted(tmp_path: Path, reports: list[PauseReport | None]) -> None:
    reports += [None, None]
    found = look(tmp_path, claim_record(ENGINE), said(unsettled=ORDERS))
    assert found.problem == "1 position not final yet, the first that of orders-0: why"
    found = look(tmp_path, claim_record(ENGINE), said(unsettled=ORDERS), awaits_open_ends=False)
    assert (found.verdict, found.problem) == (Verdict.UNKNOWN, None)


def test_what_the_file_no_longer_selects_is_neither_waited_for_nor_told(
    tmp_path: Path, reports: list[PauseReport | None]
) -> None:
    """The state topic keeps its positions, and nobody finds out any more how far it was copied."""
    every = PauseWish("mine", None, True, "ann", 5)
    records = (pause_record(every), claim_record(ENGINE), said(unsettled=ORDERS))
    reports.append(None)
    assert "orders-0" in str(look(tmp_path, *records, wish=every).problem)
    reports.append(None)
    found = look(tmp_path, *records, wish=every, more="topics = bills\n")
    assert (found.verdict, found.problem) == (Verdict.PASS, None)
    assert [each.source for each in found.positions] == [BILLS]


def test_a_silent_engine_is_not_taken_for_gone_while_another_stands_by(
    tmp_path: Path, reports: list[PauseReport | None]
) -> None:
    standby = Standby("other", "host", 8, now_ms()).record()
    found = look(tmp_path, claim_record(ENGINE), standby)
    assert found.verdict is Verdict.FAIL
    assert "earlier versions know nothing of pauses" in str(found.problem)


def test_after_a_clean_stop_nobody_needs_to_be_kept_from_writing(
    tmp_path: Path, reports: list[PauseReport | None]
) -> None:
    found = look(tmp_path, claim_record(ENGINE.released(is_settled=True)))
    assert found.confirmed_by == "no engine leads the flow"
    assert list(found.open_ends) == [ORDERS], "it was not marked as settled"
    reports.append(None)
    found = look(tmp_path, claim_record(ENGINE.released(is_settled=False)))
    assert found.problem == "no engine leads the flow, and something that one has sent before may still arrive"


def test_a_flow_that_was_never_led_is_said_to_be_so(tmp_path: Path, reports: list[PauseReport | None]) -> None:
    assert "Java MirrorMaker" in str(look(tmp_path).confirmed_by)


def test_somebody_who_wished_otherwise_since_is_named(tmp_path: Path, reports: list[PauseReport | None]) -> None:
    other = PauseWish("other", None, False, "eve", 6)
    found = look(tmp_path, claim_record(ENGINE), pause_record(other), said())
    assert (found.verdict, found.is_superseded) == (Verdict.FAIL, True)
    assert "resumed by eve" in str(found.problem)


def test_a_wish_behind_an_open_transaction_is_not_taken_for_superseded(
    tmp_path: Path, reports: list[PauseReport | None]
) -> None:
    reports.append(None)
    mine = PauseWish("not read yet", "orders", True, "ann", 7)
    found = look(tmp_path, claim_record(ENGINE.released(is_settled=True)), hidden=2, wish=mine)
    assert not found.is_superseded
    assert found.problem is not None
    assert (
        "the record of it lies behind a transaction in mm2-state.east.internal on west that has not ended"
        in found.problem
    )


CUT = PauseWish("cut", None, True, "mirror failover", 5, is_cut=True)
END = replace(CUT, wish="its end", is_pause=False)
RESUMED = (pause_record(CUT), claim_record(ENGINE), pause_record(END))


def reported(*wishes: str) -> StateRecord:
    return pause_report_record(PauseReport("engine", wishes))


def look_for_end(tmp_path: Path, *records: StateRecord) -> Resumed:
    """Look behind the end of a cut, which leaves no record of its own."""
    log = Log(*records)
    return waiting_for(tmp_path, END, log, records.index(pause_record(END))).look_for_end()


def test_the_end_of_a_cut_is_confirmed_by_what_the_leader_says_behind_it(tmp_path: Path) -> None:
    before = (*RESUMED[:2], reported(), RESUMED[2])
    assert "has not confirmed it" in str(look_for_end(tmp_path, *before).problem), "it was said before the cut"
    assert "has not confirmed it" in str(look_for_end(tmp_path, *RESUMED, reported("cut")).problem)
    done = look_for_end(tmp_path, *RESUMED, reported("cut"), reported())
    assert (done.verdict, done.confirmed_by, done.problem) == (Verdict.PASS, "engine engine on host (process 7)", None)
    by_hand = (pause_record(WISH), *RESUMED, reported("mine"))
    assert look_for_end(tmp_path, *by_hand).verdict is Verdict.PASS, "what is paused by hand stays so"


def test_the_end_of_a_cut_without_an_engine_and_one_that_was_followed_by_another_cut(tmp_path: Path) -> None:
    assert look_for_end(tmp_path, pause_record(CUT), pause_record(END)).verdict is Verdict.PASS
    again = look_for_end(tmp_path, *RESUMED, pause_record(replace(CUT, wish="cut again", by="eve")), reported())
    assert (again.verdict, again.is_superseded) == (Verdict.FAIL, True)
    assert "paused by eve" in str(again.problem)


@pytest.mark.parametrize(
    ("topics", "entries", "whose"),
    [
        (None, (ENTRY.at(Phase.DONE, 5),), "the failover ours (planned, done since 1970-01-01T00:00:00Z, host:/run)"),
        (None, (), "a failover of which nothing else is on record"),
        (".*", (ENTRY.at(Phase.DONE, 5),), None),
    ],
    ids=["all", "nothing on record", "by name"],
)
def test_the_plan_to_resume_all_topics_names_the_failover_whose_cut_it_ends(
    topics: str | None, entries: tuple[FailoverEntry, ...], whose: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = PauseWish("cut", None, True, "mirror failover", 5, is_cut=True)
    monkeypatch.setattr(module, "_log", lambda *_: Log(pause_record(cut), *map(failover_record, entries)))
    plan = plan_pause(cast(MirrorSettings, None), flow_settings(), topics, is_pause=False)
    assert (plan.ends_cut or "").startswith(whose or "") is True
    assert (plan.ends_cut is None) is (whose is None)
    assert plan.as_json()["ends_cut"] == plan.ends_cut
    assert (plan.warning is None) is (whose is None)


def test_the_end_of_pauses_by_hand_alone_ends_no_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_log", lambda *_: Log(pause_record(replace(WISH, topics=None))))
    plan = plan_pause(cast(MirrorSettings, None), flow_settings(), None, is_pause=False)
    assert (plan.ends_cut, plan.warning) == (None, None)
