"""Step 4: the active cluster is lost under load; the applications move to the standby, and the loss is counted."""

from __future__ import annotations

import time

import pandas as pd
from matplotlib.figure import Figure

from mirror.control.flow_log import FlowLog
from mirror.control.group_view import view_groups
from mirror.control.groups import apply_group_writes, plan_group_writes, read_target_groups
from mirror.control.tick import problems_of
from mirror.drill.evidence import Failover, PartitionCut, read_evidence
from mirror.drill.journal import Entry, Event
from mirror.drill.plots import lag_plot
from mirror.drill.steps.stage import ACTIVE, FORWARD, GROUPS, REPLICATOR, STANDBY, TOPICS, Stage
from mirror.kafka.cluster import Cluster, ClusterError
from mirror.model.checkpoint import Checkpoint
from mirror.model.flow import Flow
from mirror.model.flow_state import state_topic
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until

STEP = "failover_drill"

_PROBES = 3
_PROBE_SECONDS = 1.0
_DETECT_SECONDS = 60.0
_SERVICE_SECONDS = 60.0


class MoveRefused(Exception):
    """A group could not be moved; names the group, the partition and the reason."""


def build_up_load(stage: Stage, *, rate: float, seconds: float) -> int:
    """Let the load go on for a while, so that the fault hits a busy cluster; return the records acknowledged by then."""
    before = int((stage.sends().status == "acked").sum())
    return stage.wait_for_sends(ACTIVE, before + int(rate * seconds), timeout_seconds=4 * seconds + 30)


def kill_active(stage: Stage) -> pd.DataFrame:
    """Kill every broker of the active cluster with SIGKILL, while producers and consumers are at work."""
    cluster = stage.cluster(ACTIVE)
    pids = [{"cluster": ACTIVE, "broker": broker.address} for broker in cluster.brokers]
    stage.run.journal.append(Event.FAULT_INJECTED, step=STEP, facts={"cluster": ACTIVE, "fault": "kill -9 of all brokers"})
    cluster.kill()
    return pd.DataFrame(pids)


def detect(stage: Stage) -> int:
    """Probe the active cluster until it has failed three probes in a row; return how many probes that took."""
    settings = stage.settings.clusters[ACTIVE]
    failed = probes = 0

    def probe() -> int:
        nonlocal failed, probes
        probes += 1
        try:
            Cluster.connect(settings, client_id="probe", timeout_seconds=_PROBE_SECONDS).close()
            failed = 0
        except ClusterError:
            failed += 1
        return failed

    what = f"{_PROBES} failed probes of {ACTIVE} in a row"
    wait_until(probe, what, timeout_seconds=_DETECT_SECONDS, until=lambda count: count >= _PROBES)
    stage.run.journal.append(Event.FAULT_DETECTED, step=STEP, facts={"cluster": ACTIVE, "probes": probes})
    return probes


def fence(stage: Stage) -> pd.DataFrame:
    """Stop every producer and consumer that knows the old cluster, so that none writes to it when it comes back."""
    stopped = [process.name for prefix in ("load-", "readers-") for process in stage.alive(prefix)]
    killed = stage.stop("load-", "readers-")
    stage.run.journal.append(Event.FENCED, step=STEP, facts={"cluster": ACTIVE, "killed": list(killed)})
    return pd.DataFrame([{"process": name, "ended": "killed" if name in killed else "cleanly"} for name in stopped])


def cut(stage: Stage) -> pd.DataFrame:
    """Stop the replicator: what it has acknowledged by now is the standby's truth. Return where each partition ends."""
    stage.stop(REPLICATOR)
    stage.run.journal.append(Event.CUT, step=STEP, facts={"flow": str(FORWARD)})
    return pd.DataFrame(
        [
            {
                "topic": source.topic,
                "partition": source.partition,
                "last_mirrored_upstream": position.upstream - 1,
                "downstream_next": position.downstream,
            }
            for source, position in sorted(positions(stage, FORWARD).items())
            if source.topic in TOPICS
        ]
    )


def move_groups(stage: Stage) -> pd.DataFrame:
    """Give every group, on the standby, the position where it stopped on the active cluster.

    Raises
    ------
    MoveRefused
        if a group cannot be moved; groups moved by then keep their new positions, and moving again is safe.
    """
    table = write_positions(stage, FORWARD, ask_source=False)
    stage.run.journal.append(Event.OFFSETS_APPLIED, step=STEP, facts={"groups": list(GROUPS), "positions": len(table)})
    return table


