"""Practice for the runbooks of one's own clusters: two clusters, a mirror and applications that belong to the run."""

from __future__ import annotations

from mirror.control.status import observe
from mirror.drill.steps import mirroring, setup
from mirror.drill.steps.resumption import await_leader, done
from mirror.drill.steps.stage import LAG_SAMPLER, REPLICATOR, DrillStage
from mirror.evidence.journal import Event
from mirror.lab.applications import Deployment
from mirror.lab.stage import LOAD, READERS
from mirror.lab_applications import LabApplications
from mirror.recovery.group_moves import plan_moves
from mirror.waiting import wait_until

PARTITIONS, RATE = 2, 200.0
_PHASE = "practice"
_VALUE_BYTES, _SEED = 256, 1
_START_SECONDS = 300.0
_NOT_REPORTED = ("STARTING", "STOPPED", "FAILED")


def prepare(stage: DrillStage, step: str) -> None:
    """Make the practice, or start again what should run by now and does not.

    Behind a fault its victim stays as it was left; once the procedure has begun, the applications are its own affair.
    """
    if done(stage, Event.FAULT_INJECTED, step) is None and done(stage, Event.ACTION, step) is None:
        setup.start_clusters(stage, 1, judged=False)
        setup.write_properties(stage)
        setup.create_topics(stage, PARTITIONS)
        if not stage.alive(REPLICATOR):
            stage.start_replicator()
        stage.start_applications(applications(stage, stage.active))
        mirroring.wait_until_mirrored(stage)
        _await_checkpoints(stage)
        _await_reports(stage)
        return
    for alias in (stage.standby,) if done(stage, Event.FAULT_INJECTED, step) else (stage.active, stage.standby):
        if not stage.cluster(alias).is_alive():
            stage.start_cluster(alias)
    if not (done(stage, Event.FAULT_INJECTED, step) or _copying_was_ended(stage, step) or stage.alive(REPLICATOR)):
        # A plan asks whether an engine copies the flow, and a cut how far the one before it had copied.
        await_leader(stage, {stage.active, stage.standby}, stage.start_replicator().pid)


def applications(stage: DrillStage, alias: str) -> Deployment:
    """Return the applications as they run on a cluster."""
    return stage.applications(alias, _PHASE, rate=RATE, seed=_SEED, value_bytes=_VALUE_BYTES)


def moved_applications(stage: DrillStage) -> LabApplications:
    """Return the applications as the procedure moves them."""
    return LabApplications(stage, {alias: applications(stage, alias) for alias in (stage.active, stage.standby)})


def kill_active(stage: DrillStage, step: str) -> str:
    """Kill every broker of the active cluster, once, while the applications are at work."""
    if done(stage, Event.FAULT_INJECTED, step) is None:
        stage.wait_for_load(stage.active, rate=RATE, seconds=1.0)
        # Before the deed: a run that ends between the two goes on with it.
        facts = {"cluster": stage.active, "fault": "kill -9 of all brokers"}
        stage.run.journal.append(Event.FAULT_INJECTED, step=step, facts=facts)
    stage.cluster(stage.active).kill()
    return f"practice: every broker of {stage.active} was killed"


def stop_copying(stage: DrillStage, step: str) -> str:
    """End the replicator while the applications write on, as if its link were down."""
    if not _copying_was_ended(stage, step):
        stage.run.journal.append(Event.ACTION, step=step, facts={"ended": REPLICATOR})
    stage.stop(REPLICATOR)
    written = stage.wait_for_load(stage.active, rate=RATE, seconds=1.0) if stage.alive(f"{LOAD}{stage.active}-") else 0
    return f"practice: nothing is copied any more; {stage.active} has accepted {written:,} records since"


def end(stage: DrillStage) -> None:
    """End the applications and the replicator, so that the ledger is complete."""
    stage.stop(LOAD, READERS, LAG_SAMPLER)
    stage.stop(REPLICATOR)


def _await_checkpoints(stage: DrillStage) -> None:
    """Wait until the standby has a position for every group and partition, by checkpoints alone."""

    def missing() -> int:
        plan = plan_moves(stage.flow(stage.forward), stage.settings.clusters, groups=stage.groups, ask_source=False)
        copies = {stage.remote(topic) for topic in stage.topics}
        known = {(each.group, each.topic, each.partition) for each in plan.positions if each.topic in copies}
        return len(stage.groups) * len(stage.topics) * PARTITIONS - len(known)

    wait_until(missing, "checkpoints of every group", timeout_seconds=_START_SECONDS, until=lambda count: count <= 0)


def _await_reports(stage: DrillStage) -> None:
    """Wait until the replicator has reported an epoch of every flow: one that was started again has not, for a while.

    What was copied, and the checkpoints, may all be those of the one before.
    """
    flows = {each.flow for each in stage.settings.enabled_flows}
    with observe(stage.settings, flows) as observers:
        wait_until(
            lambda: [each.flow for each in (observer.look() for observer in observers) if each.state in _NOT_REPORTED],
            "the replicator to report",
            timeout_seconds=_START_SECONDS,
            until=lambda silent: not silent,
        )


def _copying_was_ended(stage: DrillStage, step: str) -> bool:
    return any(entry.step == step and "ended" in entry.facts for entry in stage.run.journal.read().entries)
