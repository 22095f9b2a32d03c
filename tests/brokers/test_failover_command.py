"""`mirror failover` and `mirror failback` on two real clusters: nothing lost, groups at the right record, and home."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.control.status import observe
from mirror.evidence.journal import Event, Journal
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import read_records
from mirror.lab import clusters, processes
from mirror.lab.clusters import EmbeddedCluster
from mirror.lab.processes import ManagedProcess
from mirror.model.flow import Flow
from mirror.model.ledger import record_id
from mirror.model.partition import TopicPartition
from mirror.parts import read_rows
from mirror.recovery.catching_up import await_return
from mirror.recovery.move import LAST_LOOK
from mirror.recovery.steps import Progress
from mirror.waiting import wait_until
from tests.brokers import lab_applications
from tests.brokers.command import FACTORS, address, mirror, status_of
from tests.brokers.copying import write
from tests.brokers.killing import Ended, ended_at_each_write

PARTITIONS = 2
TOPIC = "orders"
GROUPS = ["audit", "billing"]
LINKED, UNCHANGED, SAME = "over a link", "names unchanged", "the source's offsets"
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[clusters.LabCluster]:
    """The old cluster, of one test: each calls it by another name, and what leads home has another transactional id.

    What an engine with the former one has sent before is noticed then, not refused, and the cut UNKNOWN.
    """
    directory = tmp_path / "shop"
    yield clusters.up(directory, ["shop"], owner_pid=os.getpid(), linked=["shop"]).clusters["shop"]
    clusters.down(directory, discard_data=True)


@dataclass
class Site:
    """One test's flows, engine and applications."""

    alias: str
    topic: str
    copy: str
    groups: list[str]
    file: Path
    applications: Path
    directory: Path
    source: ClusterSettings
    target: ClusterSettings
    engine: ManagedProcess | None = None

    @property
    def flow(self) -> str:
        return f"{self.alias}->west"

    @property
    def played(self) -> Path:
        return self.applications.parent

    def start_engine(self) -> None:
        argv = [sys.executable, "-m", "mirror", "run", str(self.file)]
        self.engine = processes.start(self.directory, "engine", argv, owner_pid=os.getpid())

    def command(self, what: str, *options: str) -> tuple[int, Any]:
        """Run a command on the flow; return its exit code, and what it printed, or said if it printed nothing."""
        done = mirror(what, str(self.file), "--flow", self.flow, *options, timeout_seconds=400)
        told = json.loads(done.stdout) if "--json" in options and done.stdout.startswith("{") else done.stderr
        return done.returncode, told

    def positions(self, settings: ClusterSettings, topic: str) -> dict[tuple[str, int], int]:
        with Cluster.connect(settings) as cluster:
            found = cluster.positions_of_groups(self.groups)
        return {
            (group, each.partition): at.position
            for group, positions in found.items()
            for each, at in positions.items()
            if each.topic == topic
        }

    def await_work(self, alias: str) -> None:
        """Wait until both groups have read some records on a cluster."""

        def seen() -> int:
            reads = read_rows(self.played / "ledger" / "reads", ["cluster", "group"])
            return int(reads[reads.cluster == alias].groupby("group").size().reindex(self.groups).fillna(0).min())

        wait_until(seen, f"work on {alias}", timeout_seconds=120, until=lambda count: count >= 200)

    def await_flow(self, flow: str) -> None:
        """Wait until an engine copies a flow, and has said so."""

        def seen() -> tuple[str, int, tuple[str, ...]]:
            with observe(load(self.file), {Flow.parse(flow)}) as (observer,):
                found = observer.look()
            return found.state, sum(each.topic == self.topic for each in found.partitions), found.reasons

        wait_until(
            seen, f"{flow} to run", timeout_seconds=120, until=lambda found: found == ("RUNNING", PARTITIONS, ())
        )

    def await_checkpoints(self) -> None:
        """Wait until there is one for each group and partition: a group that reads on has many."""
        topic = TopicPartition(f"{self.alias}.checkpoints.internal", 0)

        def told() -> int:
            with Cluster.connect(self.target) as cluster:
                end = cluster.offsets([topic], "latest")[topic] if cluster.topics([topic.topic]) else 0
            return len({each.key for each in read_records(self.target.client, topic, 0, end)})

        wait_until(told, "checkpoints", timeout_seconds=120, until=lambda count: count >= len(self.groups) * PARTITIONS)

    def sends(self, alias: str) -> Any:
        columns = ["cluster", "topic", "partition", "offset", "producer", "sequence", "status"]
        sends = read_rows(self.played / "ledger" / "sends", columns)
        return sends[(sends.cluster == alias) & (sends.status == "acked")]

    def ended_at_each_write(self, what: str, *options: str, by: signal.Signals = signal.SIGKILL) -> Iterator[Ended]:
        """Yield the processes of a command that end at its writes, up to the one that ends by itself."""
        argv = (what, str(self.file), "--flow", self.flow, "--applications", str(self.applications), "--yes", *options)
        number = len(list(self.directory.glob("killed-*")))
        return ended_at_each_write(argv, self.directory / f"killed-{number}", by)

    def on_record(self) -> list[Any]:
        """Return the failovers of the flow that are on record."""
        (found,) = [each["failovers"] for each in status_of(self.file) if each["flow"] == self.flow]
        return list(found)

    def at_work(self) -> set[str]:
        return {each.name.partition("-")[0] for each in processes.running(self.played)}