def start_on_standby(stage: Stage, *, rate: float, value_bytes: int, seed: int) -> pd.DataFrame:
    """Start producers on the standby, and the groups: they read the copies and what is written on the standby."""
    stage.start_load(STANDBY, "after", rate=rate, seed=seed + 1, value_bytes=value_bytes)
    topics = [*TOPICS, *(stage.remote(topic) for topic in TOPICS)]
    stage.start_readers(STANDBY, "after", topics, {})
    return pd.DataFrame([{"process": process.name, "pid": process.pid} for process in stage.alive()])


def wait_for_service(stage: Stage) -> pd.DataFrame:
    """Wait for the first acknowledged write on the standby, and until every group reads there what is new to it."""

    def first_times() -> dict[str, int]:
        sends, reads = stage.sends(), stage.reads()
        written = sends[(sends.cluster == STANDBY) & (sends.status == "acked")].acked_at_ms
        # A record written on the standby is new to every group.
        read = reads[(reads.cluster == STANDBY) & reads.topic.isin(TOPICS)].groupby("group").read_at_ms.min()
        return ({"first write": int(written.min())} if len(written) else {}) | {
            group: int(at) for group, at in read.items()
        }

    wanted = {"first write", *GROUPS}
    what = f"a first write on {STANDBY} and every group reading there"
    seen = wait_until(first_times, what, timeout_seconds=_SERVICE_SECONDS, until=lambda times: wanted <= set(times))
    stage.run.journal.append(Event.FIRST_WRITE, step=STEP, facts={"cluster": STANDBY, "first_at_ms": seen["first write"]})
    for group in GROUPS:
        facts = {"cluster": STANDBY, "group": group, "first_at_ms": seen[group]}
        stage.run.journal.append(Event.GROUP_READING, step=STEP, facts=facts)
    fault = event(stage, Event.FAULT_INJECTED).at_ms
    return pd.DataFrame([{"what": what, "seconds_after_fault": (at - fault) / 1000} for what, at in sorted(seen.items())])


def keep_serving(stage: Stage, *, rate: float, seconds: float) -> int:
    """Let the standby serve for a while; return how many records it has acknowledged."""
    return stage.wait_for_sends(STANDBY, int(rate * seconds), timeout_seconds=4 * seconds + 30)


def show_lag(stage: Stage) -> Figure:
    """Plot the lag up to the fault and behind it."""
    return lag_plot(read_evidence(stage.run), str(FORWARD))


def positions(stage: Stage, flow: Flow) -> dict[TopicPartition, object]:
    """Return how far each source partition of a flow is copied, as the target has it on record."""
    settings = stage.settings.clusters[flow.target]
    log = FlowLog(settings.client, state_topic(flow.source), alias=flow.target)
    try:
        return dict(log.poll().positions)
    finally:
        log.close()


def write_positions(stage: Stage, flow: Flow, *, ask_source: bool) -> pd.DataFrame:
    """Translate every group's positions along ``flow`` and write them on its target, under all guards."""
    settings, clusters = stage.flow(flow), stage.settings.clusters
    view = view_groups(settings, clusters, pattern="|".join(GROUPS), ask_source=ask_source)
    checkpoints = [
        Checkpoint(each.group, TopicPartition(each.topic, each.partition), each.upstream, each.downstream, each.metadata)
        for each in view.positions
        if each.downstream is not None
    ]
    with Cluster.connect(clusters[flow.target]) as target:
        decisions = plan_group_writes(checkpoints, read_target_groups(checkpoints, target))
        refused = [f"group {each.group}, {each.partition}: {each.reason}" for each in decisions if each.is_problem]
        if refused:
            raise MoveRefused("; ".join(refused))
        problems = problems_of(apply_group_writes(decisions, target), "writing the position of group")
        if problems:
            raise MoveRefused("; ".join(problems))
    return pd.DataFrame([each.as_json() for each in view.positions])


def event(stage: Stage, kind: Event) -> Entry:
    """Return the newest journal entry of a kind.

    Raises
    ------
    LookupError
        if there is none: the step that writes it has not been run.
    """
    found = [entry for entry in stage.run.journal.read().entries if entry.event is kind]
    if not found:
        raise LookupError(f"the journal of {stage.run.name} has no {kind}: run the cell that does it first")
    return found[-1]
