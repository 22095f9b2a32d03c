"""Cut-off failover: move the applications to the standby while it cannot copy any more, and state the loss first."""

from mirror.drill.flow_parameters import MOVE, MOVE_CONDITIONS
from mirror.drill.gates import JournalIntact
from mirror.drill.runbook import Runbook, Step

RUNBOOK = Runbook(
    name="cut-off-failover",
    title="Cut-off failover",
    purpose="Move the applications to the standby while it cannot copy any more, and state the loss first.",
    parameters=MOVE,
    conditions=MOVE_CONDITIONS,
    steps=(
        Step(
            name="cut_off_failover",
            notebook="73_cut_off_failover.ipynb",
            title="Cut-off failover",
            gates=(JournalIntact(),),
            budget_seconds=1800.0,
            undo="before the applications start: mirror failover FILE --take-back; then the failback is the way back",
            parameters=tuple(each.name for each in MOVE),
            point_of_no_return=True,
        ),
    ),
)
