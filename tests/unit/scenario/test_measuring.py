"""What is put before which judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.proof.delivery import GroupReading, Place, Route
from mirror.proof.evidence import MissingEvidence
from mirror.proof.final_values import FinalValues
from mirror.proof.losses import MissingRecords
from mirror.proof.objectives import Rpo
from mirror.scenario import judging
from mirror.scenario.declaration import Load, Topic
from mirror.scenario.judging import Found, ScenarioEvidence, measure, measure_rpo
from mirror.scenario.routes import CopyRoute
from tests.unit.scenario.builders import small

EAST_WEST, WEST_SOUTH, WEST_EAST = Flow("east", "west"), Flow("west", "south"), Flow("west", "east")
ORDERS, STATES = Place("east", "orders"), Place("east", "states")
DIRECT = CopyRoute(Route(ORDERS, Place("west", "east.orders")), (EAST_WEST,))
DETOUR = CopyRoute(Route(ORDERS, Place("south", "west.east.orders")), (EAST_WEST, WEST_SOUTH))
COMPACTED = CopyRoute(Route(STATES, Place("west", "east.states")), (EAST_WEST,))
BACK = CopyRoute(Route(Place("west", "orders"), Place("east", "west.orders")), (WEST_EAST,))
TOLD = cast(Any, {EAST_WEST: {"orders-0": [(3, 5)]}})
RECOVERY = FailoverInstants(1000, 2000, 3000, 4000, 5000, 6000, {})
TWO_TOPICS = small(
    topics=(Topic("orders", ("east",)), Topic("states", ("east",), configs={"cleanup.policy": "compact"}))
)


class Rows:
    """All rows of a table, or those that a condition leaves."""

    def __init__(self, name: str, condition: object = None) -> None:
        self.name, self.condition = name, condition
        self.cluster = self

    def where(self, condition: object) -> Rows:
        return Rows(self.name, condition)

    def isin(self, clusters: list[str]) -> Rows:
        return Rows(self.name, ("in", clusters))

    def __invert__(self) -> tuple[str, object]:
        return "not", self.condition

    def count(self) -> int:
        assert self.condition == "status = 'acked'"
        return 10


class Court:
    """Stands in for the judges: keeps what they were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: dict[str, Any] = {}
        self.places: list[Place] = []
        self.absences: dict[Route, Mapping[Any, Any]] = {}
        self.replaced: dict[Route, object] = {}
        self.values: list[Route] = []
        self.missing: list[Route] = []
        self.groups: tuple[Any, ...] | None = None
        self.judged: list[tuple[Route, ...]] = []
        for name in ("final_read", "measure_losses", "judge_by_era", "judge_groups", "read_positions"):
            monkeypatch.setattr(judging, name, getattr(self, name))
        for name in ("missing_acked", "compute_rpo", "_final_values"):
            monkeypatch.setattr(judging, name, getattr(self, name.removeprefix("_")))
        monkeypatch.setattr(judging, "load", lambda _: SimpleNamespace(clusters={}, enabled_flows=()))
        monkeypatch.setattr(judging, "_count_transactions", lambda *_: None)

    @contextmanager
    def final_read(self, ledger: Path, clusters: object, places: list[Place], work: Path, **how: Any) -> Iterator[Any]:
        self.places, self.read = places, how
        yield SimpleNamespace(
            sends=Rows("sends"),
            logs=Rows("logs"),
            reads=Rows("reads"),
            commits="commits",
            gaps=(MissingEvidence("log", "torn"),),
        )

    def measure_losses(
        self, _: Rows, __: Rows, route: Route, ranges: Mapping[Any, Any], **known: Any
    ) -> MissingRecords:
        self.absences[route], self.replaced[route] = ranges, known["replaced"]
        return MissingRecords(told=1)

    def judge_by_era(self, _: Rows, __: Rows, routes: list[Route], **known: Any) -> Any:
        self.judged.append(tuple(routes))
        return SimpleNamespace(gaps=known["gaps"], counts=())

    def judge_groups(self, _: Rows, __: Rows, logs: Rows, *known: Any, **how: Any) -> Any:
        self.groups = (logs.condition, how["gaps"])
        return "groups"

    def read_positions(self, *_: object) -> tuple[dict[Any, Any], tuple[MissingEvidence, ...]]:
        return {}, (MissingEvidence("billing", "not told"),)

    def missing_acked(self, _: Rows, __: Rows, route: Route) -> list[Route]:
        self.missing.append(route)
        return [route]

    def compute_rpo(self, missing: list[Route], fault_at_ms: int) -> Rpo:
        assert (missing, fault_at_ms) == (self.missing, 1000)
        return Rpo(len(missing), 0, 0.0)

    def final_values(self, route: Route, _: object) -> FinalValues:
        self.values.append(route)
        return FinalValues(4, 0)


