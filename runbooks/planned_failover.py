"""Planned failover: move the applications to the other cluster and lose nothing."""

from mirror.drill.flow_parameters import MOVE, MOVE_CONDITIONS
from mirror.drill.gates import JournalIntact
from mirror.drill.runbook import Runbook, Step

RUNBOOK = Runbook(
    name="planned-failover",
    title="Planned failover",
    purpose="Move the applications to the other cluster and lose nothing.",
    parameters=MOVE,
    conditions=MOVE_CONDITIONS,
    steps=(
        Step(
            name="planned_failover",
            notebook="72_planned_failover.ipynb",
            title="Planned failover",
            gates=(JournalIntact(),),
            budget_seconds=3600.0,
            undo="before the applications start everything is taken back; then the failback is the way back",
            parameters=tuple(each.name for each in MOVE),
            point_of_no_return=True,
        ),
    ),
)
