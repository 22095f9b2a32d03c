"""What a source hides from the file's user is not nothing: a copied topic is fenced all the same, a group named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.groups import recorder
from mirror.kafka.acls import AclListing, create_acls, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import LogWriter
from mirror.lab import clusters
from mirror.lab.brokers import EmbeddedCluster
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.recovery.fence import denial
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import FACTORS, mirror
from tests.brokers.copying import write
from tests.brokers.on_record import RECORDS, copied
from tests.positions import write_positions

SHOWN, HIDDEN, USER = TopicPartition("orders", 0), TopicPartition("bills", 0), "operator"
SEEN, UNSEEN = "billing", "audit"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EmbeddedCluster]]:
    directory, aliases = tmp_path_factory.mktemp("clusters"), ["east", "west"]
    lab = clusters.up(directory, aliases, owner_pid=os.getpid(), secured=["east"])
    yield {alias: each for alias, each in lab.clusters.items() if isinstance(each, EmbeddedCluster)}
    clusters.down(directory, discard_data=True)


@pytest.fixture(scope="module")
def flow(sites: dict[str, EmbeddedCluster], tmp_path_factory: pytest.TempPathFactory) -> FlowSettings:
    """What was copied of both topics, and two groups that have read half of the one."""
    usual = {"bootstrap.servers": sites["east"].bootstrap_servers}
    file = properties(tmp_path_factory.mktemp("all") / "mirror.properties", sites, usual)
    (made,) = load(file).enabled_flows
    with Cluster.connect(ClusterSettings("east", usual)) as east:
        assert not [
            each.problem
            for each in east.create_topics([NewTopic(one.topic, 1, 1) for one in (SHOWN, HIDDEN)])
            if each.problem
        ]
        for each in (SHOWN, HIDDEN):
            write(usual, each, range(RECORDS))
        for group in (SEEN, UNSEEN):
            assert not [
                each.problem for each in write_positions(east, group, {SHOWN: GroupPosition(6)}) if each.problem
            ]
    west = ClusterSettings("west", {"bootstrap.servers": sites["west"].bootstrap_servers})
    with Cluster.connect(west) as admin, closing(LogWriter(made.target_producer, alias="west")) as writer:
        copied(admin, made, SHOWN, [SEEN, UNSEEN])
        recorder(made, writer)([Position(RECORDS, RECORDS, 0, True).record(HIDDEN)])
    return made


def properties(path: Path, sites: dict[str, EmbeddedCluster], east: dict[str, str]) -> Path:
    lines = ["clusters = east, west", f"west.bootstrap.servers = {sites['west'].bootstrap_servers}"]
    lines += [f"east.{key} = {value}" for key, value in east.items()]
    lines += ["east->west.enabled = true", "topics = orders, bills", FACTORS]
    path.write_text("\n".join(lines))
    return path


def user_with(
    sites: dict[str, EmbeddedCluster], path: Path, name: str, *rights: tuple[Resource, str, Operation]
) -> Path:
    """Have a user with these rights on the source; return a file with its login."""
    usual = sites["east"].bootstrap_servers
    users.add_user(usual, name, "secret")
    acls = [
        Acl(resource, Pattern.LITERAL, what, f"User:{name}", "*", operation, Permission.ALLOW)
        for resource, what, operation in rights
    ]
    with Cluster.connect(ClusterSettings("east", {"bootstrap.servers": usual})) as admin:
        assert set(create_acls(admin, acls).values()) == {None}
        wait_until(lambda: set(acls) <= denied_or_not(admin), "the rights", timeout_seconds=60)
    return properties(path, sites, users.client_properties(sites["east"].secured_servers, name, "secret"))


def denied_or_not(admin: Cluster) -> frozenset[Acl]:
    found = describe_acls(admin, [Resource.TOPIC, Resource.GROUP, Resource.CLUSTER])
    assert isinstance(found, AclListing)
    return frozenset(found.acls)


def command(what: str, file: Path, *options: str) -> tuple[int, Any, str]:
    done = mirror(what, str(file), "--flow", "east->west", "--json", *options, timeout_seconds=400)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_a_hidden_state_of_the_flow_back_refuses_a_planned_failover_and_is_a_note_of_the_plan(
    sites: dict[str, EmbeddedCluster], flow: FlowSettings, tmp_path: Path
) -> None:
    topics = [
        (Resource.TOPIC, each.topic, operation)
        for each in (SHOWN, HIDDEN)
        for operation in (Operation.READ, Operation.DESCRIBE_CONFIGS)
    ]
    group, file = (Resource.GROUP, "*", Operation.DESCRIBE), tmp_path / "mirror.properties"
    user_with(sites, file, "planner", group, *topics)
    planned = json.loads(mirror("plan", str(file), "--json").stdout)["flows"][0]
    said = [each for each in planned["notes"] if "mm2-state.west.internal is not shown there: " in each]
    assert len(said) == 1, planned
    file.write_text(f"{file.read_text()}\nwest->east.enabled = true\n")
    code, _, why = command("failover", file, "--mode", "planned", "--dry-run")
    assert code == 2, why
    assert "whether west->east is failed over, or writes to east, is not known: east: " in why


def test_a_copied_topic_that_the_source_hides_is_denied_and_that_is_no_pass(
    sites: dict[str, EmbeddedCluster], flow: FlowSettings, tmp_path: Path
) -> None:
    alter = Resource.CLUSTER, "kafka-cluster", Operation.ALTER
    rights = [(Resource.TOPIC, SHOWN.topic, each) for each in (Operation.READ, Operation.DESCRIBE)]
    groups = Resource.GROUP, "*", Operation.DESCRIBE
    file = user_with(sites, tmp_path / "mirror.properties", "fencer", alter, groups, *rights)
    code, found, said = command(
        "failover", file, "--mode", "cut-off", "--fence", "--yes", "--run-directory", str(tmp_path / "run")
    )
    steps = {each["name"]: each for each in found["steps"]}
    assert "plan" not in steps, (steps["plan"], said)
    assert steps["deny writes"]["verdict"] == "UNKNOWN", (code, found, said)
    assert "bills is not shown (grant Describe on it)" in steps["deny writes"]["detail"]
    assert steps["positions"]["verdict"] == "UNKNOWN"
    assert "whether a flow to east has put groups there" in steps["positions"]["detail"]
    with Cluster.connect(ClusterSettings("east", {"bootstrap.servers": sites["east"].bootstrap_servers})) as admin:
        assert {denial(SHOWN.topic), denial(HIDDEN.topic)} <= denied_or_not(admin)


def test_a_group_that_the_source_hides_is_named_and_not_left_out(
    sites: dict[str, EmbeddedCluster], flow: FlowSettings, tmp_path: Path
) -> None:
    topics = [(Resource.TOPIC, each.topic, Operation.DESCRIBE) for each in (SHOWN, HIDDEN)]
    file = user_with(
        sites, tmp_path / "mirror.properties", "mover", (Resource.GROUP, SEEN, Operation.DESCRIBE), *topics
    )
    code, found, said = command("offsets", file)
    assert (code, [each["group"] for each in found]) == (1, [SEEN]), said
    assert f"group {UNSEEN} on east: it is not listed, and has a checkpoint: " in " ".join(said.split())
    code, found, said = command("groups", file, "--dry-run")
    assert code == 1, (found, said)
    assert "authorization" in f"{json.dumps(found)}{said}".lower()
