"""A scenario that contradicts itself is refused, with its name and what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.proof.findings import Anomaly, Era, Finding
from mirror.scenario.declaration import (
    Fault,
    FaultKind,
    Group,
    Judged,
    Load,
    Procedure,
    Replicator,
    ScenarioError,
    Site,
    Tolerated,
)
from mirror.scenario.faults import _FAULTS, _HEALINGS
from mirror.scenario.files import SCENARIOS
from tests.unit.scenario.builders import small

DEFECT = Fault(FaultKind.LOSE_COPIES, "west", 1.0, topic="orders", records=1)
DELETED = Fault(FaultKind.DELETE_RECORDS, "east", 1.0, topic="orders")
KILL = Fault(FaultKind.KILL_CLUSTER, "east", 1.0, is_disaster=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flows": (Flow("east", "north"),)}, "north is none of its clusters"),
        ({"loads": (Load("east", ("invoices",)),)}, "the topic invoices is not declared"),
        ({"loads": ()}, "needs a flow and a load"),
        ({"faults": (KILL,)}, "a disaster needs one"),
        ({"procedure": Procedure.FAIL_OVER}, "a procedure answers a disaster"),
        ({"faults": (KILL,), "procedure": Procedure.FAIL_OVER_AND_BACK}, "it needs the flow from the standby"),
        (
            {"faults": (Fault(FaultKind.CUT_LINK, "east", 2.0), KILL), "procedure": Procedure.FAIL_OVER},
            "nothing is planned for after the disaster",
        ),
        ({"faults": (KILL, KILL), "procedure": Procedure.FAIL_OVER}, "there is one disaster at most"),
        ({"faults": (Fault(FaultKind.KILL_CLUSTER, "north", 1.0),)}, "is on a cluster, not on north"),
        ({"faults": (Fault(FaultKind.JOIN_GROUP, "audit", 1.0),)}, "is on a group, not on audit"),
        ({"faults": (Fault(FaultKind.KILL_REPLICATOR, "east", 1.0),)}, "is on the replicator, not on east"),
        ({"faults": (Fault(FaultKind.DELETE_RECORDS, "east", 1.0),)}, "names a topic of the scenario exactly if"),
        ({"faults": (Fault(FaultKind.KILL_BROKER, "east", 1.0, broker=2),)}, "is on broker 2, and east has 1"),
        ({"faults": (Fault(FaultKind.FILL_DISK, "west", 1.0),)}, "needs a disk of its own on west"),
        (
            {"faults": (Fault(FaultKind.ELECT_UNCLEANLY, "east", 1.0, topic="orders"),)},
            "needs three brokers on east",
        ),
        ({"faults": (DEFECT,)}, "it must fail exactly if a defect is put into it"),
        (
            {"groups": (Group("stream", "east", ("orders",), members=2, bookmarks=True),)},
            "stream keeps its positions itself",
        ),
        ({"groups": (Group("stream", "east", ("orders",), bookmarks=True),)}, "no copies with the source's offsets"),
        ({"must_fail": True}, "it must fail exactly if a defect is put into it"),
        ({"faults": (replace(DEFECT, records=21),), "must_fail": True}, "1 to 20"),
        ({"faults": (DELETED, DELETED)}, "a log is replaced once at most"),
        ({"faults": (KILL,), "procedure": Procedure.FAIL_OVER}, "groups that move need rpo_seconds"),
        ({"faults": (Fault(FaultKind.KILL_SPARK_WORKER, "replicator", 1.0),)}, "has no Spark whose worker"),
    ],
)
def test_a_contradiction_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=f"scenario small: .*{said}"):
        small(**changes)


def test_a_disaster_is_healed_by_the_procedure_alone() -> None:
    healed = Fault(FaultKind.KILL_CLUSTER, "east", 1.0, lasts_seconds=2.0, is_disaster=True)
    with pytest.raises(ScenarioError, match="only the procedure heals it"):
        small(faults=(healed,), procedure=Procedure.FAIL_OVER)


def test_a_loss_that_must_be_told_is_not_tolerated_when_it_was_silent() -> None:
    scenario = small(
        tolerated=(
            Tolerated(Anomaly.LOST, Judged.COPY, "gone from the source", if_told=True),
            Tolerated(Anomaly.LOST, Judged.SOURCE, "deleted"),
        )
    )

    lost = Finding(Anomaly.LOST, "west", TopicPartition("orders", 0), None, 1, ())

    assert scenario.tolerates(lost, Judged.COPY, unnamed_losses=0)
    assert not scenario.tolerates(lost, Judged.COPY, unnamed_losses=1)
    assert scenario.tolerates(lost, Judged.SOURCE, unnamed_losses=1)
    assert not scenario.tolerates(replace(lost, anomaly=Anomaly.ALTERED), Judged.SOURCE, unnamed_losses=0)


def test_what_is_tolerated_in_an_era_or_on_a_cluster_is_not_in_another() -> None:
    early = Tolerated(Anomaly.LOST, Judged.SOURCE, "deleted", eras=frozenset({Era.BEFORE}), cluster="east")
    lost = Finding(Anomaly.LOST, "east", TopicPartition("orders", 0), None, 1, (), era=Era.BEFORE)

    assert early.covers(lost, Judged.SOURCE, unnamed_losses=0)
    assert not early.covers(replace(lost, era=Era.AFTER), Judged.SOURCE, unnamed_losses=0)
    assert not early.covers(replace(lost, cluster="west"), Judged.SOURCE, unnamed_losses=0)


def test_every_kind_of_fault_can_be_brought_about_and_those_that_end_can_be_healed() -> None:
    once = {
        FaultKind.RESTART_REPLICATOR,
        FaultKind.KILL_SPARK_WORKER,
        FaultKind.DELETE_RECORDS,
        FaultKind.RECREATE_TOPIC,
        FaultKind.ELECT_UNCLEANLY,
        FaultKind.LOSE_COPIES,
    }

    assert set(_FAULTS) == set(FaultKind)
    assert set(_HEALINGS) == set(FaultKind) - once


@pytest.mark.parametrize("path", SCENARIOS.files(SCENARIOS.folder()), ids=lambda path: path.stem)
def test_every_scenario_there_is_can_be_loaded_and_says_what_it_shows(path: Any) -> None:
    scenario = SCENARIOS.load(path)

    assert scenario.shows.endswith(".")
    assert Replicator.MIRROR in scenario.replicators
    assert all(site.brokers in {1, 3} for site in scenario.sites)
    assert len({site.alias for site in scenario.sites}) == len(scenario.sites)
    assert isinstance(scenario.sites[0], Site)
