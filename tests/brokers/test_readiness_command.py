"""`mirror readiness` on two real clusters with authorizers: ready, each kind of difference, rights that lack, no source."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.acls import create_acls, delete_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, GroupPosition, NewTopic
from mirror.kafka.users import alter_client_quotas, scram_users
from mirror.lab import clusters, processes
from mirror.lab.brokers import EmbeddedCluster
from mirror.lab.processes import ManagedProcess
from mirror.model.acl import EVERYBODY, Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import FACTORS, in_process, mirror, status_of
from tests.positions import write_positions

pytestmark = pytest.mark.long

ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP, COPY = "orders", "billing", "east.orders"
FLOW = f"""
east->west.enabled = true
east->west.topics = {TOPIC}
east->west.groups.exclude = audit
sync.group.offsets.enabled = true
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.groups.interval.seconds = 1
mirror.epoch.seconds = 2
{FACTORS}"""


@dataclass
class Stage:
    """Two secured clusters, connections to them as a super user, and the file of a flow between them."""

    lab: dict[str, EmbeddedCluster]
    east: Cluster
    west: Cluster
    file: Path

    def readiness(self, *options: str, file: Path | None = None) -> tuple[int, dict[str, Any]]:
        """Return the exit code and what the command says."""
        done = in_process("readiness", str(file or self.file), "--flow", "east->west", "--json", *options)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def start(self, directory: Path) -> ManagedProcess:
        """Start an engine, and return when it has reported an epoch."""
        argv = [sys.executable, "-m", "mirror", "run", str(self.file)]
        engine = processes.start(directory, "engine", argv, owner_pid=os.getpid())

        def state() -> str:
            return str(status_of(self.file)[0]["state"])

        wait_until(state, "the flow", timeout_seconds=120, until=lambda state: state == "RUNNING")
        return engine


def rules(found: dict[str, Any], impact: str | None = None) -> set[str]:
    return {each["rule"] for each in found["differences"] if impact in (None, each["class"])}


def about(found: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [each for each in found["differences"] if each["rule"] == rule]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("readiness")
    lab = clusters.up(directory, ["east", "west"], owner_pid=os.getpid(), secured=["east", "west"])
    found = {alias: one for alias, one in lab.clusters.items() if isinstance(one, EmbeddedCluster)}
    file = directory / "mirror.properties"
    addresses = "".join(f"{alias}.bootstrap.servers = {one.bootstrap_servers}\n" for alias, one in found.items())
    file.write_text(f"clusters = east, west\n{addresses}{FLOW}")
    settings = {
        alias: ClusterSettings(alias, {"bootstrap.servers": one.bootstrap_servers}) for alias, one in found.items()
    }
    with Cluster.connect(settings["east"]) as east, Cluster.connect(settings["west"]) as west:
        yield Stage(found, east, west, file)
    clusters.down(directory, discard_data=True)


@pytest.fixture(scope="module")
def copied(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Clusters between which a flow has run, and that were looked at before it did and while it did."""
    stage.east.create_topics([NewTopic(TOPIC, 2, 1)])
    producer = confluent_kafka.Producer({"bootstrap.servers": stage.lab["east"].bootstrap_servers})
    for number in range(100):
        producer.produce(TOPIC, b"%d" % number, partition=number % 2)
    producer.flush()
    write_positions(stage.east, GROUP, {TopicPartition(TOPIC, 0): GroupPosition(20)})
    code, before = stage.readiness()
    assert (code, before["verdict"]) == (1, "FAIL")
    assert {"not-copying", "copy-missing", "own-topic-missing"} <= rules(before, "blocks")
    # To look is not to touch: not one topic was made by it.
    assert stage.west.topics(include_internal=True) == {}
    (own,) = about(before, "own-topic-missing")
    assert f"--create --topic {TOPIC} " in own["mend"]

    stage.west.create_topics([NewTopic(TOPIC, 2, 1)])
    engine = stage.start(tmp_path_factory.mktemp("engine"))

    def ready() -> tuple[int, dict[str, Any]]:
        return stage.readiness()

    # What is not copied yet is no difference before it is older than the RPO.
    def has_copied_all(told: tuple[int, dict[str, Any]]) -> bool:
        return told[0] == 0 and told[1]["would_lose"]["records"] == 0

    _, found = wait_until(ready, "readiness", timeout_seconds=180, until=has_copied_all)
    assert (found["verdict"], found["would_read_again"]) == ("PASS", 0)
    assert rules(found, "blocks") | rules(found, "loses") == set()
    # One broker a side: what has one replica is no worse than it was.
    assert "single-replica" in rules(found, "degrades")
    assert found["score"] >= 65
    told = mirror("readiness", str(stage.file))
    assert told.returncode == 0
    assert "Ready: nothing is known that would block a failover" in " ".join(told.stdout.split())
    assert max(map(len, told.stdout.split("To mend them")[0].splitlines())) <= 80
    assert engine.terminate(60)
    return stage


