"""Step 1: two clusters, the applications' topics, and the properties file of the replicator between them."""

from __future__ import annotations

from importlib.metadata import version

import pandas as pd

from mirror.config.resolving import load
from mirror.drill.steps.stage import JUDGES, DrillStage
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_model import RunCluster
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters as lab_clusters
from mirror.lab import mm2, spark_cluster
from mirror.model.verdict import Verdict

__all__ = ["STEP", "conclude", "create_topics", "start_clusters", "start_spark", "write_properties"]

STEP = "setup"

_PROPERTIES = """\
# Written by the setup step. Java MirrorMaker 2 runs from it as it is.
clusters = {active}, {standby}
{active}.bootstrap.servers = {active_servers}
{standby}.bootstrap.servers = {standby_servers}

# Both ways: records written on the standby after a failover come back by the second flow.
{active}->{standby}.enabled = true
{standby}->{active}.enabled = true
topics = .*
groups = {groups}

# One broker a cluster: nothing can be kept twice.
{factors}

emit.checkpoints.interval.seconds = 1
refresh.groups.interval.seconds = 1
refresh.topics.interval.seconds = 2
"""


def start_clusters(stage: DrillStage, brokers: int, *, judged: bool = True) -> pd.DataFrame:
    """Start both clusters, and what judges them; return a row each. Brokers that already run are left as they are."""
    if judged and not stage.alive(JUDGES):
        stage.start_judges()
    stage.layout.save(stage.run)
    lab = lab_clusters.up(
        stage.run.lab, [stage.active, stage.standby], brokers=brokers, owner_pid=stage.ensure_holder()
    )
    return pd.DataFrame(
        [
            {
                "cluster": alias,
                "role": "active" if alias == stage.active else "standby",
                "brokers": len(cluster.brokers),
                "bootstrap_servers": cluster.bootstrap_servers,
            }
            for alias, cluster in lab.clusters.items()
        ]
    )


def start_spark(stage: DrillStage, workers: int) -> str:
    """Start the Spark cluster the replicator is to run on, if it is to run on one; say where its Spark is."""
    if not workers:
        return "the replicator runs Spark on this machine, inside its own processes"
    running = spark_cluster.load(stage.spark_home) or spark_cluster.up(
        stage.spark_home, workers, owner_pid=stage.ensure_holder()
    )
    return f"the replicator runs on the Spark cluster {running.master_url} with {len(running.workers)} workers"


def write_properties(stage: DrillStage) -> str:
    """Write the replicator's properties file into the run directory; return its text."""
    text = _PROPERTIES.format(
        active=stage.active,
        standby=stage.standby,
        active_servers=stage.cluster(stage.active).bootstrap_servers,
        standby_servers=stage.cluster(stage.standby).bootstrap_servers,
        groups=", ".join(stage.groups),
        factors="\n".join(f"{key} = 1" for key in mm2.REPLICATION_FACTORS),
    )
    stage.run.mirror_properties.write_text(text)
    load(stage.run.mirror_properties)
    return text


def create_topics(stage: DrillStage, partitions: int) -> pd.DataFrame:
    """Create the applications' topics on both clusters: on the standby they wait, empty, for the failover."""
    rows = []
    for alias in (stage.active, stage.standby):
        with Cluster.connect(stage.settings.clusters[alias]) as cluster:
            wanted = [NewTopic(topic, partitions, 1, {}) for topic in stage.topics]
            for result in cluster.create_topics(wanted):
                state = result.problem or ("was there" if result.existed else "created")
                rows.append({"cluster": alias, "topic": result.item, "partitions": partitions, "state": state})
    return pd.DataFrame(rows)


def conclude(stage: DrillStage) -> pd.DataFrame:
    """Ask both clusters who they are, write the outcome, and raise unless it is PASS."""
    facts: list[RunCluster] = []
    missing: list[str] = []
    for alias in (stage.active, stage.standby):
        with Cluster.connect(stage.settings.clusters[alias]) as cluster:
            present = cluster.topics(stage.topics)
            missing += [f"{topic} on {alias}" for topic in stage.topics if topic not in present]
            servers = stage.cluster(alias).bootstrap_servers
            facts.append(RunCluster(alias, cluster.cluster_id, servers, len(cluster.broker_ids())))
    reasons = [f"topics are missing: {', '.join(missing)}"] if missing else []
    if len({fact.cluster_id for fact in facts}) < len(facts):
        reasons.append("both addresses lead to the same cluster")
    versions = {"mirrorbook": version("mirrorbook"), "pyspark": version("pyspark")}
    passed = ("two clusters answer, each with the applications' topics",)
    stage.conclude(
        Outcome(
            STEP,
            Verdict.FAIL if reasons else Verdict.PASS,
            {"clusters": facts, "versions": versions},
            tuple(reasons) or passed,
        )
    )
    return pd.DataFrame(facts)
