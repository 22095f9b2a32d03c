"""The test failover: try out, on clusters in use, where every group would go on; disturb nobody."""

from mirror.drill.conditions import GroupPattern
from mirror.drill.flow_parameters import FLOW, FLOW_CONDITIONS
from mirror.drill.gates import JournalIntact
from mirror.drill.runbook import Parameter, Runbook, Step
from mirror.model.shadow import TakenFrom

RUNBOOK = Runbook(
    name="test-failover",
    title="Test failover",
    purpose="Try out on the standby, while everything goes on, where every group would go on after a failover.",
    parameters=(
        *FLOW,
        Parameter("groups", ".*", "", "regular expression: groups whose whole id matches are tried"),
        Parameter(
            "positions",
            "checkpoints",
            "",
            "checkpoints: as if the source were lost; source: as in a planned move",
            choices=tuple(TakenFrom),
        ),
        Parameter("records", 100, "records", "most records read of each partition", least=1),
        Parameter("read_seconds", 15.0, "s", "longest reading of each group", least=1),
        Parameter("first_record_seconds", 30.0, "s", "objective: from a reader's start to its first record"),
    ),
    conditions=(*FLOW_CONDITIONS, GroupPattern("groups")),
    steps=(
        Step(
            name="test_failover",
            notebook="60_test_failover.ipynb",
            title="Try every group out on the standby",
            gates=(JournalIntact(),),
            budget_seconds=900.0,
            undo="nothing is left; if it was killed: mirror rehearse FILE --clean deletes the shadow groups",
            parameters=(
                *(each.name for each in FLOW),
                *("groups", "positions", "records", "read_seconds", "first_record_seconds"),
            ),
        ),
    ),
)
