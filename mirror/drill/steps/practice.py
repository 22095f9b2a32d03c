"""Practice for the runbooks of one's own clusters: two clusters, a mirror and applications that belong to the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.drill.steps import mirroring, setup
from mirror.drill.steps.resumption import done
from mirror.drill.steps.stage import ACTIVE, FORWARD, GROUPS, LAG_SAMPLER, REPLICATOR, REVERSE, STANDBY, TOPICS, Stage
from mirror.evidence.journal import Event
from mirror.lab.stage import LOAD, READERS
from mirror.recovery.applications import Answer, Done, NotDone
from mirror.recovery.group_moves import plan_moves
from mirror.waiting import wait_until

PARTITIONS, RATE = 2, 200.0
_VALUE_BYTES, _SEED = 256, 1
_START_SECONDS = 300.0
_SERVICE_SECONDS = 300.0


def prepare(stage: Stage, step: str) -> None:
    """Make the practice, or start again what should run by now and does not.

    Behind a fault its victim stays as it was left; once the procedure has begun, the applications are its own affair.
    """
    if done(stage, Event.FAULT_INJECTED, step) is None and done(stage, Event.ACTION, step) is None:
        setup.start_clusters(stage, 1, judged=False)
        setup.write_properties(stage)
        setup.create_topics(stage, PARTITIONS)
        if not stage.alive(REPLICATOR):
            stage.start_replicator([])
        start_applications(stage, ACTIVE)
        mirroring.wait_until_mirrored(stage)
        _await_checkpoints(stage)
        return
    for alias in (STANDBY,) if done(stage, Event.FAULT_INJECTED, step) else (ACTIVE, STANDBY):
        if not stage.cluster(alias).is_alive():
            stage.start_cluster(alias)
    if not (done(stage, Event.FAULT_INJECTED, step) or _copying_was_ended(stage, step) or stage.alive(REPLICATOR)):
        stage.start_replicator([])


def start_applications(stage: Stage, alias: str) -> None:
    """Start producers and groups on a cluster, unless they run there; the groups read its own topics and the copies."""
    phase = "practice"
    if not stage.alive(_load(alias)):
        stage.start_load(alias, phase, rate=RATE, seed=_SEED, value_bytes=_VALUE_BYTES)
    if not any(stage.alive(name) for name in _readers(alias)):
        into = FORWARD if alias == STANDBY else REVERSE
        stage.start_readers(alias, phase, [*TOPICS, *(stage.remote(topic, into) for topic in TOPICS)], {})


def kill_active(stage: Stage, step: str) -> str:
    """Kill every broker of the active cluster, once, while the applications are at work."""
    if done(stage, Event.FAULT_INJECTED, step) is None:
        stage.wait_for_load(ACTIVE, rate=RATE, seconds=1.0)
        # Before the deed: a run that ends between the two goes on with it.
        facts = {"cluster": ACTIVE, "fault": "kill -9 of all brokers"}
        stage.run.journal.append(Event.FAULT_INJECTED, step=step, facts=facts)
    stage.cluster(ACTIVE).kill()
    return f"practice: every broker of {ACTIVE} was killed"


def stop_copying(stage: Stage, step: str) -> str:
    """End the replicator while the applications write on, as if its link were down."""
    if not _copying_was_ended(stage, step):
        stage.run.journal.append(Event.ACTION, step=step, facts={"ended": REPLICATOR})
    stage.stop(REPLICATOR)
    written = stage.wait_for_load(ACTIVE, rate=RATE, seconds=1.0) if stage.alive(_load(ACTIVE)) else 0
    return f"practice: nothing is copied any more; {ACTIVE} has accepted {written:,} records since"


def end(stage: Stage) -> None:
    """End the applications and the replicator, so that the ledger is complete."""
    stage.stop(LOAD, READERS, LAG_SAMPLER)
    stage.stop(REPLICATOR)


@dataclass(frozen=True, slots=True)
class LabApplications:
    """The applications of a practice; see `mirror.recovery.applications.Applications`."""

    stage: Stage

    def stop(self, cluster: str) -> Answer:
        """See `Applications`."""
        killed = self.stage.stop(_load(cluster), *_readers(cluster))
        return Done(f"the applications on {cluster} are stopped" + (f"; killed: {', '.join(killed)}" if killed else ""))

    def start(self, cluster: str) -> Answer:
        """See `Applications`."""
        start_applications(self.stage, cluster)
        return Done(f"the applications on {cluster} are started")

    def first_write(self, cluster: str, since_ms: int) -> Answer:
        """See `Applications`."""
        start_applications(self.stage, cluster)
        found = self.stage.await_service(cluster, TOPICS, (), since_ms=since_ms, seconds=_SERVICE_SECONDS)
        return _seen(found.first_write_at_ms, f"{cluster} has accepted a write")

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        """See `Applications`."""
        start_applications(self.stage, cluster)
        found = self.stage.await_service(cluster, TOPICS, groups, since_ms=since_ms, seconds=_SERVICE_SECONDS)
        at = found.groups_reading_at_ms
        return {group: _seen(at.get(group), f"group {group} reads on {cluster}") for group in groups}


def _seen(at_ms: int | None, what: str) -> Answer:
    if at_ms is None:
        return NotDone(f"not within {_SERVICE_SECONDS:g} s: {what}")
    return Done(f"by the ledger {what}", at_ms)


def _await_checkpoints(stage: Stage) -> None:
    """Wait until the standby has a position for every group and partition, by checkpoints alone."""

    def missing() -> int:
        plan = plan_moves(stage.flow(FORWARD), stage.settings.clusters, groups=GROUPS, ask_source=False)
        copies = {stage.remote(topic) for topic in TOPICS}
        known = {(each.group, each.topic, each.partition) for each in plan.positions if each.topic in copies}
        return len(GROUPS) * len(TOPICS) * PARTITIONS - len(known)

    wait_until(missing, "checkpoints of every group", timeout_seconds=_START_SECONDS, until=lambda count: count <= 0)


def _copying_was_ended(stage: Stage, step: str) -> bool:
    return any(entry.step == step and "ended" in entry.facts for entry in stage.run.journal.read().entries)


def _load(alias: str) -> str:
    return f"{LOAD}{alias}-"


def _readers(alias: str) -> tuple[str, ...]:
    return tuple(f"{READERS}{group}-{alias}-" for group in GROUPS)
