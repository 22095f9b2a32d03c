"""A test failover on real clusters, while `mirror run`, producers and readers go on: measured, judged, and gone without trace."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config import resolving
from mirror.config.settings import MirrorSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.group_reader import ReadLimits
from mirror.lab import processes
from mirror.model.partition import TopicPartition
from mirror.model.shadow import TakenFrom, TriedPartition
from mirror.model.verdict import Verdict
from mirror.recovery import rehearsal_rows
from mirror.recovery.rehearsal import clean_up, rehearse
from mirror.recovery.rehearsal_plan import RehearsalPlan, plan_rehearsal
from mirror.recovery.shadow_groups import create_shadows, delete_shadows, find_shadows
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, mirror
from tests.brokers.copying import positions_of
from tests.positions import write_positions

ROOT = Path(__file__).parents[2]
_LIMITS = ReadLimits(records=30, seconds=12.0)


@dataclass
class Flowing:
    """A flow at work: one group that moves, and one that rests."""

    file: Path
    settings: MirrorSettings
    topic: str
    live: str
    resting: str

    def plan(self, *, group: str, taken_from: TakenFrom = TakenFrom.CHECKPOINTS) -> RehearsalPlan:
        (flow,) = self.settings.enabled_flows
        return plan_rehearsal(self.settings, flow, pattern=group, taken_from=taken_from)


@pytest.fixture(scope="module")
def flowing(east: Cluster, west: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flowing]:
    """An engine, producers and readers at work, with a checkpoint of every position."""
    tmp_path, mark = tmp_path_factory.mktemp("flowing"), uuid.uuid4().hex[:8]
    topic, live, resting, alias = f"orders-{mark}", f"live-{mark}", f"resting-{mark}", f"shop{mark}"
    east.create_topics([NewTopic(topic, 2, 1)])
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {east.bootstrap_servers}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"topics = {topic}\ngroups = {live}, {resting}\nemit.checkpoints.interval.seconds = 1\n"
        f"refresh.groups.interval.seconds = 1\n{FACTORS}"
    )
    engine = processes.start(tmp_path, "engine", [sys.executable, "-m", "mirror", "run", str(file)])
    asked = ["--bootstrap", east.bootstrap_servers, "--cluster", "east", "--topic", topic]
    asked += ["--ledger", str(tmp_path / "ledger")]
    load = [sys.executable, "-m", "mirror.lab.load", *asked, "--name", topic, "--rate", "200"]
    applications = [
        processes.start(tmp_path, "load", load),
        processes.start(tmp_path, "readers", [sys.executable, "-m", "mirror.lab.readers", *asked, "--group", live]),
    ]
    try:
        ends = wait_until(
            lambda: east.offsets([TopicPartition(topic, number) for number in range(2)], "latest"),
            "some records",
            timeout_seconds=60,
            until=lambda offsets: all(offset >= 50 for offset in offsets.values()),
        )
        # Right behind the first record, and in the middle.
        stands = dict(zip(sorted(ends), (GroupPosition(1), GroupPosition(25)), strict=True))
        write_positions(east, resting, stands)
        copy = TopicPartition(f"{alias}.{topic}", 0)
        # The state topic is there before anything is copied.
        wait_until(lambda: west.offsets([copy], "latest").get(copy), "the first copy", timeout_seconds=120)
        found = Flowing(file, resolving.load(file), topic, live, resting)
        # The first checkpoints may be of a time when less was copied than the groups had read: they lie before them.
        wait_until(
            lambda: found.plan(group=f"{live}|{resting}").partitions,
            "checkpoints of both groups, and of the resting one where it stands",
            timeout_seconds=60,
            until=lambda planned: (
                len(planned) >= 4
                and all(each.is_tried and each.position == each.upstream for each in planned if each.group == resting)
                and all(each.is_tried for each in planned)
            ),
        )
        yield found
    finally:
        for process in (*applications, engine):
            process.terminate(60)


def _shifted(plan: RehearsalPlan, by: Mapping[int, int]) -> RehearsalPlan:
    """Return a plan whose positions are wrong by so many records, by partition."""
    return replace(
        plan,
        partitions=tuple(
            replace(each, position=each.position + by.get(each.target.partition, 0))
            if each.position is not None
            else each
            for each in plan.partitions
        ),
    )


def _of(tried: tuple[TriedPartition, ...], partition: int) -> TriedPartition:
    (found,) = [each for each in tried if each.plan.target.partition == partition]
    return found


def _moved(told: Mapping[str, Any]) -> dict[tuple[bool, str], str | None]:
    """Return who moved the groups that moved; of each, whether on the target."""
    return {(row["cluster"] == "west", row["group"]): row["by"] for row in told["untouched"] if row["moved"]}


@dataclass
class _MovesOn:
    """Watches a rehearsal, and does not let it come to its end before ``group`` has committed in the middle of it."""

    cluster: Cluster
    group: str
    stood: Mapping[TopicPartition, GroupPosition] | None = None

    def __call__(self, doing: str, done: int, total: int) -> None:
        if self.stood is None:
            self.stood = positions_of(self.cluster, self.group)
        elif doing == "deleting shadow groups":
            wait_until(
                lambda: positions_of(self.cluster, self.group),
                f"a commit of {self.group}",
                timeout_seconds=30,
                until=lambda positions: positions != self.stood,
            )


@pytest.mark.long
def test_shadows_of_groups_read_on_from_where_the_groups_stand_and_a_wrong_position_is_named(
    flowing: Flowing, east: Cluster, west: Cluster
) -> None:
    """The command as people run it; then positions made wrong by one record, either way; then what a crash leaves."""
    groups = f"{flowing.live}|{flowing.resting}"
    before = positions_of(east, flowing.resting)

    done = mirror("rehearse", str(flowing.file), "--group", groups, "--records", "30", "--seconds", "240", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"], found["reasons"]) == (0, "PASS", [])
    by_group = {row["group"]: row for row in found["groups"]}
    assert all(row["records"] > 0 and row["skipped"] == 0 and row["seconds_to_first"] for row in by_group.values())
    assert by_group[flowing.resting]["read_again"] == [0, 0]
    assert by_group[flowing.live]["read_again"][1] <= by_group[flowing.live]["forecast_read_again"]
    assert _moved(found).items() <= {((False, flowing.live), "its members")}, (
        "the live group may read on; nothing else moves"
    )
    assert {row["problem"] for row in found["deleted"]} == {None}
    assert (find_shadows(east), find_shadows(west)) == ((), ())
    assert positions_of(east, flowing.resting) == before
    assert {flowing.live, flowing.resting}.isdisjoint(each.group for each in west.groups())

    planned = flowing.plan(group=flowing.resting)
    wrong = rehearse(flowing.settings, _shifted(planned, {0: -1, 1: +1}), _LIMITS)
    early, late = _of(wrong.partitions, 0), _of(wrong.partitions, 1)
    assert (wrong.verdict, early.verdict, late.verdict) == (Verdict.FAIL, Verdict.FAIL, Verdict.FAIL)
    assert (early.displaced, early.read_again, late.displaced, late.skipped) == (-1, (1, 1), 1, 1)
    assert "begins 1 record too early" in early.reasons[0]
    assert f"is the copy of offset {planned.partitions[1].upstream + 1}; 1 record would be skipped" in late.reasons[0]

    meanwhile = rehearse(flowing.settings, flowing.plan(group=groups), _LIMITS, watch=_MovesOn(east, flowing.live))
    moved = _moved(rehearsal_rows.as_json(meanwhile))
    assert moved == {(False, flowing.live): "its members"}, "the live group reads on, and nothing else moved"
    assert meanwhile.verdict is Verdict.PASS, meanwhile.reasons

    plan = flowing.plan(group=groups, taken_from=TakenFrom.SOURCE)
    assert create_shadows(west, plan.stamp, plan.partitions) == {}
    assert set(find_shadows(west)) == set(plan.shadows.values())
    cleaned = mirror("rehearse", str(flowing.file), "--clean", "--json")
    assert cleaned.returncode == 0
    assert {row["group"] for row in json.loads(cleaned.stdout)} == set(plan.shadows.values())
    assert clean_up(flowing.settings, [flowing.settings.enabled_flows[0].flow.target]) == []
    assert find_shadows(west) == ()


@pytest.mark.soak
def test_the_runbook_keeps_the_evidence_and_a_file_it_cannot_find_is_told_before_anything_is_asked(
    flowing: Flowing, tmp_path: Path
) -> None:
    def run(file: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "mirror", "runbook", "run", "test-failover", "--runs-directory", str(tmp_path)]
        argv += ["-p", f"properties_file={file}", "-p", f"groups={flowing.resting}", "-p", "records=10"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
        return done.returncode, done.stdout + done.stderr

    status, said = run(str(flowing.file))
    assert status == 0, said
    (directory,) = tmp_path.iterdir()
    outcome = json.loads((directory / "outcomes" / "test_failover.json").read_text())
    (group,) = outcome["facts"]["rehearsed"]
    assert (group["group"], group["verdict"], group["records"]) == (flowing.resting, "PASS", 20)
    assert "Test failover, group by group" in (directory / "report.html").read_text()
    status, said = run("mirror.properties")
    assert status == 2
    assert "mirror.properties is not a whole path" in said.replace("\n", " ")
    assert list(tmp_path.iterdir()) == [directory]


def test_no_other_group_is_ever_deleted(west: Cluster, unique: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match="not a shadow group"):
        delete_shadows(west, [unique("billing")])
