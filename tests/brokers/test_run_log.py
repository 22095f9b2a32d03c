"""What `mirror run` says in its log, and how it ends when a terminal interrupts it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mirror.control.flow_log import FlowLog
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab.clusters import Lab, LabCluster
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, address, in_process, status_of
from tests.brokers.copying import ends_of, write

# As Kafka's own logs have it, so that whatever reads those reads this.
_LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?P<level>[A-Z]+) (?P<flow>\S+): (?P<said>.+)")


@contextmanager
def running(file: Path, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an engine as the leader of a process group of its own, as a shell does; its log goes to a file."""
    command = [sys.executable, "-m", "mirror", "run", str(file)]
    with (
        log.open("wb") as said,
        subprocess.Popen(
            command, stderr=said, stdout=said, start_new_session=True, env=os.environ | environment
        ) as engine,
    ):
        try:
            yield engine
        finally:
            engine.kill()


def status(file: Path) -> tuple[str, list[str]]:
    """Return state and reasons of the only flow."""
    (flow,) = status_of(file)
    return flow["state"], flow["reasons"]


def one_flow(lab: Lab, path: Path, source: str, target: str, topics: str, more: str = "") -> Path:
    """Write the file of a flow that no other test knows, by neither of its ends: what MirrorMaker left is not its."""
    path.write_text(
        f"clusters = {source}, {target}\n{source}.bootstrap.servers = {address(lab, 'east')}\n"
        f"{target}.bootstrap.servers = {address(lab, 'west')}\n{source}->{target}.enabled = true\n"
        f"{source}->{target}.topics = {topics}\n{FACTORS}{more}"
    )
    return path


@pytest.mark.long
def test_a_first_run_is_told_line_by_line_and_ends_by_ctrl_c_as_by_sigterm(
    east_west: Lab, east: Cluster, unique: Callable[[str], Any], tmp_path: Path
) -> None:
    """CLI-04: a first start has no troubles; what stops a partition later is told at once."""
    source, target = (unique(word).replace("-", "") for word in ("shop", "copy"))
    topic, flow = unique("orders"), f"{source}->{target}"
    east.create_topics([NewTopic(topic, 2, 1, {})])
    fails = f"{flow}.transforms = f\n{flow}.transforms.f.type = python:tests.transform_functions:fail_on_poison\n"
    file, log = one_flow(east_west, tmp_path / "mirror.properties", source, target, topic, fails), tmp_path / "log"
    never = f"this flow has never run: {target} has no topic mm2-state.{source}.internal"
    assert status(file) == ("STOPPED", [never])
    with running(file, log) as engine:
        found = wait_until(
            lambda: status(file),
            "the engine to run",
            timeout_seconds=90,
            until=lambda seen: seen[0] in ("RUNNING", "DEGRADED"),
        )
        assert found == ("RUNNING", []), log.read_text()
        told = lines_of(log)
        assert {level for level, *_ in told} == {"INFO"}, log.read_text()
        assert told[0][1] == "engine"
        assert re.fullmatch(rf"mirror \S+ starts: {re.escape(str(file))}, flows {flow}", told[0][2])
        assert ("INFO", flow, "leads the flow, term 1") in told
        reported = re.compile(r"the first epoch has reported; partitions copied: [2-9]\d*, topics: [1-9]\d*")
        assert any(about == flow and reported.fullmatch(text) for _, about, text in told)

        producer = Producer({"bootstrap.servers": address(east_west, "east")})
        producer.produce(topic, b"poison", partition=1)
        producer.flush()
        stopped = f"{topic}-1 is stopped: "
        wait_until(
            lambda: any(level == "WARN" and text.startswith(stopped) for level, _, text in lines_of(log)),
            "the stop to be told",
            timeout_seconds=60,
        )
        # A terminal sends it to every process of the group, and people press it twice.
        os.killpg(engine.pid, signal.SIGINT)
        os.killpg(engine.pid, signal.SIGINT)
        assert engine.wait(60) == 0, log.read_text()
    assert lines_of(log)[-2:] == [("INFO", "engine", "stops: SIGINT"), ("INFO", "engine", "stopped")]
    (said,) = json.loads(in_process("status", str(file), "--json").stdout)["flows"]
    assert (said["state"], said.keys()) == ("STOPPED", status_of(file)[0].keys() | {"fenced_side"})


