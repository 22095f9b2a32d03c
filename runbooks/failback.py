"""Failback: move the applications of a flow that was failed over back to the old cluster, and lose nothing."""

from mirror.drill.flow_parameters import FAILBACK, MOVE_CONDITIONS
from mirror.drill.gates import JournalIntact
from mirror.drill.runbook import Runbook, Step

RUNBOOK = Runbook(
    name="failback",
    title="Failback",
    purpose="Move the applications of a flow that was failed over back, and lose nothing.",
    parameters=FAILBACK,
    conditions=MOVE_CONDITIONS,
    steps=(
        Step(
            name="failback",
            notebook="74_failback.ipynb",
            title="Failback",
            gates=(JournalIntact(),),
            budget_seconds=3600.0,
            undo="before the old cluster's applications start everything is taken back; then only by a new failover",
            parameters=tuple(each.name for each in FAILBACK),
            point_of_no_return=True,
        ),
    ),
)
