"""Step 2: applications write and read on the active cluster, the replicator copies, and its lag is watched."""

from __future__ import annotations

import json

import pandas as pd
from matplotlib.figure import Figure

from mirror.control.flow_status import FlowStatus
from mirror.control.status import observe
from mirror.drill.steps.stage import LAG_SAMPLER, REPLICATOR, DrillStage
from mirror.evidence.outcome import Outcome
from mirror.evidence.plots import lag_plot
from mirror.evidence.run_evidence import read_evidence
from mirror.kafka.cluster import Cluster
from mirror.lab.applications import Deployment
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.waiting import Counted, wait_until

__all__ = [
    "STEP",
    "conclude",
    "run_steadily",
    "show_lag",
    "start_applications",
    "start_replicator",
    "wait_until_mirrored",
]

STEP = "mirror"

_START_SECONDS = 300.0
_SAMPLES = 3


def start_replicator(stage: DrillStage) -> str:
    """Start mirroring; it takes some seconds to get going."""
    process = (stage.alive(REPLICATOR) or [stage.start_replicator()])[0]
    return f"{process.name} runs with pid {process.pid}; its log is {process.log_path.name}"


def wait_until_mirrored(stage: DrillStage) -> pd.DataFrame:
    """Wait until all that the applications have written so far is copied, then begin to sample the lag.

    What was written while the replicator started is a backlog, however slow the machine; the objective is for a copy
    that keeps up. Applications that have just been started may have written nothing yet: then all that is copied says
    nothing.
    """
    wait_until(
        lambda: sorted(set(stage.topics) - _written_to(stage)),
        "the applications to write to every topic",
        timeout_seconds=_START_SECONDS,
        until=lambda missing: not missing,
    )
    with Cluster.connect(stage.settings.clusters[stage.active]) as cluster:
        written = cluster.offsets(
            [one for topic in cluster.topics(stage.topics).values() for one in topic.topic_partitions], "latest"
        )

    def left() -> list[str]:
        reached = {TopicPartition(one.topic, one.partition): one.upstream_next for one in status_of(stage).partitions}
        return [
            f"{each}: {end - reached[each]:,} records" if each in reached else f"{each}: no position yet"
            for each, end in written.items()
            if reached.get(each, -1) < end
        ]

    what = "all records written so far to be mirrored"
    wait_until(left, what, timeout_seconds=_START_SECONDS, until=lambda left: not left)
    if not stage.alive(LAG_SAMPLER):
        stage.start_lag_sampler()
    return status_table(stage, status_of(stage))


def start_applications(stage: DrillStage, *, rate: float, value_bytes: int, seed: int) -> pd.DataFrame:
    """Start producers and the groups on the active cluster; the last group reads slowly, so that it lags behind."""
    stage.start_applications(applications_before(stage, rate=rate, value_bytes=value_bytes, seed=seed))
    return pd.DataFrame([{"process": process.name, "pid": process.pid} for process in stage.alive()])


def applications_before(stage: DrillStage, *, rate: float, value_bytes: int, seed: int) -> Deployment:
    """Return the applications as they run on the active cluster before it is lost."""
    slow = max(1.0, 0.6 * rate)
    return stage.applications(stage.active, "before", rate=rate, seed=seed, value_bytes=value_bytes, slow=slow)


def run_steadily(stage: DrillStage, *, rate: float, seconds: float) -> pd.DataFrame:
    """Let it run until as many records are acknowledged as that time should bring, and the lag was sampled some times.

    Returns where the flow stands.
    """
    stage.wait_for_load(stage.active, rate=rate, seconds=seconds)
    wait_until(
        lambda: Counted(_samples(stage), _SAMPLES) if stage.alive(LAG_SAMPLER) else None,
        f"{_SAMPLES} samples of the lag",
        timeout_seconds=_START_SECONDS,
        until=lambda seen: seen is None or bool(seen),
    )
    return status_table(stage, status_of(stage))


def show_lag(stage: DrillStage) -> Figure:
    """Plot the lag of every partition so far."""
    return lag_plot(read_evidence(stage.run), str(stage.forward))


def conclude(stage: DrillStage, *, lag_objective_seconds: float) -> None:
    """Write the outcome: the flow runs, and the oldest record still to be copied is younger than the objective."""
    status = status_of(stage)
    lags = [partition.lag_seconds for partition in status.partitions]
    unknown = [partition for partition in status.partitions if partition.lag_seconds is None]
    worst = max((lag for lag in lags if lag is not None), default=None)
    reasons = list(status.reasons)
    verdict = Verdict.PASS
    if status.state != "RUNNING" or worst is None or unknown:
        verdict = Verdict.UNKNOWN if status.state == "RUNNING" else Verdict.FAIL
        reasons.append(
            f"the flow {stage.forward} is {status.state}; {counted(len(unknown), 'partition')} without a known lag"
        )
    elif worst > lag_objective_seconds:
        verdict = Verdict.FAIL
        reasons.append(
            f"the oldest record still to be copied is {worst:.1f} s old, allowed are {lag_objective_seconds} s"
        )
    else:
        reasons.append(f"the flow runs; no record waits for longer than {worst:.1f} s")
    facts = {
        "state": status.state,
        "lag_seconds": worst,
        "lag_objective_seconds": lag_objective_seconds,
        "mirrored_records": sum(partition.downstream_next for partition in status.partitions),
    }
    stage.conclude(Outcome(STEP, verdict, facts, tuple(reasons)))


def _written_to(stage: DrillStage) -> set[str]:
    """Return the topics of which the active cluster has acknowledged a record, by the ledger."""
    sends = stage.sends()
    return set(sends[(sends.cluster == stage.active) & (sends.status == "acked")].topic)


def _samples(stage: DrillStage) -> int:
    """Return how often the lag of the forward flow has been sampled."""
    if not stage.run.lag.exists():
        return 0
    lines = stage.run.lag.read_text().splitlines(keepends=True)
    samples = (json.loads(line) for line in lines if line.endswith("\n"))
    return len({sample["at_ms"] for sample in samples if sample["flow"] == str(stage.forward)})


def status_of(stage: DrillStage) -> FlowStatus:
    """Return where the forward flow stands."""
    with observe(stage.settings, {stage.forward}) as (observer,):
        return observer.look()


def status_table(stage: DrillStage, status: FlowStatus) -> pd.DataFrame:
    """Return a flow's partitions of the applications' topics as a table."""
    rows = [partition for partition in status.as_json()["partitions"] if partition["topic"] in stage.topics]
    return pd.DataFrame(rows)
