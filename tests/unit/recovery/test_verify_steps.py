"""The long part of a comparison lies before the stop of the applications, and its verdict is not made better behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirror.evidence.journal import Journal
from mirror.model.failover import Phase
from mirror.model.offset_ranges import Range, Ranges
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.comparison import Equivalence, PartitionEquivalence
from mirror.recovery.failback import steps_home
from mirror.recovery.procedure import summed_up
from mirror.recovery.steps import StepResult, carry_out
from mirror.recovery.verify_steps import RECORD, VERIFY, VERIFY_SO_FAR, verify_so_far_step, verify_step
from tests.unit.recovery.world import ENTRY, HOME, ORDERS, THERE, WEST, StandInEnds, World, move_home

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


def led_home(world: World, directory: Path) -> tuple[StepResult, ...]:
    """The results of a failback of applications that are at work on the standby."""
    world.at_work = {WEST}
    move, forward = move_home(world, directory), StandInEnds(world, THERE.flow)
    forward.put(ENTRY.at(Phase.DONE, 1))
    return carry_out(steps_home(move, forward), Journal(directory / "journal.jsonl"), goes_back=True)


def test_what_is_there_is_compared_while_the_applications_go_on_and_the_rest_behind_the_stop(tmp_path: Path) -> None:
    world = World()
    results = led_home(world, tmp_path)
    assert {each.result.verdict for each in results} == {PASS}
    compared = [each for each in world.done if "on west" in each or "verify" in each or each.startswith("pause")]
    assert compared[:4] == ["verify so far", "stop on west", "pause west->east", "verify the rest"]


def test_a_difference_ends_a_failback_before_anything_is_stopped(tmp_path: Path) -> None:
    world = World(verdict_so_far=FAIL)
    results = led_home(world, tmp_path)
    failed = [(each.name, each.result.detail) for each in results if each.result.verdict is FAIL]
    assert failed == [(VERIFY_SO_FAR, "FAIL: compared")]
    assert world.at_work == {WEST}
    assert not [each for each in world.done if each.startswith(("stop", "start", "pause"))]


@pytest.mark.parametrize(
    ("found", "so_far", "behind_the_stop"), [(PASS, PASS, PASS), (UNKNOWN, PASS, FAIL), (FAIL, FAIL, FAIL)]
)
def test_what_cannot_be_compared_yet_is_no_proof_behind_the_stop(
    found: Verdict, so_far: Verdict, behind_the_stop: Verdict, tmp_path: Path
) -> None:
    ends = StandInEnds(World(verdict=found, verdict_so_far=found), HOME.flow)
    before = verify_so_far_step(ends, tmp_path).act({})
    assert before.verdict is so_far
    assert (("not all of it" in before.detail) and "UNKNOWN: compared" in before.detail) is (found is UNKNOWN)
    assert verify_step(ends, tmp_path).act({}).verdict is behind_the_stop


@pytest.mark.parametrize(
    ("missing", "problem", "verdict", "said"),
    [
        (0, None, PASS, "1 partition and 10 records compared"),
        (0, "west was not read to the end", UNKNOWN, "orders-0: UNKNOWN (west was not read to the end)"),
        (1, "west was not read to the end", FAIL, "orders-0: FAIL (1 record missing; west was not read to the end)"),
        (1, None, FAIL, "orders-0: FAIL (1 record missing)"),
    ],
)
def test_a_difference_stays_one_where_not_all_of_its_partition_could_be_read(
    missing: int, problem: str | None, verdict: Verdict, said: str
) -> None:
    """It passed for something that could not be compared yet, and the applications were stopped all the same."""
    compared = PartitionEquivalence(ORDERS, ORDERS, 10, missing, 0, 0, 0, 0, 0, None, problem)
    found = summed_up(Equivalence((compared,)))
    assert (found[0], found[1].endswith(said)) == (verdict, True)


def test_what_differs_is_told_with_its_place() -> None:
    """A run that ended with FAIL named the partition alone."""
    copy = TopicPartition("east.orders", 0)
    equal = PartitionEquivalence(ORDERS, copy, 40, 0, 0, 0, 0, 0, 0, None, None)
    compared = replace(equal, missing=12, missing_at=Ranges((Range(0, 12, 12),)), reordered=2)
    compared = replace(compared, extra=1, extra_at=Ranges((Range(7, 8, 1),)))
    assert compared.in_words == (
        "12 records missing at offsets of orders-0: 0 to 11",
        "1 record extra at offsets of its copy east.orders-0: 7",
        "2 records reordered",
    )


def test_without_a_record_everything_is_compared_and_none_is_made(tmp_path: Path) -> None:
    """Of a run that an earlier version has begun, or whose record somebody has removed."""
    world = World()
    step = verify_step(StandInEnds(world, HOME.flow), tmp_path)
    assert (step.name, step.act({}).verdict) == (VERIFY, PASS)
    assert (world.done, list(tmp_path.iterdir())) == (["verify"], [])
    (tmp_path / RECORD).touch()
    step.act({})
    assert world.done[1:] == ["verify the rest"]


def test_what_was_copied_once_and_is_selected_no_longer_is_unknown_behind_the_stop_alone(tmp_path: Path) -> None:
    ends = StandInEnds(World(deselected=("bills",)), HOME.flow)
    assert verify_so_far_step(ends, tmp_path).act({}).verdict is PASS
    assert verify_step(ends, tmp_path).act({}).verdict is UNKNOWN