def test_a_flow_that_does_not_run_and_each_kind_of_difference(copied: Stage) -> None:
    east, west = copied.east, copied.west
    # What blocks, loses, duplicates, degrades and is cosmetic, all at once.
    writes = Acl(Resource.TOPIC, Pattern.LITERAL, TOPIC, "User:ann", "*", Operation.WRITE, ALLOW)
    reads = Acl(Resource.GROUP, Pattern.LITERAL, GROUP, "User:ann", "*", Operation.READ, ALLOW)
    fence = Acl(Resource.TOPIC, Pattern.LITERAL, "*", EVERYBODY, "*", Operation.WRITE, DENY)
    quota = QuotaKey((("user", "ann"),), "producer_byte_rate")
    assert set(create_acls(east, [writes, reads]).values()) == {None}
    assert set(create_acls(west, [fence]).values()) == {None}
    assert set(alter_client_quotas(east, {quota: 100_000.0}).values()) == {None}
    users.add_user(copied.lab["east"].bootstrap_servers, "ann", "secret")
    west.alter_configs(
        {COPY: ConfigChange({"retention.ms": "1000000", "max.message.bytes": "1000", "index.interval.bytes": "8192"})}
    )
    east.create_topics([NewTopic("_schemas", 1, 1), NewTopic("audits", 1, 1)])
    write_positions(east, "audit", {TopicPartition(TOPIC, 1): GroupPosition(5)})
    write_positions(east, GROUP, {TopicPartition(TOPIC, 0): GroupPosition(33)})
    wanted = {
        "blocks": {"not-copying", "rights", "fenced", "takes-less"},
        "loses": {"keeps-less", "framework-topics", "group-left-out"},
        "duplicates": {"read-again"},
        "degrades": {"quotas", "logins", "topics-left-out", "single-replica"},
        "cosmetic": {"other-settings"},
    }

    def seeded() -> dict[str, Any]:
        return copied.readiness()[1]

    def has_all(found: dict[str, Any]) -> bool:
        return all(names <= rules(found, impact) for impact, names in wanted.items())

    found = wait_until(seeded, "all differences", timeout_seconds=30, until=has_all)
    assert found["verdict"] == "FAIL"
    assert found["would_read_again"] == 13
    order = [each["class"] for each in found["differences"]]
    assert order == sorted(order, key=["blocks", "loses", "duplicates", "degrades", "cosmetic"].index)
    mends = {each["mend"] for each in about(found, "rights")}
    assert any(f"--operation Write --topic '{TOPIC}'" in mend for mend in mends)
    assert any(f"--operation Read --group '{GROUP}'" in mend for mend in mends)
    text = mirror("readiness", str(copied.file))
    assert text.returncode == 1
    assert "Not ready:" in text.stdout
    assert max(map(len, text.stdout.split("To mend them")[0].splitlines())) <= 80

    # Mended as it says, they are gone.
    assert set(delete_acls(west, [fence]).values()) == {None}
    assert set(create_acls(west, [writes, reads]).values()) == {None}
    west.alter_configs({COPY: ConfigChange(delete=("retention.ms", "max.message.bytes", "index.interval.bytes"))})
    gone = {"rights", "fenced", "takes-less", "keeps-less", "other-settings"}
    wait_until(seeded, "none of these", timeout_seconds=30, until=lambda found: not gone & rules(found))