def unmet(told: Any) -> Any:
    """Return what a run of steps that did not pass has said of the steps that did not, or whatever else it said."""
    if not isinstance(told, dict):
        return told
    return [(each["name"], each["verdict"], each["detail"]) for each in told["steps"] if each["verdict"] != "PASS"]


@pytest.fixture
def site(
    request: pytest.FixtureRequest,
    east_west: clusters.Lab,
    shop: clusters.LabCluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[Site]:
    alias, given = unique("shop").replace("-", ""), getattr(request, "param", "")
    # Applications are beside their cluster; only the engine, and who fails over, come over the link.
    assert isinstance(shop, EmbeddedCluster)
    reached = shop.linked_servers if given == LINKED else shop.bootstrap_servers
    topic = unique(TOPIC)
    groups = [unique(group) for group in GROUPS]
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {reached}\n"
        f"west.bootstrap.servers = {address(east_west, 'west')}\n"
        f"{alias}->west.enabled = true\nwest->{alias}.enabled = true\ntopics = {topic}(-own)?\n"
        f"groups = {'|'.join([*groups, f'{topic}-local'])}\nemit.checkpoints.interval.seconds = 1\n{FACTORS}"
        + (IDENTITY if given in (UNCHANGED, SAME) else "")
        + ("mirror.offsets = same\n" if given == SAME else "")
    )
    source = ClusterSettings(alias, {"bootstrap.servers": shop.bootstrap_servers})
    with Cluster.connect(source) as old:
        created = [
            *old.create_topics([NewTopic(topic, PARTITIONS, 1)]),
            *west.create_topics([NewTopic(topic, PARTITIONS, 1)]),
        ]
    assert [each.problem for each in created if each.problem] == []
    played = tmp_path / "applications"
    applications = lab_applications.write(
        played,
        {alias: shop.bootstrap_servers, "west": address(east_west, "west")},
        {alias: topic, "west": topic},
        {each: [topic] for each in (alias, "west")}
        if given in (UNCHANGED, SAME)
        else {alias: [topic, f"west.{topic}"], "west": [topic, f"{alias}.{topic}"]},
        groups,
    )
    copy = topic if given in (UNCHANGED, SAME) else f"{alias}.{topic}"
    made = Site(alias, topic, copy, groups, file, applications, tmp_path, source, settings_of("west"))
    made.start_engine()
    lab_applications.start(played, alias)
    yield made
    processes.end(processes.running(played), timeout_seconds=20)
    if made.engine is not None:
        made.engine.kill()


