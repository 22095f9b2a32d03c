"""Copies with the source's offsets on a cluster that looks up who may do what: each right that lacks is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.acls import create_acls, delete_acls
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.kafka.users import scram_users
from mirror.lab import clusters, processes, users
from mirror.lab.brokers import EmbeddedCluster
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, mirror, status_of
from tests.brokers.copying import delete_records, ends_of, leave_marker, write
from tests.brokers.same_offsets_killed import read

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


def test_each_right_that_lacks_is_named_and_the_copy_goes_on_once_it_is_granted(
    safe: EmbeddedCluster,
    east: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """A head that is to be padded and removed, and the marker of a transaction in the middle."""
    alias, orders = unique("shop").replace("-", ""), TopicPartition(unique("orders"), 0)
    client = dict(settings_of("east").client)
    east.create_topics([NewTopic(orders.topic, 1, 1)])
    write(client, orders, range(10))
    delete_records(client, orders, 5)
    leave_marker(client, orders, unique("writer"))
    write(client, orders, range(11, 13))
    copy = TopicPartition(f"{alias}.{orders.topic}", 0)

    free = {"bootstrap.servers": safe.bootstrap_servers}
    users.add_user(safe.bootstrap_servers, "mirror", "secret")
    login = users.client_properties(safe.secured_servers, "mirror", "secret")
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, safe\n{alias}.bootstrap.servers = {client['bootstrap.servers']}\n"
        + "".join(f"safe.{key} = {value}\n" for key, value in login.items())
        + f"{alias}->safe.enabled = true\ntopics = {orders.topic}\nmirror.offsets = same\n{FACTORS}"
    )
    with Cluster.connect(ClusterSettings("safe", free)) as target:
        wait_until(lambda: "mirror" in scram_users(target), "the user", timeout_seconds=60)
        usual = acl(Permission.ALLOW, Operation.ALL, Resource.TOPIC, "*", Pattern.LITERAL)
        no_delete = acl(Permission.DENY, Operation.DELETE, Resource.TOPIC, copy.topic, Pattern.LITERAL)
        ids = acl(Permission.ALLOW, Operation.ALL, Resource.TRANSACTIONAL_ID, "*", Pattern.LITERAL)
        assert set(create_acls(target, [usual, no_delete]).values()) == {None}

        done = mirror("plan", str(file))
        planned, problem = " ".join(done.stdout.split()), f"denies the transactional id mm2-offsets.{alias}"
        assert (done.returncode, problem in planned) == (1, True)
        assert f"Write and Describe on the transactional id mm2-offsets.{alias}.internal.safe" in planned
        assert "and Delete on the copies whose head is padded" in planned

        engine = processes.start(
            tmp_path, "engine", [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
        )
        try:

            def told() -> dict[str, Any]:
                (found,) = status_of(file)
                return found

            def await_reason(*said: str) -> None:
                wait_until(
                    told,
                    f"a reason with {said}; the engine said {engine.log_tail(5)}",
                    timeout_seconds=PATIENCE_SECONDS,
                    until=lambda found: any(all(each in why for each in said) for why in found["reasons"]),
                )

            await_reason(str(orders), "Write", "transactional id")
            assert set(create_acls(target, [ids]).values()) == {None}
            assert problem not in " ".join(mirror("plan", str(file)).stdout.split())
            await_reason(str(orders), "Delete")
            assert set(delete_acls(target, [no_delete]).values()) == {None}
            wait_until(
                lambda: ends_of(free, [copy])[copy],
                "the copy",
                timeout_seconds=PATIENCE_SECONDS,
                until=lambda end: end == 13,
            )
            assert engine.terminate(60)
        finally:
            engine.kill()
    assert read(free, copy, "read_uncommitted") == read(client, orders, "read_uncommitted")
