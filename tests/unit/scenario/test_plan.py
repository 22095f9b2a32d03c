"""The plan of a run is a function of scenario and seed, and of nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.proof.objectives import Objectives
from mirror.scenario.declaration import Fault, FaultKind, Procedure, Replicator, Site
from mirror.scenario.plan import plan_run
from tests.unit.scenario.builders import small

SCENARIO = small(
    sites=(Site("east", brokers=3), Site("west")),
    faults=(
        Fault(FaultKind.FREEZE_REPLICATOR, "replicator", 2.0, jitter_seconds=3.0, lasts_seconds=4.0),
        Fault(FaultKind.KILL_BROKER, "east", 3.0, jitter_seconds=3.0, lasts_seconds=1.0),
    ),
)


@given(seed=st.integers(0, 2**63))
def test_the_same_seed_plans_the_same_for_whoever_copies(seed: int) -> None:
    ours, theirs = (plan_run(SCENARIO, replicator, seed) for replicator in Replicator)

    assert ours.actions == theirs.actions
    assert ours == plan_run(SCENARIO, Replicator.MIRROR, seed)


@given(seed=st.integers(0, 2**63))
def test_times_stay_within_their_jitter_and_what_is_healed_is_healed_later(seed: int) -> None:
    plan = plan_run(SCENARIO, Replicator.MIRROR, seed)
    times = {(action.number, action.heals): action.at_seconds for action in plan.actions}

    assert 2.0 <= times[0, False] <= 5.0
    assert times[0, True] == round(times[0, False] + 4.0, 3)
    assert [action.at_seconds for action in plan.actions] == sorted(times.values())
    assert {action.fault.broker for action in plan.actions if action.number == 1} <= {1, 2, 3}


def test_other_seeds_hit_others_at_other_times() -> None:
    plans = [plan_run(SCENARIO, Replicator.MIRROR, seed) for seed in range(30)]

    assert len({plan.actions[0].at_seconds for plan in plans}) > 20
    assert {action.fault.broker for plan in plans for action in plan.actions if action.number == 1} == {1, 2, 3}


def test_the_plan_that_is_written_down_says_who_is_hit() -> None:
    written = plan_run(SCENARIO, Replicator.MM2, 1).as_json()

    assert (written["scenario"], written["replicator"], written["seed"]) == ("small", "mm2", 1)
    assert any("kill -9 of one broker on east, broker" in action["what"] for action in written["actions"])


def test_what_would_be_healed_after_the_disaster_is_healed_with_it_before_the_procedure_begins() -> None:
    scenario = small(
        faults=(
            Fault(FaultKind.CUT_LINK, "east", 1.0, lasts_seconds=60.0),
            Fault(FaultKind.KILL_CLUSTER, "east", 5.0, jitter_seconds=1.0, is_disaster=True),
        ),
        procedure=Procedure.FAIL_OVER,
        objectives=Objectives(rpo_seconds=5.0),
    )
    cut, killed, healed = plan_run(scenario, Replicator.MIRROR, 3).actions

    assert (cut.number, killed.fault.is_disaster, healed.number, healed.heals) == (0, True, 0, True)
    assert healed.at_seconds == killed.at_seconds
