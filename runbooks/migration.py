"""Migration: move to a new cluster and off the old one, group by group."""

from mirror.drill.flow_parameters import MIGRATION_CONDITIONS, MOVE
from mirror.drill.gates import JournalIntact
from mirror.drill.runbook import Runbook, Step

RUNBOOK = Runbook(
    name="migration",
    title="Migration",
    purpose="Move to a new cluster and off the old one, group by group.",
    parameters=MOVE,
    conditions=MIGRATION_CONDITIONS,
    steps=(
        Step(
            name="migration",
            notebook="75_migration.ipynb",
            title="Migration",
            gates=(JournalIntact(),),
            budget_seconds=86_400.0,
            undo="a group that fails before it starts there is taken back by itself; once all have moved, the failback",
            parameters=tuple(each.name for each in MOVE),
            point_of_no_return=True,
        ),
    ),
)
