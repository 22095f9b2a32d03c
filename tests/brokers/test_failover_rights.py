"""`mirror failover` by a user whose rights on the target do not reach: told which, and nothing is half done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.kafka.acls import AclListing, create_acls, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.lab import clusters
from mirror.lab.clusters import EmbeddedCluster
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import FACTORS, mirror
from tests.brokers.on_record import copied

ORDERS, COPY, USER = TopicPartition("orders", 0), TopicPartition("shop.orders", 0), "operator"
GROUP, OTHER = "billing", "audit"


@pytest.fixture
def west(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """A target with an authorizer, on which nobody has a right yet but at the usual addresses."""
    directory = tmp_path / "west"
    found = clusters.up(directory, ["west"], owner_pid=os.getpid(), secured=["west"]).clusters["west"]
    assert isinstance(found, EmbeddedCluster)
    yield found
    clusters.down(directory, discard_data=True)


def grant(admin: Cluster, resource: Resource, *operations: Operation, name: str = "*") -> None:
    acls = [Acl(resource, Pattern.LITERAL, name, f"User:{USER}", "*", each, Permission.ALLOW) for each in operations]
    assert set(create_acls(admin, acls).values()) == {None}

    def known() -> bool:
        listing = describe_acls(admin, (resource,))
        return isinstance(listing, AclListing) and set(acls) <= listing.acls

    wait_until(known, "the rights", timeout_seconds=60)


def properties(path: Path, target: dict[str, str]) -> Path:
    """Write a file in which the source, long gone, is behind a port on which nobody listens."""
    lines = ["clusters = shop, west", "shop.bootstrap.servers = 127.0.0.1:1", "shop->west.enabled = true"]
    lines += [f"west.{key} = {value}" for key, value in target.items()]
    path.write_text("\n".join(lines) + "\ntopics = orders\n" + FACTORS)
    return path


@pytest.mark.long
def test_what_a_user_may_not_do_on_the_target_is_named_and_can_be_taken_back(
    west: EmbeddedCluster, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    settings = load(properties(tmp_path / "all.properties", {"bootstrap.servers": west.bootstrap_servers}))
    (flow,) = settings.enabled_flows
    users.add_user(west.bootstrap_servers, USER, "secret")
    file = properties(tmp_path / "user.properties", users.client_properties(west.secured_servers, USER, "secret"))
    run = tmp_path / "run"

    def failover(*options: str) -> tuple[int, Any]:
        argv = ("--flow", "shop->west", "--yes", "--json", "--run-directory", str(run), *options)
        done = mirror("failover", str(file), *argv, timeout_seconds=200)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    with Cluster.connect(ClusterSettings("west", {"bootstrap.servers": west.bootstrap_servers})) as admin:
        assert copied(admin, flow, ORDERS, [GROUP, OTHER]) == COPY

        grant(admin, Resource.TOPIC, Operation.READ, Operation.DESCRIBE)
        grant(admin, Resource.CLUSTER, Operation.DESCRIBE, name="kafka-cluster")
        code, found = failover()
        assert (code, found["steps"][-1]["name"]) == (1, "plan"), found
        assert f"group {GROUP}" in found["steps"][-1]["detail"]
        assert "authorization" in found["steps"][-1]["detail"].lower()
        assert not run.exists()

        grant(admin, Resource.GROUP, Operation.DESCRIBE)
        code, found = failover()
        assert (code, [each["name"] for each in found["steps"]]) == (1, ["detect", "begin"]), found
        assert "authorization" in found["steps"][-1]["detail"].lower()

        grant(admin, Resource.TOPIC, Operation.WRITE)
        code, found = failover()
        assert (code, found["steps"][-1]["name"]) == (1, "groups"), found
        assert f"group {GROUP}" in found["steps"][-1]["detail"]
        assert "authorization" in found["steps"][-1]["detail"].lower()
        assert admin.positions_of_groups([GROUP])[GROUP] == {}

        grant(admin, Resource.GROUP, Operation.READ, Operation.DELETE, name=GROUP)
        code, found = failover()
        assert (code, found["steps"][-1]["name"]) == (1, "groups"), found
        assert f"group {OTHER}" in found["steps"][-1]["detail"]
        assert f"group {GROUP}" not in found["steps"][-1]["detail"]

        code, found = failover("--take-back")
        assert (code, [each["name"] for each in found["steps"]]) == (
            0,
            ["back: groups", "back: cut", "back: stop", "back: begin"],
        )
        assert admin.positions_of_groups([GROUP, OTHER]) == {GROUP: {}, OTHER: {}}

        grant(admin, Resource.GROUP, Operation.READ)
        code, found = failover()
        unseen = [each["name"] for each in found["steps"] if each["verdict"] != "PASS"]
        # No engine has said how far it had copied, so nobody knows that either.
        assert (code, unseen) == (1, ["stop", "cut", "start", "first write", "first reads"]), found
        assert admin.positions_of_groups([GROUP])[GROUP][COPY].position == 4