@pytest.mark.long
def test_a_planned_failover_loses_nothing_and_leads_home_again(site: Site, west: Cluster) -> None:
    """Before it one that cannot stop the applications, which leaves everything as it was."""
    site.await_work(site.alias)
    site.await_flow(site.flow)
    run, options = site.directory / "run", ("--mode", "planned", "--applications", str(site.applications))
    copies = [TopicPartition(site.copy, number) for number in range(PARTITIONS)]

    code, plan = site.command("failover", *options, "--dry-run", "--json")
    assert code == 0, plan
    assert (plan["verdict"], plan["run_directory"]) == ("UNKNOWN", None)
    assert {row["group"] for row in plan["groups"]} == set(site.groups)
    assert site.command("failover", *options)[0] == 2, "nobody agrees to it"
    assert site.at_work() == {site.alias}

    used = site.groups[0]
    member = confluent_kafka.Consumer(
        {"bootstrap.servers": west.bootstrap_servers, "group.id": used, "enable.auto.commit": False}
    )
    try:
        member.subscribe([site.copy])
        wait_until(lambda: member.poll(0.2) is not None or member.assignment(), "a member", timeout_seconds=60)
        code, told = site.command("failover", *options, "--run-directory", str(run), "--yes", "--json")
    finally:
        member.close()
    assert (code, told["verdict"], told["steps"][-1]["name"]) == (1, "FAIL", "plan")
    assert f"group {used}" in told["steps"][-1]["detail"]
    assert "in use" in told["steps"][-1]["detail"]
    assert not run.exists()

    broken = site.directory / "broken.toml"
    broken.write_text(site.applications.read_text().replace('"stop"', '"no-such-verb"'))
    code, told = site.command(
        "failover",
        "--mode",
        "planned",
        "--applications",
        str(broken),
        "--yes",
        "--json",
        "--run-directory",
        str(site.directory / "broken"),
    )
    assert code == 1, told
    assert told["verdict"] == "FAIL"
    assert [each["name"] for each in told["steps"]] == ["begin", "verify so far", "stop", "back: stop", "back: begin"]
    assert "KeyError" in told["steps"][2]["detail"]
    assert site.at_work() == {site.alias}
    assert site.positions(site.target, site.copy) == {}

    code, told = site.command("failover", *options, "--run-directory", str(run), "--yes", "--json")
    assert code == 0, unmet(told)
    assert told["verdict"] == "PASS"
    assert site.at_work() == {"west"}
    sent = site.sends(site.alias)
    with Cluster.connect(site.source) as old:
        ends = old.offsets([TopicPartition(site.topic, number) for number in range(PARTITIONS)], "latest")
    assert len(sent) == sum(ends.values())
    assert {(row["topic"], row["partition"]): row["last_mirrored_upstream"] + 1 for row in told["positions"]} == {
        tuple(each): end for each, end in ends.items()
    }
    assert sum(west.offsets(copies, "latest").values()) >= len(sent)
    old_positions = site.positions(site.source, site.topic)
    rows = [row for row in told["groups"] if row["topic"] == site.copy]
    assert {(row["group"], row["partition"]): row["upstream"] for row in rows} == old_positions
    assert all(row["exact"] for row in rows)

    code, said = site.command("failover", *options, "--yes")
    assert (code, "is failed over already" in said.replace("\n", " ")) == (2, True)

    site.await_work("west")
    site.await_flow(f"west->{site.alias}")
    back = ("--applications", str(site.applications), "--run-directory", str(run))
    ends = west.offsets(copies, "latest")
    write(dict(site.target.client), copies[0], range(1))
    west_positions = wait_until(
        lambda: site.positions(site.target, site.copy),
        "who reads the copy to have read that",
        timeout_seconds=60,
        until=lambda found: all(found[group, 0] == ends[copies[0]] + 1 for group in site.groups),
    )
    code, said = site.command("failback", *back, "--yes", "--json")
    refusal = " ".join(said.split())
    assert (code, "nobody copies that back" in refusal, f"{copies[0]} from " in refusal) == (2, True, True), said
    assert site.at_work() == {"west"}
    code, told = site.command("failback", *back, "--leave-behind", "--yes", "--json")
    assert code == 0, unmet(told)
    (left_behind,) = run.glob(f"failback/left-behind/*/{copies[0]}.jsonl")
    assert len(left_behind.read_text().splitlines()) == 1
    assert (told["verdict"], told["stranded"]) == ("PASS", [])
    assert site.at_work() == {site.alias}
    # What was there before the stop was compared before it.
    details = {each["name"]: each["detail"] for each in told["steps"]}
    names = list(details)
    assert names.index("verify so far") < names.index("stop") < names.index("verify")
    earlier = re.search(r"(\d[\d,]*) records? compared$", details["verify so far"])
    assert earlier, details["verify so far"]
    assert f", {earlier[1]} of them before" in details["verify"]
    compared = json.loads((run / "failback" / "compared.json").read_text())["partitions"]
    originals = [TopicPartition(site.topic, number) for number in range(PARTITIONS)]
    assert {(each["topic"], each["partition"]): each["upstream_end"] for each in compared} == {
        tuple(each): end for each, end in west.offsets(originals, "latest").items()
    }
    # Those who read copies are carried home, although the topic filter names the originals alone. They were put at
    # the end of these copies, so nothing is written: their own positions count.
    carried = {
        (row["group"], row["partition"]): row["upstream"] for row in told["groups"] if row["topic"] == site.topic
    }
    assert carried == west_positions
    home = [TopicPartition(f"west.{site.topic}", number) for number in range(PARTITIONS)]
    with Cluster.connect(site.source) as old:
        assert sum(old.offsets(home, "latest").values()) >= len(site.sends("west"))
    code, said = site.command("failback", "--applications", str(site.applications), "--yes")
    assert (code, "is not failed over" in said.replace("\n", " ")) == (2, True)


