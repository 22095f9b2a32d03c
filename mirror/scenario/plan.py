"""The plan of a run: what is done, when and to whom; decided by scenario and seed alone, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from mirror.scenario.declaration import Fault, FaultKind, Replicator, Scenario


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """A fault that is brought about, or healed, at a time.

    Attributes
    ----------
    number
        of the fault, in the order the scenario names them.
    at_seconds
        after the applications run and the copy has begun.
    fault
        with everything in it that the seed decided.
    """

    number: int
    at_seconds: float
    fault: Fault
    heals: bool = False

    def __str__(self) -> str:
        """Return what is done, for people."""
        what = f"{self.fault.kind} on {self.fault.on}"
        if self.fault.topic:
            what += f", {self.fault.topic}"
        if self.fault.broker is not None:
            what += f", broker {self.fault.broker}"
        return f"healed: {what}" if self.heals else what


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run of a scenario."""

    scenario: str
    replicator: Replicator
    seed: int
    actions: tuple[PlannedAction, ...]

    @property
    def name(self) -> str:
        """What tells the run from others of a series."""
        return f"{self.scenario}-{self.replicator}-{self.seed}"

    def as_json(self) -> Mapping[str, Any]:
        """Return the form it is written down in, in the directory of the run."""
        return {
            "scenario": self.scenario,
            "replicator": self.replicator.value,
            "seed": self.seed,
            "actions": [
                {"at_seconds": action.at_seconds, "what": str(action), "fault": action.number, "heals": action.heals}
                for action in self.actions
            ],
        }


def plan_run(scenario: Scenario, replicator: Replicator, seed: int) -> RunPlan:
    """Return the plan of a run; the replicator has no part in what is decided, so that two can be compared."""
    chance = Random(f"{scenario.name}/{seed}")
    brokers = {site.alias: site.brokers for site in scenario.sites}
    actions: list[PlannedAction] = []
    over_at: float | None = None
    for number, fault in enumerate(scenario.faults):
        at = round(fault.at_seconds + chance.random() * fault.jitter_seconds, 3)
        chosen = chance.randrange(brokers.get(fault.on, 1)) + 1
        is_of_one = fault.kind in {FaultKind.KILL_BROKER, FaultKind.STOP_BROKER}
        decided = replace(fault, broker=chosen) if is_of_one and fault.broker is None else fault
        actions.append(PlannedAction(number, at, decided))
        over_at = at if fault.is_disaster else over_at
        if fault.lasts_seconds is not None:
            actions.append(PlannedAction(number, round(at + fault.lasts_seconds, 3), decided, heals=True))
    if over_at is not None:
        actions = [_not_after(over_at, action) for action in actions]
    actions.sort(key=lambda action: (action.at_seconds, action.heals, action.number))
    return RunPlan(scenario.name, replicator, seed, tuple(actions))


def _not_after(over_at: float, action: PlannedAction) -> PlannedAction:
    """Let what is to be healed after the disaster be healed with it: nobody is there any more whom it would help."""
    return replace(action, at_seconds=min(action.at_seconds, over_at)) if action.heals else action