@pytest.mark.long
def test_an_outage_of_a_cluster_is_one_line_its_end_another_and_so_for_the_copy(
    east_west: Lab, east: Cluster, mortal: LabCluster, unique: Callable[[str], Any], tmp_path: Path
) -> None:
    """It was seventeen lines of seven threads, in which no end could be matched with its beginning."""
    source, target = (unique(word).replace("-", "") for word in ("shop", "copy"))
    topic, flow = unique("orders"), f"{source}->{target}"
    east.create_topics([NewTopic(topic, 3, 1, {})])
    file, log = one_flow(east_west, tmp_path / "mirror.properties", source, target, topic), tmp_path / "log"
    file.write_text(file.read_text().replace(address(east_west, "west"), mortal.bootstrap_servers))

    def told(beginning: str) -> bool:
        return any(text.startswith(beginning) for _, _, text in lines_of(log))

    def await_line(beginning: str) -> None:
        wait_until(lambda: told(beginning), f"a line: {beginning}", timeout_seconds=90)

    producer = Producer({"bootstrap.servers": address(east_west, "east")})
    with running(file, log) as engine:
        await_line("the first epoch has reported")
        before = len(lines_of(log))
        mortal.kill()
        for number in range(3):
            producer.produce(topic, b"meanwhile", partition=number)
        producer.flush()
        await_line(f"{target} does not answer")
        await_line("the copy waits")
        # Until the ticks that are seldom have met it too.
        wait_until(lambda: len(status(file)[1]) > 0, "the status to tell it", timeout_seconds=30)
        mortal.start()
        await_line("the copy no longer waits")
        wait_until(lambda: status(file), "the flow to run", timeout_seconds=60, until=lambda seen: seen[0] == "RUNNING")
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(60) == 0, log.read_text()
    found = [line for line in lines_of(log)[before:-2] if not line[2].startswith("lag: ")]
    answers = found[2][2]
    assert re.fullmatch(rf"{target} answers again after \d+ s", answers), log.read_text()
    assert found == [
        ("WARN", "engine", f"{target} does not answer ({mortal.bootstrap_servers}: connection refused); trying again"),
        ("WARN", flow, f"the copy waits for {target}"),
        ("INFO", "engine", answers),
        ("INFO", flow, f"the copy no longer waits for {target}"),
    ], log.read_text()


@pytest.mark.long
def test_an_engine_whose_only_target_is_away_says_so_and_waits_for_it(
    east_west: Lab, east: Cluster, mortal: LabCluster, unique: Callable[[str], Any], tmp_path: Path
) -> None:
    """After a power cut the line to the target may be up last."""
    source, target = (unique(word).replace("-", "") for word in ("shop", "copy"))
    topic = unique("orders")
    east.create_topics([NewTopic(topic, 1, 1, {})])
    file, log = one_flow(east_west, tmp_path / "mirror.properties", source, target, topic), tmp_path / "log"
    file.write_text(file.read_text().replace(address(east_west, "west"), mortal.bootstrap_servers))
    mortal.kill()
    with running(file, log) as engine:
        line = f"{target} does not answer ({mortal.bootstrap_servers}: connection refused); trying again"
        wait_until(lambda: ("WARN", "engine", line) in lines_of(log), f"a line: {line}", timeout_seconds=60)
        assert status(file)[0] == "FAILED"
        mortal.start()
        wait_until(lambda: status(file), "the flow to run", timeout_seconds=90, until=lambda seen: seen[0] == "RUNNING")
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(60) == 0, log.read_text()


def lines_of(log: Path) -> list[tuple[str, str, str]]:
    """Return level, flow and text of each line; every line is one of the log."""
    # The last one may be on its way.
    whole = log.read_text().splitlines(keepends=True)
    found = [_LINE.fullmatch(line.rstrip("\n")) for line in whole if line.endswith("\n")]
    assert all(found), log.read_text()
    return [(each["level"], each["flow"], each["said"]) for each in found if each]


