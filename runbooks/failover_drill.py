"""The failover drill: prove that the standby takes over, what that costs, and that nothing is lost on the way back."""

from mirror.drill.gates import FreeSpace, JournalIntact, StepsPassed
from mirror.drill.runbook import Parameter, Runbook, Step

RUNBOOK = Runbook(
    name="failover-drill",
    title="Failover drill",
    purpose="Prove that the standby takes over, what that costs, and that nothing is lost on the way back.",
    parameters=(
        Parameter("partitions", 4, "", "partitions of each topic of the applications", least=1),
        Parameter("brokers", 1, "", "brokers a cluster", least=1),
        Parameter("spark_workers", 0, "", "workers of a Spark cluster to run the replicator on; 0: on this machine"),
        Parameter("records_per_second", 500, "records/s", "rate of all producers together", least=1),
        Parameter("load_seconds", 4.0, "s", "how long the load runs in each step that needs it", least=1),
        Parameter("value_bytes", 512, "bytes", "size of a record's value", least=1),
        Parameter("seed", 1, "", "seed of keys, sizes and contents: the same seed sends the same records"),
        Parameter(
            "lag_objective_seconds", 5.0, "s", "oldest record that may still wait to be mirrored, without a fault"
        ),
        Parameter("link_outage_seconds", 1.0, "s", "how long the replicator is frozen before the fault, as by a link"),
        Parameter("rpo_objective_seconds", 5.0, "s", "oldest acknowledged record that west may lack at the fault"),
        Parameter("rto_objective_seconds", 60.0, "s", "from the fault to every group reading new records"),
        Parameter(
            "seeded_loss_records", 0, "records", "remove so many from west before it is verified: must end in FAIL"
        ),
    ),
    steps=(
        Step(
            name="setup",
            notebook="10_setup.ipynb",
            title="Set up two clusters and the mirror",
            gates=(FreeSpace(gigabytes=2.0),),
            budget_seconds=1200.0,
            undo="stop the clusters; delete the run's lab folder",
            parameters=("partitions", "brokers", "spark_workers"),
            point_in_time=True,
        ),
        Step(
            name="mirror",
            notebook="20_mirror.ipynb",
            title="Mirror east to west under load",
            gates=(StepsPassed(("setup",)),),
            budget_seconds=1200.0,
            undo="stop the load and the mirror; nothing on east has changed",
            parameters=("records_per_second", "load_seconds", "seed", "value_bytes", "lag_objective_seconds"),
            point_in_time=True,
        ),
        Step(
            name="verify",
            notebook="30_verify.ipynb",
            title="Verify the copy, record by record",
            gates=(StepsPassed(("setup", "mirror")),),
            budget_seconds=1200.0,
            undo="nothing to undo: it only reads",
            parameters=("seeded_loss_records",),
        ),
        Step(
            name="failover_drill",
            notebook="40_failover_drill.ipynb",
            title="Fail over: kill east, move to west",
            gates=(StepsPassed(("setup", "mirror", "verify")), JournalIntact()),
            budget_seconds=1200.0,
            undo="the failback, which is the next step: from here on west holds records that east does not have",
            parameters=(
                "records_per_second",
                "load_seconds",
                "seed",
                "value_bytes",
                "link_outage_seconds",
                "rpo_objective_seconds",
                "rto_objective_seconds",
            ),
            point_of_no_return=True,
        ),
        Step(
            name="failback",
            notebook="50_failback.ipynb",
            title="Fail back to east and account for every record",
            gates=(StepsPassed(("failover_drill",)), JournalIntact()),
            budget_seconds=1200.0,
            undo="stay on west and keep the disks of east; repeat this step once the cause is removed",
            parameters=("records_per_second", "load_seconds", "seed", "value_bytes"),
        ),
    ),
)
