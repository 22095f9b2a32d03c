"""`mirror plan` and the start of `mirror run` say what stands in the way, before anything is created."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from mirror.config.resolving import load
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from tests.brokers.command import FACTORS, address, in_process, mirror
from tests.brokers.copying import delete_records, producer_to, write


def write_file(tmp_path: Path, ends: dict[str, str], *lines: str) -> Path:
    """Write a file with a flow that has never run; its keys win over the factors for one broker."""
    file, (source, target) = tmp_path / "mirror.properties", ends
    head = (f"clusters = {source}, {target}", *(f"{alias}.bootstrap.servers = {at}" for alias, at in ends.items()))
    file.write_text("\n".join((*head, f"{source}->{target}.enabled = true", *lines)) + f"\n{FACTORS}")
    return file


def test_one_cluster_under_two_names_is_a_problem_of_the_plan(
    east_west: Lab, unique: Callable[[str], str], tmp_path: Path
) -> None:
    both = address(east_west, "west")
    file = write_file(tmp_path, {unique("shop").replace("-", ""): both, "west": both})
    done = in_process("plan", str(file))
    assert done.returncode == 1, done.stderr
    assert "are the same cluster" in " ".join(done.stdout.split())
    planned = in_process("plan", str(file), "--json")
    assert planned.returncode == 1
    assert all("are the same cluster" in flow["problem"] for flow in json.loads(planned.stdout)["flows"])


def test_more_replicas_than_brokers_is_told_before_anything_is_created(
    east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    # The topics of both ends are named for the other: neither has been there before.
    here, there = (unique(word).replace("-", "") for word in ("shop", "copy"))
    topic = unique("orders")
    east.create_topics([NewTopic(topic, 1, 1)])
    ends = {here: address(east_west, "east"), there: address(east_west, "west")}
    # The topic of the copies, one of the side topics on the target, and the one on the source.
    for key in ("replication.factor", "checkpoints.topic.replication.factor", "offset-syncs.topic.replication.factor"):
        file = write_file(tmp_path, ends, f"topics = {topic}", f"{here}->{there}.{key} = 3")
        before = set(east.topics()), set(west.topics())
        done = mirror("run", str(file))
        said = done.stderr.replace("\n", " ")
        assert done.returncode == 2, said
        assert f"{file}:6: {here}->{there}.{key}: " in said
        assert "has 1 broker" in said
        assert (set(east.topics()), set(west.topics())) == before
        planned = in_process("plan", str(file), "--flow", f"{here}->{there}")
        assert planned.returncode == 1
        assert "problem" in planned.stdout


def test_all_keys_that_ask_for_too_many_replicas_are_named_at_once(east_west: Lab, tmp_path: Path) -> None:
    """The file of the README on clusters of one broker was refused four times, each time with another key."""
    ends = {"shop12": address(east_west, "east"), "copy12": address(east_west, "west")}
    file = write_file(tmp_path, ends, "topics = none", "emit.heartbeats.enabled = false")
    file.write_text(file.read_text().replace("= 1\n", "= 2\n"))
    done = mirror("run", str(file))
    assert done.returncode == 2, done.stderr
    first, likewise = done.stderr.split("; likewise ")
    assert re.search(r"factor: topic \S+ on copy12 needs replication factor 2, but the cluster has 1 broker", first)
    wanted = ("checkpoints.topic.", "offset.storage.", "")
    assert sorted([first.split(": ")[1], *likewise.strip().split(", ")]) == [
        f"{each}replication.factor" for each in wanted
    ]


def test_the_file_of_the_readme_is_planned_as_it_is_printed(east_west: Lab, tmp_path: Path) -> None:
    """But for the addresses, and for the replicas that these clusters of one broker cannot hold."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (printed,) = re.findall(r"```properties\n(.*?)```", readme, re.DOTALL)
    file = tmp_path / "connect-mirror-maker.properties"
    file.write_text(printed)
    settings = load(file)
    assert [str(each.flow) for each in settings.enabled_flows] == ["east->west", "west->east"]
    assert settings.ignored == ()
    for alias in ("east", "west"):
        printed = re.sub(rf"({alias}\.bootstrap\.servers = ).*", rf"\g<1>{address(east_west, alias)}", printed)
    file.write_text(printed.replace("factor = 2", "factor = 1"))
    planned = mirror("plan", str(file), "--json")
    assert (planned.returncode, planned.stderr) == (0, "")
    assert [flow["problem"] for flow in json.loads(planned.stdout)["flows"]] == [None, None]