@pytest.mark.soak
def test_what_somebody_else_wrote_into_a_copy_is_told_also_if_the_engine_was_killed_before_it_looked(
    east_west: Lab, east: Cluster, unique: Callable[[str], Any], tmp_path: Path
) -> None:
    """Its position is behind the record by then; tasks tell what they met when an epoch ends, half a minute later."""
    source, target = (unique(word).replace("-", "") for word in ("shop", "copy"))
    topic, east_at, west_at = unique("orders"), address(east_west, "east"), address(east_west, "west")
    copy = TopicPartition(f"{source}.{topic}", 0)
    east.create_topics([NewTopic(topic, 1, 1, {})])
    file, log = one_flow(east_west, tmp_path / "mirror.properties", source, target, topic), tmp_path / "log"

    def recorded() -> int:
        known = FlowLog({"bootstrap.servers": west_at}, state_topic(source), alias=target)
        try:
            position = known.poll().positions.get(TopicPartition(topic, 0))
            return position.upstream if position is not None else 0
        finally:
            known.close()

    def until_recorded(count: int) -> None:
        write({"bootstrap.servers": east_at}, TopicPartition(topic, 0), range(count - 5, count))
        wait_until(recorded, "the position", timeout_seconds=90, until=lambda upstream: upstream == count)

    with running(file, log) as engine:
        wait_until(lambda: status(file)[0], "the engine to run", timeout_seconds=90, until="RUNNING".__eq__)
        until_recorded(5)
        (first,) = ends_of({"bootstrap.servers": west_at}, [copy]).values()
        write({"bootstrap.servers": west_at}, copy, [1_000])
        until_recorded(10)
        engine.kill()
        engine.wait(60)

    def told() -> list[tuple[int, int, int]]:
        (flow,) = status_of(file)
        return [(each["first_offset"], each["last_offset"], each["records"]) for each in flow["foreign_writers"]]

    with running(file, log) as engine:
        wait_until(told, "the foreign writer", timeout_seconds=90)
        assert told() == [(first, first, 1)]


@pytest.mark.soak
def test_a_worker_without_the_transforms_module_and_a_router_that_came_later_are_told_in_the_log_and_the_status(
    east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], Any], tmp_path: Path
) -> None:
    """The module is there when the engine reads its file, and gone before Spark's workers want it."""
    source, target = (unique(word).replace("-", "") for word in ("shop", "copy"))
    routed, changed = unique("routed"), unique("changed")
    copied, flow = TopicPartition(routed, 0), f"{source}->{target}"
    client = {"bootstrap.servers": address(east_west, "east")}
    east.create_topics([NewTopic(topic, 1, 1, {}) for topic in (routed, changed)])
    west.create_topics([NewTopic(f"{source}.elsewhere", 1, 1, {})])
    file = one_flow(east_west, tmp_path / "mirror.properties", source, target, f"{routed}, {changed}")
    log, later = tmp_path / "log", tmp_path / "later"
    write(client, copied, range(5))
    copy = TopicPartition(f"{source}.{routed}", 0)
    with running(file, log) as engine:
        wait_until(lambda: status(file)[0], "the engine to run", timeout_seconds=90, until="RUNNING".__eq__)
        known = {"bootstrap.servers": address(east_west, "west")}
        wait_until(lambda: ends_of(known, [copy])[copy], "the copy", timeout_seconds=60, until=lambda end: end >= 5)
        engine.terminate()
        assert engine.wait(60) == 0, log.read_text()

    chosen = f"{flow}.transforms = mine, away\n{flow}.transforms"
    file.write_text(
        f"{file.read_text()}{chosen}.mine.type = python:soon_gone:same\n"
        f"{flow}.transforms.away.type = org.apache.kafka.connect.transforms.RegexRouter\n"
        f"{flow}.transforms.away.regex = .*{routed}\n{flow}.transforms.away.replacement = {source}.elsewhere\n"
    )
    module = tmp_path / "modules" / "soon_gone.py"
    module.parent.mkdir()
    module.write_text("def same(record):\n    return record\n")
    write(client, copied, range(5, 10))
    write(client, TopicPartition(changed, 0), range(5))
    path = os.pathsep.join(filter(None, (str(module.parent), os.environ.get("PYTHONPATH"))))
    with running(file, later, PYTHONPATH=path) as engine:
        wait_until(lambda: lines_of(later), "the engine to have read its file", timeout_seconds=60)
        module.unlink()
        wanted = [
            f"{routed}-0 is stopped: it was copied to {copy.topic} so far and is to be copied to {source}.elsewhere now",
            f"{changed}-0 is stopped: mine: the module soon_gone cannot be imported",
        ]

        def are_told() -> bool:
            told = [text for level, about, text in lines_of(later) if (level, about) == ("WARN", flow)]
            return all(any(text.startswith(each) for text in told) for each in wanted)

        wait_until(are_told, "the stops to be told", timeout_seconds=90)
        state, reasons = wait_until(
            lambda: status(file), "the status", timeout_seconds=30, until=lambda seen: len(seen[1]) >= len(wanted)
        )
        assert state == "DEGRADED"
        assert all(any(reason.startswith(each) for reason in reasons) for each in wanted), reasons
        shown = in_process("status", str(file), "--json").stdout
        (one,) = (each for each in json.loads(shown)["flows"][0]["partitions"] if each["topic"] == routed)
        assert one["stopped"].startswith("it was copied to")
        engine.terminate()
        assert engine.wait(60) == 0, later.read_text()