@pytest.fixture
def court(monkeypatch: pytest.MonkeyPatch) -> Court:
    return Court(monkeypatch)


def evidence(*routes: CopyRoute, **changes: Any) -> ScenarioEvidence:
    known = {"scenario": TWO_TOPICS, "sent": (ORDERS, STATES), "routes": routes, "readings": ()}
    base = {"ledger": Path("ledger"), "work": Path("work"), "properties": Path("file")}
    return ScenarioEvidence(**(base | known | changes))


def test_of_a_compacted_topic_the_newest_values_are_compared_and_of_all_others_every_record(court: Court) -> None:
    found = measure(evidence(COMPACTED, DIRECT, DETOUR))
    assert court.values == [COMPACTED.route]
    assert court.absences.keys() == {DIRECT.route, DETOUR.route}
    assert (found.values, found.missing) == (FinalValues(4, 0), MissingRecords(told=2))
    assert court.judged == [(Route.own(ORDERS), Route.own(STATES)), (COMPACTED.route, DIRECT.route, DETOUR.route)]
    assert found.acked == 10


def test_told_gaps_excuse_what_a_direct_copy_lacks_and_nothing_else(court: Court) -> None:
    """Of a copy of a copy offsets are of another log."""
    replaced = SimpleNamespace(place=ORDERS)
    other = SimpleNamespace(place=STATES)
    measure(evidence(DIRECT, DETOUR, BACK, told=TOLD, replaced=(other, replaced)))
    assert court.absences == {DIRECT.route: TOLD[EAST_WEST], DETOUR.route: {}, BACK.route: {}}
    assert court.replaced == {DIRECT.route: replaced, DETOUR.route: replaced, BACK.route: None}
    measure(evidence(DIRECT))
    assert court.absences[DIRECT.route] == {}


def test_groups_are_judged_by_the_clusters_that_are_left_if_there_are_any(court: Court) -> None:
    assert measure(evidence(DIRECT)).groups is None
    assert court.read["with_reads"] is False
    readings = (cast(GroupReading, SimpleNamespace(places=(Place("west", "east.orders"), Place("south", "more")))),)
    found = measure(evidence(DIRECT, readings=readings))
    assert found.groups is not None
    assert court.groups == (None, (MissingEvidence("log", "torn"), MissingEvidence("billing", "not told")))
    assert found.gaps == (MissingEvidence("log", "torn"), MissingEvidence("billing", "not told"))
    assert court.read["with_reads"] is True
    assert court.places == [ORDERS, STATES, Place("west", "east.orders"), Place("south", "more")]
    measure(evidence(DIRECT, readings=readings, gone=frozenset({"east"})))
    assert court.groups is not None
    assert court.groups[0] == ("not", ("in", ["east"]))


def test_what_the_standby_lacks_is_measured_after_a_disaster_unless_it_was_before(court: Court) -> None:
    """On the way from the active cluster alone."""
    assert measure(evidence(DIRECT, BACK)).rpo is None
    assert measure(evidence(DIRECT, BACK, recovery=RECOVERY)).rpo == Rpo(1, 0, 0.0)
    assert court.missing == [DIRECT.route]
    known = Rpo(7, 70, 1.0)
    assert measure(evidence(DIRECT, rpo=known, recovery=RECOVERY)).rpo is known
    court.missing.clear()
    assert measure_rpo(evidence(DIRECT, BACK), 1000) == Rpo(1, 0, 0.0)
    assert (court.missing, court.places, court.read) == ([DIRECT.route], [DIRECT.route.kept], {"with_reads": False})


@pytest.mark.parametrize(("sizes", "is_committed"), [((0, 0), False), ((0, 5), True), ((5, 5), True)])
def test_logs_are_read_as_applications_that_write_in_transactions_are(
    court: Court, sizes: tuple[int, ...], *, is_committed: bool
) -> None:
    loads = tuple(Load("east", ("orders",), transaction_records=size) for size in sizes)
    assert isinstance(measure(evidence(DIRECT, scenario=small(loads=loads))), Found)
    assert court.read["read_committed"] is is_committed