def test_the_plan_says_what_the_source_s_offsets_cost_and_which_partition_cannot_have_them(
    east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """A head to be padded, holes of transactions, a copy that others have begun: each by name, before anything is done."""
    here, there = (unique(word).replace("-", "") for word in ("shop", "copy"))
    plain, transactional, begun = (unique(word) for word in ("plain", "transactional", "begun"))
    east.create_topics([NewTopic(name, 1, 1) for name in (plain, transactional, begun)])
    west.create_topics([NewTopic(f"{here}.{begun}", 1, 1)])
    client, target = ({"bootstrap.servers": address(east_west, alias)} for alias in ("east", "west"))
    write(client, TopicPartition(plain, 0), range(100))
    delete_records(client, TopicPartition(plain, 0), 90)
    producer = producer_to(client, transactional_id=unique("writer"))
    producer.init_transactions()
    for number in range(10):
        producer.begin_transaction()
        producer.produce(transactional, b"%d" % number)
        producer.commit_transaction()
    write(target, TopicPartition(f"{here}.{begun}", 0), range(3))

    ends = {here: client["bootstrap.servers"], there: target["bootstrap.servers"]}
    topics = f"topics = {plain}, {transactional}, {begun}"
    file = write_file(tmp_path, ends, topics, "mirror.offsets = same")
    planned = in_process("plan", str(file), "--flow", f"{here}->{there}", "--json")
    assert planned.returncode == 1, planned.stderr
    (flow,) = json.loads(planned.stdout)["flows"]
    rows = {row["partition"]: row for row in flow["offsets"]}
    assert (rows[f"{plain}-0"]["to pad"], rows[f"{plain}-0"]["markers"]) == ("90", "none")
    assert (rows[f"{transactional}-0"]["to pad"], rows[f"{transactional}-0"]["markers"]) == ("0", "about 10")
    assert rows[f"{begun}-0"]["action"] == "problem"
    assert "holds the offsets 0 to 3" in rows[f"{begun}-0"]["detail"]
    # What was aborted is no record for whoever reads what is committed, and takes markers there.
    producer.begin_transaction()
    for number in range(20):
        producer.produce(transactional, b"%d" % number)
    producer.flush()
    producer.abort_transaction()
    for lines, markers in (((), "about 11"), ((f"{here}.consumer.isolation.level = read_committed",), "about 31")):
        file = write_file(tmp_path, ends, f"topics = {transactional}", "mirror.offsets = same", *lines)
        told = in_process("plan", str(file), "--flow", f"{here}->{there}", "--json")
        ((row,),) = (each["offsets"] for each in json.loads(told.stdout)["flows"])
        assert row["markers"] == markers
    assert any("mm2-offsets." in note for note in flow["notes"])
    assert any("lets the flow write many markers" in note for note in flow["notes"])
    # The plan lets no more be padded than is allowed.
    limit = write_file(tmp_path, ends, f"topics = {plain}", "mirror.offsets = same", "mirror.offsets.pad.limit = 89")
    refused = in_process("plan", str(limit), "--flow", f"{here}->{there}")
    assert refused.returncode == 1
    assert "mirror.offsets.pad.limit is 89" in " ".join(refused.stdout.split())
    allowed = write_file(tmp_path, ends, f"topics = {plain}", "mirror.offsets = same", "mirror.offsets.pad.limit = 90")
    assert in_process("plan", str(allowed), "--flow", f"{here}->{there}").returncode == 0
