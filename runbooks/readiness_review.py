"""The readiness review: find everything that would block a failover of a flow now, or lose records; change nothing."""

from mirror.drill.flow_parameters import FLOW, FLOW_CONDITIONS
from mirror.drill.gates import JournalIntact
from mirror.drill.runbook import Parameter, Runbook, Step

RUNBOOK = Runbook(
    name="readiness-review",
    title="Readiness review",
    purpose="Find everything that would block a failover of a flow now, or lose records; change nothing.",
    parameters=(
        *FLOW,
        Parameter("rpo_seconds", 30.0, "s", "objective: how far the copy may be behind"),
    ),
    conditions=FLOW_CONDITIONS,
    steps=(
        Step(
            name="readiness_review",
            notebook="70_readiness_review.ipynb",
            title="Readiness review",
            gates=(JournalIntact(),),
            budget_seconds=900.0,
            undo="nothing to undo: it only reads",
            parameters=(*(each.name for each in FLOW), "rpo_seconds"),
            point_in_time=True,
        ),
    ),
)