@pytest.mark.long
def test_an_application_of_the_standby_s_own_goes_on_while_the_others_are_led_home(site: Site, west: Cluster) -> None:
    """It writes and reads all the time, in a topic that the flow back copies and the old cluster has never had."""
    own, local = f"{site.topic}-own", f"{site.topic}-local"
    assert [each.problem for each in west.create_topics([NewTopic(own, 1, 1)]) if each.problem] == []
    common = ["--topic", own, "--cluster", "west", "--bootstrap", west.bootstrap_servers]
    common += ["--ledger", str(site.directory / "own-ledger")]
    load = ["mirror.lab.load", "--name", "own", "--rate", "20", *common]
    reader = ["mirror.lab.readers", "--name", "own", "--group", local, *common]
    for name, argv in (("own-load", load), ("own-reader", reader)):
        processes.start(site.played, name, [sys.executable, "-m", *argv], owner_pid=os.getpid())

    def position() -> int:
        return sum(each.position for each in west.positions_of_groups([local]).get(local, Found()).values())

    site.await_work(site.alias)
    site.await_flow(site.flow)
    read = wait_until(position, "the own application to have read", timeout_seconds=60)
    how = ("--run-directory", str(site.directory / "run"), "--applications", str(site.applications), "--json")
    code, told = site.command("failover", "--mode", "planned", *how, "--yes")
    assert code == 0, unmet(told)
    site.await_work("west")
    site.await_flow(f"west->{site.alias}")

    code, plan = site.command("failback", *how, "--dry-run")
    assert code == 0, plan
    assert [each for each in plan["notes"] if f"group {local} ({own})" in each], plan["notes"]
    assert local not in {row["group"] for row in plan["groups"]}
    code, told = site.command("failback", *how, "--yes")
    assert (code, told["verdict"] if code == 0 else unmet(told)) == (0, "PASS")
    (fenced,) = [each for each in told["steps"] if each["name"] == "fence"]
    assert f"group {local} ({own})" in fenced["detail"]
    assert site.at_work() == {site.alias, "own"}
    assert position() > read
    with Cluster.connect(site.source) as old:
        assert not old.positions_of_groups([local]).get(local)


