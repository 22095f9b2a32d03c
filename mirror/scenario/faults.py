"""Bringing faults about, and healing them: signals, links, disks and administration, on what a stage has running."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import psutil

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import read_records
from mirror.lab import faults as lab_faults
from mirror.lab.brokers import EmbeddedBroker
from mirror.lab.errors import LabError
from mirror.lab.link import Link
from mirror.lab.processes import ManagedProcess
from mirror.model.counts import counted
from mirror.model.ledger import record_id
from mirror.model.partition import TopicPartition
from mirror.scenario.declaration import Fault, FaultKind, Load
from mirror.scenario.disks import NoSmallDisk
from mirror.scenario.plan import PlannedAction
from mirror.scenario.planted import Planted
from mirror.scenario.stage import ScenarioStage
from mirror.waiting import wait_until

_SECONDS = 60.0

Facts = Mapping[str, object]
_Act = Callable[[Fault, ScenarioStage], Facts | None]


class FaultNotPossible(LabError):
    """The fault could not be brought about here; the run proves nothing about it."""


def carry_out(action: PlannedAction, stage: ScenarioStage) -> Facts:
    """Bring a fault about or heal it; return what the journal is to say beside.

    Raises
    ------
    FaultNotPossible
        if there was nothing to hurt.
    LabError, ClusterError
        if it did not come about.
    """
    act = (_HEALINGS if action.heals else _FAULTS).get(action.fault.kind)
    if act is None:
        raise FaultNotPossible(f"{action.fault.kind} cannot be healed")
    return act(action.fault, stage) or {}


def _broker_processes(fault: Fault, stage: ScenarioStage) -> list[ManagedProcess]:
    return [process for broker in stage.cluster(fault.on).brokers if (process := broker.process) is not None]


def _broker(fault: Fault, stage: ScenarioStage) -> EmbeddedBroker:
    return stage.cluster(fault.on).brokers[(fault.broker or 1) - 1]


def _replicator(stage: ScenarioStage) -> list[ManagedProcess]:
    found = stage.replicators
    if not found:
        raise FaultNotPossible("no replicator was running: it had ended by itself")
    return found


def _kill_replicator(_: Fault, stage: ScenarioStage) -> None:
    for process in _replicator(stage):
        # What it has started ends with it only when it may say so; kill -9 of a machine takes everything at once.
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        lab_faults.kill(family)


def _start_replicator(_: Fault, stage: ScenarioStage) -> None:
    if not stage.replicators:
        stage.start_replicator()


def _restart_replicator(_: Fault, stage: ScenarioStage) -> Facts:
    _replicator(stage)
    stubborn = stage.stop_replicator()
    stage.start_replicator()
    return {"had_to_be_killed": bool(stubborn)}


def _kill_worker(_: Fault, stage: ScenarioStage) -> Facts:
    spark = stage.spark
    if spark is not None:
        victim = next(worker for worker in spark.workers if worker.is_alive())
        family = psutil.Process(victim.pid).children(recursive=True)
        victim.kill()
        lab_faults.kill(family)
        return {"worker": victim.name}
    workers = wait_until(
        lambda: [each for process in _replicator(stage) for each in lab_faults.python_workers(process)],
        "a Python worker to kill",
        timeout_seconds=_SECONDS,
    )
    lab_faults.kill(workers[-1:])
    return {"pid": workers[-1].pid}


def _kill_jvm(_: Fault, stage: ScenarioStage) -> None:
    jvms = [each for process in _replicator(stage) for each in lab_faults.spark_jvms(process)]
    if not jvms:
        raise FaultNotPossible("the replicator had no JVM")
    lab_faults.kill(jvms)


def _to_links(act: Callable[[Link, Fault], object]) -> _Act:
    """Return what does it to every link of the cluster."""

    def done(fault: Fault, stage: ScenarioStage) -> None:
        for link in stage.cluster(fault.on).links:
            act(link, fault)

    return done


def _topic(fault: Fault) -> str:
    assert fault.topic is not None
    return fault.topic


def _partitions(stage: ScenarioStage, name: str) -> list[TopicPartition]:
    declared = next(topic for topic in stage.scenario.topics if topic.name == name)
    return [TopicPartition(name, number) for number in range(declared.partitions)]


def _delete_records(fault: Fault, stage: ScenarioStage) -> None:
    servers = stage.cluster(fault.on).bootstrap_servers
    lab_faults.delete_all_records(servers, _partitions(stage, _topic(fault)))


def _recreate_topic(fault: Fault, stage: ScenarioStage) -> None:
    declared = next(topic for topic in stage.scenario.topics if topic.name == fault.topic)
    site = next(site for site in stage.scenario.sites if site.alias == fault.on)
    new = NewTopic(declared.name, declared.partitions, declared.replicas or min(3, site.brokers), declared.configs)
    with Cluster.connect(stage.settings.clusters[fault.on]) as cluster:
        for result in cluster.delete_topics([declared.name]):
            if result.problem:
                raise LabError(f"{fault.on}: {result.item} was not deleted: {result.problem}")

        def create() -> str | None:
            (result,) = cluster.create_topics([new])
            return result.problem if result.problem or not result.existed else "it is still there"

        wait_until(
            create,
            f"{declared.name} to be created again on {fault.on}",
            timeout_seconds=_SECONDS,
            until=lambda problem: problem is None,
        )


def _elect_uncleanly(fault: Fault, stage: ScenarioStage) -> Facts:
    """Stop the follower, let the leader acknowledge alone, kill it, and let the follower lead without that.

    The topic has one partition with two replicas, and allows both: ``min.insync.replicas=1`` and unclean elections.
    """
    cluster, name = stage.cluster(fault.on), _topic(fault)
    with Cluster.connect(stage.settings.clusters[fault.on]) as admin:
        (partition,) = admin.topics([name])[name].partitions
    leader, follower = partition.leader, next(node for node in partition.replicas if node != partition.leader)
    brokers = {broker.node_id: broker for broker in cluster.brokers}
    brokers[follower].stop()
    before = stage.acked(fault.on)
    wait_until(
        lambda: stage.acked(fault.on) - before,
        f"{fault.on} to acknowledge records that only broker {leader} has",
        timeout_seconds=_SECONDS,
        until=lambda more: more >= fault.records,
    )
    brokers[leader].kill()
    alone = stage.acked(fault.on) - before
    brokers[follower].start()

    def led_by() -> int:
        with Cluster.connect(stage.settings.clusters[fault.on]) as admin:
            return admin.topics([name])[name].partitions[0].leader

    wait_until(led_by, f"broker {follower} to lead", timeout_seconds=_SECONDS, until=lambda node: node == follower)
    brokers[leader].start()
    return {"leader": leader, "follower": follower, "acknowledged_by_the_leader_alone": alone}


def _fill_disk(fault: Fault, stage: ScenarioStage) -> None:
    disk = stage.disks.get(fault.on)
    if disk is None:
        raise NoSmallDisk(f"{fault.on} has no disk of its own")
    disk.fill()


def _make_room(fault: Fault, stage: ScenarioStage) -> Facts:
    stage.disks[fault.on].make_room()
    dead = [broker.node_id for broker in stage.cluster(fault.on).brokers if not broker.is_alive()]
    for broker in stage.cluster(fault.on).brokers:
        if not broker.is_alive():
            broker.start()
    return {"brokers_that_had_given_up": dead}


def _join_group(fault: Fault, stage: ScenarioStage) -> None:
    group = next(group for group in stage.scenario.groups if group.name == fault.on)
    stage.start_readers([replace(group, members=1, process="")], f"joined-{round(fault.at_seconds)}")


def _leave_group(fault: Fault, stage: ScenarioStage) -> None:
    group = next(group for group in stage.scenario.groups if group.name == fault.on)
    stage.stop_member(group, f"joined-{round(fault.at_seconds)}")


def _lose_copies(fault: Fault, stage: ScenarioStage) -> Facts:
    copies = [
        each.route.kept
        for each in stage.routes()
        if each.route.kept.cluster == fault.on and each.route.sent.topic == fault.topic
    ]
    if not copies:
        raise FaultNotPossible(f"{fault.topic} has no copy on {fault.on}")
    partition = TopicPartition(copies[0].topic, 0)
    there = read_records(stage.settings.clusters[fault.on].client, partition, 0, fault.records)
    records = tuple(identity for record in there if (identity := record_id(record.headers)) is not None)
    if len(records) != fault.records:
        raise FaultNotPossible(f"{fault.on} {partition} begins with {counted(len(records), 'record')} of the ledger")
    lab_faults.remove_first_records(stage.cluster(fault.on).bootstrap_servers, partition, fault.records)
    stage.planted.append(Planted(fault.on, partition, records))
    named = [f"{each.producer}:{each.sequence}" for each in records]
    return {"topic": partition.topic, "partition": partition.partition, "removed_records": named}


def _start_producer(fault: Fault, stage: ScenarioStage) -> None:
    forgotten = Load(fault.on, (_topic(fault),), rate=float(fault.records), producers=1)
    stage.start_load(forgotten, "forgotten", stage.seed)


def _stop_producer(fault: Fault, stage: ScenarioStage) -> None:
    stage.stop_loads(f"{fault.on}-forgotten")


_FAULTS: Mapping[FaultKind, _Act] = {
    FaultKind.KILL_CLUSTER: lambda fault, stage: stage.cluster(fault.on).kill(),
    FaultKind.FREEZE_CLUSTER: lambda fault, stage: lab_faults.suspend(_broker_processes(fault, stage)),
    FaultKind.KILL_BROKER: lambda fault, stage: _broker(fault, stage).kill(),
    FaultKind.STOP_BROKER: lambda fault, stage: _broker(fault, stage).stop(),
    FaultKind.KILL_REPLICATOR: _kill_replicator,
    FaultKind.FREEZE_REPLICATOR: lambda _, stage: lab_faults.suspend(_replicator(stage)),
    FaultKind.RESTART_REPLICATOR: _restart_replicator,
    FaultKind.KILL_SPARK_WORKER: _kill_worker,
    FaultKind.KILL_SPARK_JVM: _kill_jvm,
    FaultKind.CUT_LINK: _to_links(lambda link, _: link.cut()),
    FaultKind.CUT_ANSWERS: _to_links(lambda link, _: link.cut_answers()),
    FaultKind.RESET_LINK: _to_links(lambda link, _: link.cut(silently=False)),
    FaultKind.SLOW_LINK: _to_links(lambda link, fault: link.set(delay_ms=fault.delay_ms, bandwidth=fault.bandwidth)),
    FaultKind.DELETE_RECORDS: _delete_records,
    FaultKind.RECREATE_TOPIC: _recreate_topic,
    FaultKind.ELECT_UNCLEANLY: _elect_uncleanly,
    FaultKind.FILL_DISK: _fill_disk,
    FaultKind.JOIN_GROUP: _join_group,
    FaultKind.LOSE_COPIES: _lose_copies,
    FaultKind.START_PRODUCER: _start_producer,
}
_HEALINGS: Mapping[FaultKind, _Act] = {
    FaultKind.KILL_CLUSTER: lambda fault, stage: stage.cluster(fault.on).start(),
    FaultKind.FREEZE_CLUSTER: lambda fault, stage: lab_faults.resume(_broker_processes(fault, stage)),
    FaultKind.KILL_BROKER: lambda fault, stage: _broker(fault, stage).start(),
    FaultKind.STOP_BROKER: lambda fault, stage: _broker(fault, stage).start(),
    FaultKind.KILL_REPLICATOR: _start_replicator,
    FaultKind.KILL_SPARK_JVM: _start_replicator,
    FaultKind.FREEZE_REPLICATOR: lambda _, stage: lab_faults.resume(stage.replicators),
    FaultKind.CUT_LINK: _to_links(lambda link, _: link.heal()),
    FaultKind.CUT_ANSWERS: _to_links(lambda link, _: link.heal()),
    FaultKind.RESET_LINK: _to_links(lambda link, _: link.heal()),
    FaultKind.SLOW_LINK: _to_links(lambda link, _: link.set(delay_ms=0.0, bandwidth=None)),
    FaultKind.FILL_DISK: _make_room,
    FaultKind.JOIN_GROUP: _leave_group,
    FaultKind.START_PRODUCER: _stop_producer,
}
