"""The load and the readers of a practice, as the procedure asks for them: what the ledger tells, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from mirror.lab.applications import Deployment, Group, Load
from mirror.lab.service_times import Service
from mirror.lab_applications import LabApplications
from mirror.recovery.applications import Done, NotDone

WEST = Deployment("west", (Load("west", ("orders",)),), (Group("billing", "west", ("orders", "east.orders")),), "after")


@dataclass
class Stage:
    """What is asked of the processes; the ledger tells of ``service``."""

    service: Service = field(default_factory=lambda: Service(None, {}))
    killed: tuple[str, ...] = ()
    asked: list[Any] = field(default_factory=list)
    parts: list[tuple[int, list[str]]] = field(default_factory=list)

    def start_applications(self, wanted: Deployment) -> None:
        self.asked.append(("start", wanted.cluster, wanted.phase))
        self.parts.append((len(wanted.loads), [each.name for each in wanted.groups]))

    def stop_applications(self, running: Deployment) -> tuple[str, ...]:
        self.asked.append(("stop", running.cluster, running.phase))
        self.parts.append((len(running.loads), [each.name for each in running.groups]))
        return self.killed

    def await_read(self, alias: str, group: str, *, since_ms: int, seconds: float) -> int | None:
        self.asked.append((alias, group, since_ms, seconds))
        return self.service.groups_reading_at_ms.get(group)

    def await_service(
        self, alias: str, topics: Collection[str], groups: Collection[str], *, since_ms: int, seconds: float
    ) -> Service:
        self.asked.append((alias, sorted(topics), list(groups), since_ms, seconds))
        return self.service


def of(stage: Stage) -> LabApplications:
    return LabApplications(stage, {"west": WEST}, seconds=9.0)  # type: ignore[arg-type]


def test_they_are_stopped_and_started_as_they_run_on_that_cluster() -> None:
    stage = Stage(killed=("load-west-after",))
    assert of(stage).stop("west") == Done("the applications on west are stopped; killed: load-west-after")
    assert of(stage).start("west") == Done("the applications on west are started")
    assert stage.asked == [("stop", "west", "after"), ("start", "west", "after")]


def test_the_ledger_tells_when_the_first_write_was_accepted() -> None:
    """Of records in the cluster's own topics: copies are none."""
    stage = Stage(Service(7, {}))
    assert of(stage).first_write("west", 5) == Done("by the ledger west has accepted a write", 7)
    assert stage.asked == [("start", "west", "after"), ("west", ["orders"], [], 5, 9.0)]


def test_a_group_that_has_read_nothing_new_in_time_is_told_beside_those_that_have() -> None:
    stage = Stage(Service(7, {"audit": None, "billing": 8}))
    found = of(stage).first_reads("west", ["audit", "billing"], 5)
    assert found == {
        "audit": NotDone("not within 9 s: group audit reads on west"),
        "billing": Done("by the ledger group billing reads on west", 8),
    }
    # A run that is taken up may find them ended: they are started before they are waited for.
    assert stage.asked[0] == ("start", "west", "after")


def test_a_part_is_the_readers_of_a_group_or_the_producers() -> None:
    stage = Stage(Service(None, {"billing": 8}))
    found = of(stage)
    assert found.stop_part("west", "billing") == Done("stopped on west")
    assert found.start_part("west", None) == Done("started on west")
    assert found.group_reads("west", "billing", 5) == Done("by the ledger group billing reads on west", 8)
    assert stage.parts == [(0, ["billing"]), (1, []), (0, ["billing"])]
    assert stage.asked[-1] == ("west", "billing", 5, 9.0)