@pytest.mark.long
@pytest.mark.parametrize("site", [SAME], indirect=True)
def test_copies_with_the_source_s_offsets_change_sides_and_nothing_is_made_anew(site: Site, west: Cluster) -> None:
    """There and home: positions of groups are equal, and so are the two topics."""
    site.await_work(site.alias)
    site.await_flow(site.flow)
    partitions = [TopicPartition(site.topic, number) for number in range(PARTITIONS)]
    how = ("--run-directory", str(site.directory / "run"), "--applications", str(site.applications), "--yes", "--json")
    code, told = site.command("failover", "--mode", "planned", *how)
    assert (code, told["verdict"]) == (0, "PASS"), told
    assert all(row["upstream"] == row["after"] for row in told["groups"])
    site.await_work("west")
    site.await_flow(f"west->{site.alias}")
    code, told = site.command("failback", *how)
    assert (code, told["verdict"], told["stranded"]) == (0, "PASS", []), [
        (each["name"], each["detail"]) for each in told["steps"] if each["verdict"] != "PASS"
    ]
    assert all(row["upstream"] == row["after"] for row in told["groups"])
    site.await_flow(site.flow)
    lab_applications.stop(site.played, site.alias)
    with Cluster.connect(site.source) as old:
        ends = old.offsets(partitions, "latest")
    wait_until(
        lambda: west.offsets(partitions, "latest"), "the copies", timeout_seconds=120, until=lambda at: at == ends
    )
    for each in partitions:
        kept, copied = (
            [(one.offset, one.value, one.headers) for one in read_records(settings.client, each, 0, ends[each])]
            for settings in (site.source, site.target)
        )
        assert kept == copied
    acknowledged = len(site.sends(site.alias)) + len(site.sends("west"))
    assert sum(ends.values()) >= acknowledged


@pytest.mark.long
def test_the_source_is_killed_and_every_group_goes_on_at_the_right_record(
    site: Site, shop: clusters.LabCluster
) -> None:
    site.await_work(site.alias)
    site.await_flow(site.flow)
    site.await_checkpoints()
    options = ("--mode", "unplanned", "--applications", str(site.applications), "--yes", "--json")
    run = site.directory / "run"
    try:
        shop.kill()
        # The first process that carries it out is killed behind the cut; the second one goes on.
        argv = ["failover", str(site.file), "--flow", site.flow, *options, "--run-directory", str(run)]
        first = processes.start(site.directory, "first", [sys.executable, "-m", "mirror", *argv], owner_pid=os.getpid())
        wait_until(
            lambda: "cut" in Progress.of(Journal(run / "journal.jsonl").read().entries).proven or not first.is_alive(),
            "the cut",
            timeout_seconds=120,
        )
        first.kill()
        code, found = site.command("failover", *options, "--run-directory", str(run))
        assert code == 0, unmet(found)
        assert found["verdict"] == "PASS"
        assert site.at_work() == {"west"}
        rows = [row for row in found["groups"] if row["topic"] == site.copy]
        assert {(row["group"], row["partition"]) for row in rows} == {
            (group, number) for group in site.groups for number in range(PARTITIONS)
        }
        assert all(row["exact"] for row in rows), rows
        sent = site.sends(site.alias).set_index(["partition", "offset"])
        for row in rows:
            # The record that the group goes on with is the one that it had not read on the old cluster.
            (cut,) = [each for each in found["positions"] if each["partition"] == row["partition"]]
            if row["upstream"] <= cut["last_mirrored_upstream"]:
                wanted = sent.loc[(row["partition"], row["upstream"])]
                copy = TopicPartition(site.copy, row["partition"])
                (record, *_) = read_records(site.target.client, copy, row["after"], row["after"] + 1)
                identity = record_id(record.headers)
                assert identity is not None
                assert (identity.producer, identity.sequence) == (wanted.producer, wanted.sequence)
        again = site.command("failover", *options, "--run-directory", str(run))
        assert again[0] == 0, again
    finally:
        shop.start()
    site.await_work("west")
    site.await_flow(f"west->{site.alias}")
    lost = {row["partition"]: row["last_mirrored_upstream"] + 1 for row in found["positions"]}
    sent_there = site.sends(site.alias)
    stranded = {
        number: int((sent_there[sent_there.partition == number].offset >= end).sum()) for number, end in lost.items()
    }
    # It remembers the members of before until their sessions time out.
    await_return(load(site.file), Flow("west", site.alias), site.groups, seconds=120)
    code, told_home = site.command(
        "failback", "--applications", str(site.applications), "--run-directory", str(run), "--yes", "--json"
    )
    # An engine that began before the cluster's coordinator was there could not fence with an id at first, and says so.
    unsure = [each for each in told_home["steps"] if each["verdict"] != "PASS"]
    assert all(each["name"] == "cut" and "former producer id" in each["detail"] for each in unsure), unsure[-4:]
    assert (code, told_home["verdict"]) == ((1, "UNKNOWN") if unsure else (0, "PASS"))
    # What the dying cluster had appended, and nobody knows of, is stranded too.
    stated = {row["partition"]: row["to"] - row["from"] for row in told_home["stranded"]}
    assert all(stated.get(number, 0) >= count for number, count in stranded.items()), (stated, stranded)
    assert site.at_work() == {site.alias}


