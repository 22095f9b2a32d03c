"""Copies with the source's offsets on a cluster that looks up who may do what: each right that lacks is named."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka import codes
from mirror.kafka.acls import create_acls, delete_acls
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.kafka.users import scram_users
from mirror.lab import clusters, processes
from mirror.lab.brokers import EmbeddedCluster
from mirror.lab.processes import ManagedProcess
from mirror.model import flow as model
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import FACTORS, mirror, status_of
from tests.brokers.copying import can_tell, delete_records, ends_of, leave_marker, write
from tests.brokers.same_offsets_engines import deleted_and_created_anew
from tests.brokers.same_offsets_killed import read
from tests.brokers.same_offsets_late import late_append

pytestmark = pytest.mark.long

PATIENCE_SECONDS = 180


@pytest.fixture
def safe(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """A cluster with an authorizer."""
    lab = clusters.up(tmp_path / "safe", ["safe"], owner_pid=os.getpid(), secured=["safe"])
    (found,) = lab.clusters.values()
    assert isinstance(found, EmbeddedCluster)
    yield found
    clusters.down(tmp_path / "safe", discard_data=True)


def acl(permission: Permission, operation: Operation, resource: Resource, name: str, pattern: Pattern) -> Acl:
    return Acl(resource, pattern, name, "User:mirror", "*", operation, permission)


@dataclass
class Flow:
    """A flow of one topic to a cluster that looks up who may do what; ``free`` may do everything there."""

    file: Path
    source: dict[str, str]
    orders: TopicPartition
    free: dict[str, str]
    target: Cluster
    engine: ManagedProcess | None = None

    @property
    def copy(self) -> TopicPartition:
        return TopicPartition(f"{self.alias}.{self.orders.topic}", 0)

    @property
    def alias(self) -> str:
        return self.file.parent.name

    def start(self) -> ManagedProcess:
        argv = [sys.executable, "-m", "mirror", "run", str(self.file)]
        self.engine = processes.start(self.file.parent, "engine", argv, owner_pid=os.getpid())
        return self.engine

    def planned(self) -> tuple[int, str]:
        """The plan's exit code, and what it says."""
        done = mirror("plan", str(self.file))
        return done.returncode, " ".join(done.stdout.split())

    def await_reason(self, *said: str) -> None:
        def told() -> dict[str, Any]:
            (found,) = status_of(self.file)
            return found

        assert self.engine is not None
        wait_until(
            told,
            f"a reason with {said}; the engine said {self.engine.log_tail(5)}",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda found: any(all(each in why for each in said) for why in found["reasons"]),
        )

    def await_end(self, end: int) -> None:
        def found() -> int:
            return ends_of(self.free, [self.copy])[self.copy] if can_tell(self.free, [self.copy]) else -1

        wait_until(found, "the copy", timeout_seconds=PATIENCE_SECONDS, until=lambda at: at == end)


@pytest.fixture
def flow(
    safe: EmbeddedCluster,
    east: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[Flow]:
    alias, orders = unique("shop").replace("-", ""), TopicPartition(unique("orders"), 0)
    client = dict(settings_of("east").client)
    east.create_topics([NewTopic(orders.topic, 1, 1)])
    free = {"bootstrap.servers": safe.bootstrap_servers}
    users.add_user(safe.bootstrap_servers, "mirror", "secret")
    login = users.client_properties(safe.secured_servers, "mirror", "secret")
    (tmp_path / alias).mkdir()
    file = tmp_path / alias / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, safe\n{alias}.bootstrap.servers = {client['bootstrap.servers']}\n"
        + "".join(f"safe.{key} = {value}\n" for key, value in login.items())
        + f"{alias}->safe.enabled = true\ntopics = {orders.topic}\nmirror.offsets = same\n{FACTORS}"
    )
    with Cluster.connect(ClusterSettings("safe", free)) as target:
        wait_until(lambda: "mirror" in scram_users(target), "the user", timeout_seconds=60)
        made = Flow(file, client, orders, free, target)
        try:
            yield made
        finally:
            if made.engine is not None:
                made.engine.kill()


def test_each_right_that_lacks_is_named_and_the_copy_goes_on_once_it_is_granted(
    flow: Flow, unique: Callable[[str], str]
) -> None:
    """A head that is to be padded and removed, and the marker of a transaction in the middle."""
    write(flow.source, flow.orders, range(10))
    delete_records(flow.source, flow.orders, 5)
    leave_marker(flow.source, flow.orders, unique("writer"))
    write(flow.source, flow.orders, range(11, 13))
    usual = acl(Permission.ALLOW, Operation.ALL, Resource.TOPIC, "*", Pattern.LITERAL)
    no_delete = acl(Permission.DENY, Operation.DELETE, Resource.TOPIC, flow.copy.topic, Pattern.LITERAL)
    ids = acl(Permission.ALLOW, Operation.ALL, Resource.TRANSACTIONAL_ID, "*", Pattern.LITERAL)
    assert set(create_acls(flow.target, [usual, no_delete]).values()) == {None}

    (code, planned), problem = flow.planned(), f"denies the transactional id mm2-offsets.{flow.alias}"
    assert (code, problem in planned) == (1, True)
    assert f"Write and Describe on the transactional id mm2-offsets.{flow.alias}.internal.safe" in planned
    assert "and Delete on the copies whose head is padded" in planned

    engine = flow.start()
    flow.await_reason(str(flow.orders), "Write", "transactional id")
    assert set(create_acls(flow.target, [ids]).values()) == {None}
    assert problem not in flow.planned()[1]
    flow.await_reason(str(flow.orders), "Delete")
    assert set(delete_acls(flow.target, [no_delete]).values()) == {None}
    flow.await_end(13)
    assert engine.terminate(60)
    assert read(flow.free, flow.copy, "read_uncommitted") == read(flow.source, flow.orders, "read_uncommitted")


