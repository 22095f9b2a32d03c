"""Commands that change clusters: without somebody who agrees, and in a dry run, nothing is changed anywhere."""

from __future__ import annotations

import io
import json
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from typer.testing import CliRunner

from mirror import asking, consent
from mirror.cli import app
from mirror.config.resolving import load
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import LogWriter
from mirror.kafka.users import client_quotas
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.model.gap import Gap
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, address
from tests.brokers.copying import positions_of
from tests.positions import write_positions

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Site:
    """A flow that has run, with a group to move and a gap to acknowledge; and what the commands leave behind."""

    alias: str
    topic: str
    group: str
    file: Path

    @property
    def flow(self) -> str:
        return f"{self.alias}->west"

    @property
    def files(self) -> dict[str, str]:
        kept = (each for each in self.file.parent.rglob("*") if each.is_file() and "engine" not in each.name)
        return {str(each.relative_to(self.file.parent)): each.read_text() for each in kept}

    def state(self) -> dict[str, Any]:
        """Everything that is told of both clusters: topics, settings, the ends of every log, quotas; and the files.

        What is written to a group, to a flow's state or to anything else grows a log.
        """
        found: dict[str, Any] = {"files": self.files}
        for alias, settings in load(self.file).clusters.items():
            with Cluster.connect(settings) as cluster:
                topics = cluster.topics(include_internal=True)
                partitions = [each for topic in topics.values() for each in topic.topic_partitions]
                found[alias] = {
                    "ends": dict(cluster.offsets(partitions, "written")),
                    "ids": {name: topic.topic_id for name, topic in topics.items()},
                    "configs": dict(cluster.topic_configs(list(topics))),
                    "quotas": client_quotas(cluster),
                }
        return found

    def options(self, command: str) -> list[str]:
        """The command's arguments, on what is there by now."""
        verb, *options = command.split()
        target = ["--cluster", self.alias] if verb == "fence" else ["--flow", self.flow]
        return [verb, str(self.file), *target, *options]


@pytest.fixture(scope="module")
def site(east_west: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    word = uuid.uuid4().hex[:8]
    directory = tmp_path_factory.mktemp("consent")
    found = Site(f"east-{word}", f"orders-{word}", f"audit-{word}", directory / "mirror.properties")
    found.file.write_text(
        f"clusters = {found.alias}, west\n{found.alias}.bootstrap.servers = {address(east_west, 'east')}\n"
        f"west.bootstrap.servers = {address(east_west, 'west')}\n{found.flow}.enabled = true\n"
        f"{found.flow}.topics = {found.topic}\nheartbeats.replication.enabled = false\nmirror.epoch.seconds = 2\n"
        f"{FACTORS}"
    )
    settings = load(found.file)
    source, target = (settings.clusters[each] for each in (found.alias, "west"))
    copy = TopicPartition(f"{found.alias}.{found.topic}", 0)
    producer = confluent_kafka.Producer({"bootstrap.servers": address(east_west, "east")})
    with Cluster.connect(source) as cluster, Cluster.connect(target) as there:
        cluster.create_topics([NewTopic(found.topic, 1, 1)])
        for number in range(10):
            producer.produce(found.topic, b"%d" % number)
        assert producer.flush(60) == 0
        write_positions(cluster, found.group, {TopicPartition(found.topic, 0): GroupPosition(4)})
        argv = [sys.executable, "-m", "mirror", "run", str(found.file)]
        engine = processes.start(directory, "engine", argv, owner_pid=os.getpid())

        def copied() -> int:
            return there.offsets([copy], "latest").get(copy, 0) if there.topics([copy.topic]) else 0

        wait_until(copied, "the copy", timeout_seconds=240, until=lambda end: end == 10)
        assert engine.terminate(120)
        # The first to ask a broker about a group has it make the topic of groups.
        there.describe_groups([found.group])
    gap = Gap(TopicPartition(found.topic, 0), 10, 12, "the source removed them", 1)
    with closing(LogWriter(target.client, alias="west")) as writer:
        writer.append(state_topic(found.alias), 0, [(*gap.record(), (), 1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        yield found


def done(site: Site, command: str, *options: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, [*site.options(command), *options])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.stdout, found.stderr


class Somebody(io.StringIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


# Each with what takes it back, in the order in which they can be carried out; None: nothing does, so that the flow's
# name is typed.
COMMANDS = {
    "groups --apply": "groups --restore snapshot.json",
    "pause": "resume",
    "fence": "fence --lift",
    "gaps --acknowledge --reason known": None,
    "failover --mode cut-off --run-directory run": None,
}


@pytest.fixture(scope="module")
def undoable(site: Site) -> Iterator[Site]:
    """Whatever takes something back has something to take back: a snapshot, a pause, the record of a fence."""
    assert done(site, "groups --apply", "--yes", "--snapshot", "snapshot.json")[0] == 0
    assert done(site, "pause", "--yes", "--timeout", "200")[0] == 0
    # Quotas alone prove nothing.
    assert done(site, "fence", "--yes")[0] == 1
    yield site
    # Other tests share the cluster that is held back by then.
    done(site, "fence --lift", "--yes")


@pytest.mark.parametrize("command", list(COMMANDS))
def test_nobody_agrees_or_only_the_plan_is_asked_for_and_nothing_is_changed(
    site: Site, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_nothing_is_changed(site, command, monkeypatch)


@pytest.mark.parametrize("command", list(filter(None, COMMANDS.values())))
def test_nobody_agrees_to_take_back_and_nothing_is_changed(
    undoable: Site, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_nothing_is_changed(undoable, command, monkeypatch)


def assert_nothing_is_changed(site: Site, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = site.state()
    assert before["west"]["ends"], "it looks at something"
    code, _, said = done(site, command)
    assert (code, "say --yes, or --dry-run for the plan" in " ".join(said.split())) == (2, True)
    assert site.state() == before, "without a terminal"

    assert done(site, command, "--dry-run")[0] == 0
    code, told, said = done(site, command, "--dry-run", "--json")
    assert (code, said) == (0, "")
    assert json.loads(told)
    assert site.state() == before, "a dry run"

    asked: list[str] = []
    is_typed = COMMANDS.get(command, "") is None

    def answer(question: str, **_: object) -> Any:
        asked.append(question)
        return "yes" if is_typed else False

    monkeypatch.setattr(asking.typer, "prompt" if is_typed else "confirm", answer)
    monkeypatch.setattr(consent.sys, "stdin", Somebody())
    with pytest.raises(SystemExit) as ended:
        app([*site.options(command)])
    assert ended.value.code == 1
    (question,) = asked
    assert "no answer within 15 min is a no: nothing is changed" in question
    assert (site.flow in question) >= is_typed
    assert site.state() == before, "a no"


def test_with_yes_each_is_done_and_what_can_be_is_taken_back(undoable: Site) -> None:
    site = undoable
    before = site.state()
    for command in ("groups --restore snapshot.json", "resume", "fence --lift"):
        assert done(site, command, "--yes")[0] == 0, command
    assert site.state()[site.alias]["quotas"] != before[site.alias]["quotas"]
    assert done(site, "gaps --acknowledge --reason known", "--yes")[0] == 0
    # Nobody has looked at the applications: all is done, and the verdict is not PASS.
    assert done(site, "failover --mode cut-off --run-directory run", "--yes")[0] == 1
    assert (site.file.parent / "run" / "journal.jsonl").exists()
    with Cluster.connect(load(site.file).clusters["west"]) as west:
        (at,) = positions_of(west, site.group).values()
    assert at.position == 4