@pytest.mark.soak
@pytest.mark.parametrize("site", [LINKED], indirect=True)
def test_what_a_source_that_is_cut_off_goes_on_to_acknowledge_is_stated_and_comes_home(
    site: Site, shop: clusters.LabCluster
) -> None:
    """The link is down, and the applications go on to write beside the source until they are stopped."""
    site.await_work(site.alias)
    site.await_flow(site.flow)
    site.await_checkpoints()
    assert isinstance(shop, EmbeddedCluster)
    options = ("--mode", "cut-off", "--applications", str(site.applications), "--yes", "--json")
    run = site.directory / "run"
    try:
        for link in shop.links:
            link.cut()
        before = len(site.sends(site.alias))
        wait_until(
            lambda: len(site.sends(site.alias)),
            "more records",
            timeout_seconds=60,
            until=lambda now: now > before + 100,
        )
        code, found = site.command("failover", *options, "--run-directory", str(run))
    finally:
        for link in shop.links:
            link.heal()
    assert code == 0, unmet(found)
    details = {each["name"]: each["detail"] for each in found["steps"]}
    assert all("of what is on record, " in details[name] for name in ("loss", "final loss")), details
    assert site.at_work() == {"west"}
    sent, cut = site.sends(site.alias), {row["partition"]: row["last_mirrored_upstream"] for row in found["positions"]}
    indexed = sent.set_index(["partition", "offset"])
    for row in found["groups"]:
        if row["topic"] == site.copy and row["upstream"] <= cut[row["partition"]]:
            copy = TopicPartition(site.copy, row["partition"])
            (record, *_) = read_records(site.target.client, copy, row["after"], row["after"] + 1)
            identity, wanted = record_id(record.headers), indexed.loc[(row["partition"], row["upstream"])]
            assert identity is not None
            assert (identity.producer, identity.sequence) == (wanted.producer, wanted.sequence)
    stranded = {number: int(((sent.partition == number) & (sent.offset > end)).sum()) for number, end in cut.items()}
    assert sum(stranded.values()) >= 100
    site.await_work("west")
    site.await_flow(f"west->{site.alias}")
    home = ("--applications", str(site.applications), "--run-directory", str(run), "--yes", "--json")
    code, told = site.command("failback", *home)
    assert code == 0, unmet(told)
    assert {row["partition"]: row["to"] - row["from"] for row in told["stranded"]} == stranded
    assert site.at_work() == {site.alias}