def test_the_rights_to_make_a_copy_anew_are_named_before_they_are_needed_and_without_them_nothing_is_gone(
    flow: Flow, east: Cluster
) -> None:
    write(flow.source, flow.orders, range(10))
    flow.file.write_text(flow.file.read_text() + "mirror.offsets.recreated = make-anew\n")
    usual = [
        acl(Permission.ALLOW, Operation.ALL, resource, "*", Pattern.LITERAL)
        for resource in (Resource.TOPIC, Resource.TRANSACTIONAL_ID)
    ]
    assert set(create_acls(flow.target, usual).values()) == {None}
    engine = flow.start()
    flow.await_end(10)
    assert "cannot be made anew" not in flow.planned()[1]

    lacks = [
        acl(Permission.DENY, each, Resource.TOPIC, flow.copy.topic, Pattern.LITERAL)
        for each in (Operation.ALTER_CONFIGS, Operation.DELETE)
    ]
    assert set(create_acls(flow.target, lacks).values()) == {None}
    code, planned = flow.planned()
    assert code == 1
    assert f"{flow.copy.topic} on safe cannot be made anew" in planned
    assert "needs AlterConfigs and Delete on the topic" in planned
    assert "AlterConfigs, Delete and Create on the copies" in planned

    former = flow.target.topics([flow.copy.topic])[flow.copy.topic].topic_id
    deleted_and_created_anew(east, flow.orders.topic, 1)
    write(flow.source, flow.orders, range(7))
    flow.await_reason(flow.copy.topic, "needs AlterConfigs and Delete on the topic")
    assert set(delete_acls(flow.target, lacks[:1]).values()) == {None}
    flow.await_reason(f"{flow.copy.topic} on safe is not deleted to be made anew: needs Delete on the topic")
    assert flow.target.topics([flow.copy.topic])[flow.copy.topic].topic_id == former
    assert json.loads(mirror("gaps", str(flow.file), "--json").stdout) == []

    assert set(delete_acls(flow.target, lacks[1:]).values()) == {None}
    flow.await_end(7)
    assert engine.terminate(60)
    assert read(flow.free, flow.copy, "read_uncommitted") == read(flow.source, flow.orders, "read_uncommitted")
    (gap,) = json.loads(mirror("gaps", str(flow.file), "--json").stdout)
    assert (gap["from"], gap["to"], gap["kind"]) == (0, 10, "recreated")


def test_what_a_killed_engine_had_sent_is_refused_once_the_right_that_the_status_asks_for_is_granted(
    flow: Flow,
) -> None:
    """By then a translated record is on record: its position no longer tells that the copy had the source's offsets."""
    usual = [
        acl(Permission.ALLOW, Operation.ALL, resource, "*", Pattern.LITERAL)
        for resource in (Resource.TOPIC, Resource.TRANSACTIONAL_ID)
    ]
    assert set(create_acls(flow.target, usual).values()) == {None}

    def await_records(count: int) -> None:
        wait_until(
            lambda: len(read(flow.free, flow.copy, "read_uncommitted")) if can_tell(flow.free, [flow.copy]) else 0,
            f"{count} records",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda found: found >= count,
        )

    def asks_for_alter() -> bool:
        (told,) = status_of(flow.file)
        return any("grant Alter on the cluster" in each for each in told["notes"])

    write(flow.source, flow.orders, range(10))
    engine = flow.start()
    flow.await_end(10)
    engine.kill()
    late = late_append(flow.free, model.Flow(flow.alias, "safe"), flow.target, flow.copy, b"value 10")
    flow.file.write_text(flow.file.read_text().replace("mirror.offsets = same", "mirror.offsets = translated"))
    write(flow.source, flow.orders, [10])
    engine = flow.start()
    await_records(11)
    wait_until(asks_for_alter, "the note", timeout_seconds=PATIENCE_SECONDS)
    assert engine.terminate(60)
    alter = acl(Permission.ALLOW, Operation.ALTER, Resource.CLUSTER, "kafka-cluster", Pattern.LITERAL)
    assert set(create_acls(flow.target, [alter]).values()) == {None}
    flow.start()
    write(flow.source, flow.orders, [11])
    await_records(12)
    assert late() == codes.INVALID_PRODUCER_EPOCH
    assert not asks_for_alter()
