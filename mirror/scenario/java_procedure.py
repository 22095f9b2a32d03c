"""The failover and the failback of what Java MirrorMaker 2 copies: the procedure's steps, but for two.

It knows nothing of a state topic: no run is on record there, and no flow can be paused. So a flow is cut by stopping
the replicator, and groups go on where it has written their positions by itself (``sync.group.offsets.enabled``), which
is what its users rely on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mirror.evidence.facts import Json
from mirror.evidence.journal import Event
from mirror.kafka.cluster import Cluster
from mirror.model.counts import are, counted
from mirror.model.flow import Flow
from mirror.model.verdict import Verdict
from mirror.recovery.failover import detect
from mirror.recovery.flow_ends import Cut
from mirror.recovery.move import DRAIN, GROUPS, Move
from mirror.recovery.step_facts import named
from mirror.recovery.steps import Known, Result, Step, when_passed
from mirror.scenario.stage import ScenarioStage


@dataclass(frozen=True, slots=True)
class StoppedReplicator:
    """Pauses every flow at once; see `mirror.recovery.flow_ends.Pausing`."""

    stage: ScenarioStage

    def pause(self, flow: Flow) -> Cut:
        """Stop the replicator."""
        killed = self.stage.stop_replicator()
        return Cut(f"nobody copies {flow}: Java MirrorMaker 2 is stopped" + (" (killed)" if killed else ""))

    def resume(self, flow: Flow) -> str:
        """Start the replicator."""
        if not self.is_paused(flow):
            return f"{flow} is copied"
        return f"{flow} is copied again by {self.stage.start_replicator().name}"

    def is_paused(self, flow: Flow) -> bool:  # noqa: ARG002  # it copies all flows or none
        """Tell whether it does not run."""
        return not self.stage.replicators

    def is_cut(self, flow: Flow) -> bool:
        """Tell whether it does not run: it knows of no other pause."""
        return self.is_paused(flow)


def steps_there(move: Move, stage: ScenarioStage, groups: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps of a failover."""
    positions = _positions(move, stage, groups)
    cut = move.cut(holds_on=True)
    return (detect(move), move.stop(), cut, positions, move.start(), move.first_write(), move.first_reads())


def steps_home(
    move: Move, stage: ScenarioStage, groups: Sequence[str], late: Callable[[], list[str]]
) -> tuple[Step, ...]:
    """Return the steps of a failback; ``late`` waits for the copies and returns those that have not caught up."""
    positions = _positions(move, stage, groups)
    copied = (_copied_both_ways(move), move.stop(), _drained(move, late))
    return (*copied, positions, move.start(), move.first_write(), move.first_reads())


def _copied_both_ways(move: Move) -> Step:
    doing = "have both flows copied: Java MirrorMaker 2 copies all or none"
    return Step("mirror home", doing, lambda _: Result(Verdict.PASS, move.ends.resume()))


def _drained(move: Move, late: Callable[[], list[str]]) -> Step:
    def act(_: Known) -> Result:
        # What is late now is looked at again in the end, and judged then.
        left = late()
        return Result(Verdict.UNKNOWN, named(left)) if left else Result(Verdict.PASS, "every copy has caught up")

    doing = f"wait until {move.flow.target} has everything that {move.flow.source} has"
    return Step(DRAIN, doing, act, moments=when_passed(Event.DRAINED))


def _positions(move: Move, stage: ScenarioStage, groups: Sequence[str]) -> Step:
    target = move.flow.target

    def act(_: Known) -> Result:
        with Cluster.connect(stage.settings.clusters[target]) as cluster:
            found = cluster.positions_of_groups(list(groups))
        rows: list[Mapping[str, Json]] = [
            {"group": group, "topic": each.topic, "partition": each.partition, "after": position.position}
            for group, positions in sorted(found.items())
            for each, position in sorted(positions.items())
        ]
        # The readers begin with what there is where they have no position.
        others = set(groups) - {str(row["group"]) for row in rows}
        rows += [{"group": group, "topic": None, "partition": None, "after": 0} for group in sorted(others)]
        message = (
            f"{counted(len(rows), 'position')} {are(len(rows))} on {target}, as Java MirrorMaker 2 has written them"
        )
        return Result(
            Verdict.PASS, message, {"rows": rows, "cluster": target, "groups": list(groups), "translated": []}
        )

    doing = f"take the positions that Java MirrorMaker 2 has written on {target}"
    return Step(GROUPS, doing, act, moments=when_passed(Event.OFFSETS_APPLIED))
