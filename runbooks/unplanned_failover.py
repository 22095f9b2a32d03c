"""Unplanned failover: move the applications to the standby once the source is lost."""

from mirror.drill.flow_parameters import MOVE, MOVE_CONDITIONS
from mirror.drill.gates import JournalIntact
from mirror.drill.runbook import Runbook, Step

RUNBOOK = Runbook(
    name="unplanned-failover",
    title="Unplanned failover",
    purpose="Move the applications to the standby once the source is lost.",
    parameters=MOVE,
    conditions=MOVE_CONDITIONS,
    steps=(
        Step(
            name="unplanned_failover",
            notebook="71_unplanned_failover.ipynb",
            title="Unplanned failover",
            gates=(JournalIntact(),),
            budget_seconds=1800.0,
            undo="before the applications start: mirror failover FILE --take-back; then the failback is the way back",
            parameters=tuple(each.name for each in MOVE),
            point_of_no_return=True,
        ),
    ),
)
