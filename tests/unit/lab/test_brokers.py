"""What an embedded cluster is made of, before any process runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.lab import brokers, runtime
from mirror.lab.brokers import ClusterLayout, EmbeddedCluster, Node
from mirror.lab.java import Java
from mirror.lab.runtime import KafkaRuntime

RUNTIME = KafkaRuntime(Java(Path("/j/java"), "17"), Path("/jars"))


def layout(count: int) -> ClusterLayout:
    """Lay out a cluster on ports from 20001 on."""
    return brokers.plan_layout("east", "id", range(20_001, 20_001 + 2 * count), count)


def no_runtime() -> KafkaRuntime:
    raise AssertionError("looking needs no Java")


@pytest.mark.parametrize(("count", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3)])
def test_three_brokers_vote_or_one(count: int, voters: int) -> None:
    nodes = layout(count).nodes

    assert [node.node_id for node in nodes] == list(range(1, count + 1))
    assert sum(node.controller_port is not None for node in nodes) == voters
    ports = [port for node in nodes for port in (node.port, node.controller_port) if port is not None]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize(("count", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_replication_fits_the_number_of_brokers(count: int, replicas: int, in_sync: int) -> None:
    cluster = layout(count)
    properties = brokers.node_properties(cluster, cluster.nodes[0], Path("/data"))

    for key in ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert properties[f"{key}.replication.factor"] == str(replicas)
    for key in ("min.insync.replicas", "transaction.state.log.min.isr"):
        assert properties[key] == str(in_sync)


def test_a_voter_listens_for_controllers_and_a_broker_without_a_vote_does_not() -> None:
    cluster = layout(2)
    voter, other = (brokers.node_properties(cluster, node, Path("/data")) for node in cluster.nodes)

    assert voter["process.roles"] == "broker,controller"
    assert voter["listeners"] == "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:20002"
    assert other["process.roles"] == "broker"
    assert other["listeners"] == "PLAINTEXT://127.0.0.1:20003"
    assert voter["controller.quorum.voters"] == other["controller.quorum.voters"] == "1@127.0.0.1:20002"


def test_who_comes_through_a_link_is_sent_back_through_it() -> None:
    cluster = brokers.plan_layout("east", "id", range(20_001, 20_006), 1, linked=True)
    properties = brokers.node_properties(cluster, cluster.nodes[0], Path("/data"))
    (broker,) = EmbeddedCluster.at(Path("/lab/east"), cluster, no_runtime).brokers

    assert properties["listeners"].endswith("LINK://127.0.0.1:20005,CONTROLLER://127.0.0.1:20002")
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20001,LINK://127.0.0.1:20003"
    assert properties["listener.security.protocol.map"].count("LINK:PLAINTEXT") == 1
    assert broker.link is not None
    assert (broker.link.address, broker.link.target) == ("127.0.0.1:20003", "127.0.0.1:20005")


def test_the_brokers_of_a_secured_cluster_look_up_who_may_do_what_and_others_do_not() -> None:
    cluster = brokers.plan_layout("east", "id", range(20_001, 20_004), 1, secured=True)
    properties = brokers.node_properties(cluster, cluster.nodes[0], Path("/data"))

    assert properties["authorizer.class.name"].endswith(".StandardAuthorizer")
    assert "SECURED://127.0.0.1:20003" in properties["listeners"]
    assert "SECURED:SASL_PLAINTEXT" in properties["listener.security.protocol.map"]
    assert EmbeddedCluster.at(Path("/lab/east"), cluster, no_runtime).secured_servers == "127.0.0.1:20003"
    assert "authorizer.class.name" not in brokers.node_properties(layout(1), layout(1).nodes[0], Path("/data"))


def test_topics_are_never_made_by_accident() -> None:
    assert brokers.node_properties(layout(1), layout(1).nodes[0], Path("/d"))["auto.create.topics.enable"] == "false"


def test_cluster_ids_differ_and_have_kafkas_form() -> None:
    ids = {brokers.new_cluster_id() for _ in range(200)}

    assert len(ids) == 200
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)


def test_looking_at_a_cluster_needs_no_java(tmp_path: Path) -> None:
    cluster = EmbeddedCluster.at(tmp_path / "east", layout(2), no_runtime)

    assert cluster.bootstrap_servers == "127.0.0.1:20001,127.0.0.1:20003"
    assert not cluster.is_alive()
    assert cluster.shut_down() == ()
    cluster.kill()
    cluster.discard()


def test_properties_are_rendered_as_java_reads_them() -> None:
    assert brokers.render_properties({"a": "1", "log.dirs": "C:\\x"}) == "a=1\nlog.dirs=C:\\\\x\n"


def test_a_command_line_holds_heap_archive_and_logging() -> None:
    archived = KafkaRuntime(RUNTIME.java, RUNTIME.jars, Path("/a.jsa"), ("-Dx=y",))

    plain = RUNTIME.command("main.Class", ["argument"], heap_megabytes=128, temporary_files=Path("/f"))
    command = archived.command("main.Class", [], heap_megabytes=128, temporary_files=Path("/f"), log_level="INFO")

    assert plain[0] == "/j/java"
    assert plain[-4:] == ["-cp", "/jars/*", "main.Class", "argument"]
    assert not any("SharedArchiveFile" in item for item in plain)
    assert "-Djava.io.tmpdir=/f" in plain
    assert {"-Xmx128m", "-XX:SharedArchiveFile=/a.jsa", "-Dx=y", "-Dmirror.log.level=INFO"} <= set(command)
    assert Path(runtime.__file__).with_name("log4j2.xml").exists()


def test_a_node_without_a_vote_keeps_its_address() -> None:
    assert Node(2, 20_003, None).address == "127.0.0.1:20003"


def test_what_is_over_within_minutes_is_compiled_by_the_first_compiler_alone() -> None:
    assert "-XX:TieredStopAtLevel=1" in RUNTIME.brief().command(
        "main.Class", [], heap_megabytes=128, temporary_files=Path("/f")
    )
    assert "-XX:TieredStopAtLevel=1" not in RUNTIME.command(
        "main.Class", [], heap_megabytes=128, temporary_files=Path("/f")
    )