def test_what_may_not_be_looked_at_is_told_with_the_right_and_never_ready(
    copied: Stage, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    user = unique("auditor")
    west = copied.lab["west"]
    users.add_user(west.bootstrap_servers, user, "secret")
    wait_until(lambda: user in scram_users(copied.west), "the user", timeout_seconds=60)
    sees = [
        Acl(Resource.TOPIC, Pattern.LITERAL, "*", f"User:{user}", "*", Operation.READ, ALLOW),
        Acl(Resource.GROUP, Pattern.LITERAL, "*", f"User:{user}", "*", Operation.DESCRIBE, ALLOW),
    ]
    assert set(create_acls(copied.west, sees).values()) == {None}
    client = users.client_properties(west.secured_servers, user, "secret")
    lines = "".join(f"west.{key} = {value}\n" for key, value in client.items())
    file = tmp_path / "mirror.properties"
    east = f"east.bootstrap.servers = {copied.lab['east'].bootstrap_servers}\n"
    file.write_text(f"clusters = east, west\n{east}{lines}{FLOW}")

    def told() -> dict[str, Any]:
        done = in_process("readiness", str(file), "--flow", "east->west", "--json")
        assert done.returncode == 1
        return dict(json.loads(done.stdout or "{}"))

    def unseen(found: dict[str, Any]) -> list[str]:
        return [f"{each['what']} / {each['mend']}" for each in found.get("differences", ()) if not each["looked_at"]]

    expected = {
        "the settings of topics of west": "grant DescribeConfigs on the topics on west",
        "the settings of the brokers of west": "grant DescribeConfigs on the cluster on west",
        "the ACLs of west": "grant Describe on the cluster on west",
        "the SCRAM users of west": "grant Describe on the cluster on west",
        "the client quotas of west": "grant DescribeConfigs on the cluster on west",
    }

    def complete(found: dict[str, Any]) -> bool:
        return all(any(what in each and mend in each for each in unseen(found)) for what, mend in expected.items())

    found = wait_until(told, "what is not looked at", timeout_seconds=30, until=complete)
    assert found["verdict"] != "PASS"
    # What may be looked at is judged all the same.
    assert "not-copying" in rules(found, "blocks")
    # With the rights that it names it sees all.
    named = [(Resource.CLUSTER, "kafka-cluster", Operation.DESCRIBE)]
    named += [(Resource.CLUSTER, "kafka-cluster", Operation.DESCRIBE_CONFIGS)]
    named += [(Resource.TOPIC, "*", Operation.DESCRIBE_CONFIGS)]
    more = [Acl(kind, Pattern.LITERAL, name, f"User:{user}", "*", operation, ALLOW) for kind, name, operation in named]
    assert set(create_acls(copied.west, more).values()) == {None}
    wait_until(lambda: unseen(told()), "nothing left", timeout_seconds=30, until=lambda left: left == [])
    delete_acls(copied.west, [*sees, *more])


def test_without_the_source_what_needs_only_the_target_is_judged(copied: Stage) -> None:
    """The last test of this module: it leaves no source."""
    copied.west.delete_topics([TOPIC])
    wait_until(lambda: TOPIC not in copied.west.topics(), "no topic", timeout_seconds=60)
    copied.lab["east"].kill()
    code, found = copied.readiness()
    assert (code, found["verdict"]) == (1, "FAIL")
    (away,) = [each for each in found["differences"] if not each["looked_at"] and "all of east" in each["what"]]
    assert away["class"] == "blocks"
    assert {"not-copying", "own-topic-missing"} <= rules(found, "blocks")
    assert found["would_lose"] == {"records": None, "seconds": None}
    copied.lab["west"].kill()
    code, found = copied.readiness()
    assert code == 1
    assert rules(found, "blocks") >= {"target-away"}