@pytest.mark.soak
@pytest.mark.parametrize("site", [UNCHANGED], indirect=True)
def test_there_and_home_with_names_unchanged_doubles_no_record(site: Site, west: Cluster) -> None:
    site.await_work(site.alias)
    site.await_flow(site.flow)
    run = str(site.directory / "run")
    options = ("--applications", str(site.applications), "--run-directory", run, "--yes", "--json")
    code, found = site.command("failover", "--mode", "planned", *options)
    assert code == 0, unmet(found)
    site.await_work("west")
    site.await_flow(f"west->{site.alias}")
    code, found = site.command("failback", *options)
    assert code == 0, unmet(found)
    assert site.at_work() == {site.alias}
    partitions = [TopicPartition(site.topic, number) for number in range(PARTITIONS)]
    seen = [
        record_id(record.headers)
        for each in partitions
        for record in read_records(site.target.client, each, 0, west.offsets([each], "latest")[each])
    ]
    assert len(set(seen)) == len(seen) >= len(site.sends("west"))


@pytest.mark.soak
def test_a_failover_that_is_interrupted_at_each_write_is_taken_back_whole_also_by_killed_processes(site: Site) -> None:
    """Ctrl-C at each write up to the point of no return, which is not passed; then `--take-back`, killed at each."""
    site.await_work(site.alias)
    site.await_flow(site.flow)
    run = site.directory / "run"
    options = ("--mode", "planned", "--run-directory", str(run))
    for ended in site.ended_at_each_write("failover", *options, by=signal.SIGINT):
        assert ended.at is not None, ended.said
        assert ended.code in {1, 130}, ended
        assert "Traceback" not in ended.said, ended.said
        if ended.at == "start: before point_of_no_return":
            break
    assert site.at_work() == set()
    assert site.positions(site.target, site.copy) != {}

    *killed, last = site.ended_at_each_write("failover", *options, "--take-back")
    assert (last.code, len(killed) > 5) == (0, True), last.said
    assert site.at_work() == {site.alias}
    assert site.positions(site.target, site.copy) == {}
    assert site.on_record() == []
    site.await_flow(site.flow)


@pytest.mark.soak
def test_a_failover_and_its_failback_that_are_killed_at_each_write_end_as_those_that_were_not(site: Site) -> None:
    site.await_work(site.alias)
    site.await_flow(site.flow)
    run = ("--run-directory", str(site.directory / "run"))
    *killed, last = site.ended_at_each_write("failover", "--mode", "planned", *run)
    assert last.code == 0, last.said
    code, told = site.command("failover", *run, "--applications", str(site.applications), "--yes", "--json")
    assert (code, told["verdict"]) == (0, "PASS"), told
    killed_at_each_step_and_none_done_twice(killed, told, site.directory / "run")
    assert site.at_work() == {"west"}
    assert [each["run"] for each in site.on_record()] == [
        json.loads((site.directory / "run/run.json").read_text())["run"]
    ]
    old_positions = site.positions(site.source, site.topic)
    rows = [row for row in told["groups"] if row["topic"] == site.copy]
    assert {(row["group"], row["partition"]): row["upstream"] for row in rows} == old_positions
    assert all(row["exact"] for row in rows)

    site.await_work("west")
    site.await_flow(f"west->{site.alias}")
    *killed, last = site.ended_at_each_write("failback", *run)
    assert last.code == 0, last.said
    killed_at_each_step_and_none_done_twice(killed, None, site.directory / "run" / "failback")
    assert site.at_work() == {site.alias}
    assert site.on_record() == []


def killed_at_each_step_and_none_done_twice(killed: list[Ended], told: Any, directory: Path) -> None:
    """A process has ended before and in each step, and what was proven was not begun again."""
    entries = Journal(directory / "journal.jsonl").read().entries
    steps = {each.step for each in entries if each.event is Event.STEP_STARTED}
    assert told is None or {each["name"] for each in told["steps"]} == steps
    writes = {each.at for each in killed}
    assert {f"{step}: before {event}" for step in steps for event in ("step_started", "step_finished")} <= writes
    passed = [each.step for each in entries if each.event is Event.STEP_FINISHED and each.facts["verdict"] == "PASS"]
    # What was so when an earlier process looked for the last time says nothing.
    looks = passed.count(LAST_LOOK)
    assert sorted(map(str, passed)) == sorted([*map(str, steps), *[LAST_LOOK] * (looks - 1)])
