"""The way home of copies with the source's offsets where both sides have written: one topic is made anew."""

from __future__ import annotations

import base64
import itertools
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirror.evidence.journal import Journal
from mirror.kafka.cluster import Cluster
from mirror.lab import processes
from mirror.model.partition import TopicPartition
from mirror.recovery.making_anew import MAKE_ANEW
from mirror.recovery.steps import Progress
from mirror.waiting import wait_until
from tests.brokers.command import mirror
from tests.brokers.copying import delete_records, put_group, write, write_in_transactions
from tests.brokers.same_offsets_both_ways import PATIENCE_SECONDS, Pair, committed, delete
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long


def test_after_a_failover_with_a_stranded_tail_the_old_topic_is_made_anew_with_every_record_at_its_offset(
    pair: Pair, east: Cluster
) -> None:
    """What was mirrored before the failover too: it is on the standby as copies, which come home."""
    orders = pair.orders
    group = f"{orders.topic}-reader"
    write(pair.home, orders, range(10))
    with pair.engine():
        pair.await_end(pair.away, 10)
        pair.await_copied(pair.back, 10)

    write(pair.home, orders, [98, 99])  # stranded
    write(pair.away, orders, range(10, 15))
    put_group(pair.away, group, orders, 12)
    with pair.engine():
        pair.await_reason(pair.back, "with records that")
    delete(east, orders.topic)
    with pair.engine():
        pair.await_end(pair.home, 15)
        assert read(pair.home, orders, "read_uncommitted") == read(pair.away, orders, "read_uncommitted")
        assert len(read(pair.home, orders, "read_uncommitted")) == 15
        wait_until(
            lambda: committed(pair.home, group, orders),
            "the group's position",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda at: at == 12,
        )
        pair.await_copied(pair.there, 15)
        # Home again, and the standby follows: nothing is made anew there.
        write(pair.home, orders, range(15, 20))
        pair.await_end(pair.away, 20)
        assert read(pair.away, orders, "read_uncommitted") == read(pair.home, orders, "read_uncommitted")
        assert len(read(pair.away, orders, "read_uncommitted")) == 20


def test_a_failback_saves_what_is_stranded_makes_the_topic_anew_and_leads_home(
    new_pair: Callable[..., Pair], east: Cluster, tmp_path: Path
) -> None:
    """One of two partitions holds other records than the standby; the other one only more on the standby."""
    pair = new_pair(2, {"segment.bytes": "7654321", "max.message.bytes": "2000000"})
    orders, more = pair.orders, TopicPartition(pair.orders.topic, 1)
    group, idle, run = f"{orders.topic}-reader", f"{orders.topic}-idle", tmp_path / "run"
    before = east.topics([orders.topic])[orders.topic].topic_id
    write(pair.home, orders, range(10))
    write(pair.home, more, range(5))
    with pair.engine():
        pair.await_end(pair.away, 10)
        for flow in (pair.there, pair.back):
            pair.await_copied(flow, 10, 5)

    def command(what: str, *options: str) -> tuple[int, str, str]:
        done = mirror(what, str(pair.file), "--flow", str(pair.there), *options, timeout_seconds=400)
        return done.returncode, done.stdout, " ".join(done.stderr.split())

    code, out, err = command("failover", "--mode", "cut-off", "--run-directory", str(run), "--yes", "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "UNKNOWN"), err
    write(pair.home, orders, [98, 99])  # stranded
    write(pair.away, orders, range(10, 15))
    write(pair.away, more, range(5, 7))
    put_group(pair.away, group, orders, 12)
    put_group(pair.home, idle, orders, 9)
    kept = tmp_path / "kept"
    code, out, err = command("stranded", "--json", "--export", str(kept))
    told = json.loads(out)
    assert (code, told["verdict"], told["reason"]) == (1, "FAIL", None), err
    assert told["stranded"] == [{"topic": orders.topic, "partition": 0, "from": 10, "to": 12}]
    assert [each["records"] for each in told["files"]] == [2]
    by_hand = (kept / f"{orders}.jsonl").read_text()
    assert command("stranded", "--export", str(kept))[0] == 2
    with pair.engine():
        pair.await_reason(pair.back, "with records that")
        how = ("--run-directory", str(run), "--yes", "--json")
        code, _, err = command("failback", *how)
        assert (code, "--make-anew" in err, f"{orders}: 2 offsets, from 10 to 11" in err) == (2, True, True), err
        code, out, err = command("failback", *how, "--make-anew", "--dry-run")
        assert code == 0, err
        (estimate,) = [each for each in json.loads(out)["notes"] if "records/s" in each]
        assert (
            "about 22 records (0.0 MB, by the newest 1,000 offsets of each partition), less than a minute" in estimate
        )
        assert east.topics([orders.topic])[orders.topic].topic_id == before

        # The flow home goes on with the other partition: that was taken for what somebody writes to the old topic.
        going_on = threading.Thread(target=write_until_made_anew, args=(pair, more, east, before))
        going_on.start()
        home = Journal(run / "failback" / "journal.jsonl")
        argv = ["failback", str(pair.file), "--flow", str(pair.there), *how, "--make-anew"]
        killed = processes.start(tmp_path, "killed", [sys.executable, "-m", "mirror", *argv], owner_pid=os.getpid())
        wait_until(
            lambda: home.path.exists() and MAKE_ANEW in Progress.of(home.read().entries).proven,
            f"the topic to be made anew; {killed.log_tail(4)}",
            timeout_seconds=PATIENCE_SECONDS,
        )
        killed.kill()
        # The groups' logs have nothing yet: it was refused for that, as often as it was said again.
        code, out, err = command("failback", *how)
        going_on.join()
        told = json.loads(out or "{}")
        assert told, err
        failed = [(each["name"], each["detail"]) for each in told["steps"] if each["verdict"] == "FAIL"]
        assert (code, told["verdict"], failed) == (1, "UNKNOWN", []), (
            err
        )  # of the applications nobody has said anything
        (saved,) = (run / "failback").glob("stranded-*")
        lines = [json.loads(line) for line in (saved / f"{orders}.jsonl").read_text().splitlines()]
        assert [(each["offset"], base64.b64decode(each["value"])) for each in lines] == [
            (10, b"value 98"),
            (11, b"value 99"),
        ]
        assert (saved / f"{orders}.jsonl").read_text() == by_hand
        assert (saved / f"{more}.jsonl").read_text() == ""
        assert f"{idle},{orders.topic},0,9" in (saved / "group-positions.csv").read_text().splitlines()
        assert east.topics([orders.topic])[orders.topic].topic_id != before
        configs = {each.name: each.value for each in east.topic_configs([orders.topic])[orders.topic]}
        assert (configs["segment.bytes"], configs["max.message.bytes"]) == ("7654321", "2000000")
        assert committed(pair.home, group, orders) == 12
        code, out, _ = command("stranded")
        assert (code, "nothing is missing" in " ".join(out.split())) == (0, True), out
        # Home again, and the standby follows.
        write(pair.home, orders, range(15, 20))
        pair.await_end(pair.away, 20)
        for each, least in ((orders, 20), (more, 8)):
            at_home, away = (read(client, each, "read_uncommitted") for client in (pair.home, pair.away))
            assert at_home == away
            assert len(at_home) >= least


def test_the_removed_head_of_a_topic_is_missing_nowhere_and_keeps_no_failback_from_making_it_anew(
    new_pair: Callable[..., Pair], east: Cluster, tmp_path: Path
) -> None:
    """The flow back reported it as removed by the standby, which had padded it: the failback asked for the gap first."""
    pair = new_pair(8, {})
    topic, run = pair.orders.topic, tmp_path / "run"
    partitions = [TopicPartition(topic, number) for number in range(8)]
    for each in partitions:
        write(pair.home, each, range(200))
        delete_records(pair.home, each, 150)

    def command(what: str, *options: str) -> tuple[int, str, str]:
        done = mirror(what, str(pair.file), "--flow", str(pair.there), *options, timeout_seconds=400)
        return done.returncode, done.stdout, " ".join(done.stderr.split())

    def assert_no_gap() -> None:
        found = json.loads(mirror("gaps", str(pair.file), "--json").stdout)
        assert [each for each in found if each.get("topic") == topic] == []

    for _ in range(2):
        with pair.engine() as engine:
            for flow in (pair.there, pair.back):
                pair.await_copied(flow, *[200] * 8)
            assert_no_gap()
            engine.kill()
    with pair.engine():
        pair.await_copied(pair.back, *[200] * 8)

    how = ("--run-directory", str(run), "--yes", "--json")
    code, _, err = command("failover", "--mode", "cut-off", *how)
    assert code == 1, err
    for each in partitions:
        write(pair.home, each, [998, 999])  # stranded
        write(pair.away, each, range(200, 205))
    before = east.topics([topic])[topic].topic_id
    with pair.engine():
        pair.await_reason(pair.back, "with records that")
        code, out, err = command("failback", *how, "--make-anew")
        failed = [(each["name"], each["detail"]) for each in json.loads(out)["steps"] if each["verdict"] == "FAIL"]
        assert (code, failed) == (1, []), err
        assert east.topics([topic])[topic].topic_id != before
        for flow in (pair.there, pair.back):
            pair.await_copied(flow, *[205] * 8)
        assert_no_gap()
    for each in partitions:
        at_home, away = (read(client, each, "read_uncommitted") for client in (pair.home, pair.away))
        assert at_home == away
        assert list(at_home) == list(range(150, 205))


def write_until_made_anew(pair: Pair, partition: TopicPartition, east: Cluster, topic_id: str) -> None:
    """Write on the standby, record by record, until the topic of the old cluster is another one."""
    for number in itertools.count(7):
        write(pair.away, partition, [number])
        now = east.topics([partition.topic]).get(partition.topic)
        if now is None or now.topic_id != topic_id:
            return


@pytest.mark.parametrize("is_stranded", [True, False], ids=["made anew", "kept"])
def test_groups_of_a_topic_of_transactions_are_led_home_to_where_they_were_by_then(
    pair: Pair,
    tmp_path: Path,
    is_stranded: bool,
) -> None:
    """Markers are no records that only the other side has: none puts a group back to where the flow was cut."""
    orders = pair.orders
    run, groups = tmp_path / "run", {f"{orders.topic}-{at}": at for at in (15, 20, 24)}
    write_in_transactions(pair.home, orders, [range(5), range(5, 10)])
    with pair.engine():
        pair.await_end(pair.away, 12)
        pair.await_copied(pair.there, 12)
        pair.await_copied(pair.back, 12)

    def command(what: str, *options: str) -> tuple[int, Any, str]:
        named = ("--flow", str(pair.there), "--run-directory", str(run), "--yes", "--json")
        done = mirror(what, str(pair.file), *named, *options, timeout_seconds=400)
        return done.returncode, json.loads(done.stdout or "{}"), " ".join(done.stderr.split())

    code, told, err = command("failover", "--mode", "cut-off")
    assert (code, told["verdict"]) == (1, "UNKNOWN"), err
    if is_stranded:
        write_in_transactions(pair.home, orders, [[98, 99]])
    write_in_transactions(pair.away, orders, [range(10, 15), range(15, 20)])
    for group, at in groups.items():
        put_group(pair.away, group, orders, at)
    with pair.engine():
        if is_stranded:
            pair.await_reason(pair.back, "with records that")
        else:
            pair.await_end(pair.home, 24)
        code, told, err = command("failback", *(["--make-anew"] if is_stranded else []))
        assert code == 1, err
        failed = [(each["name"], each["detail"]) for each in told["steps"] if each["verdict"] == "FAIL"]
        assert (code, told["verdict"], failed) == (1, "UNKNOWN", []), err
        assert {group: committed(pair.home, group, orders) for group in groups} == groups
        at_home, away = (read(client, orders, "read_committed") for client in (pair.home, pair.away))
        assert at_home == away
        assert [each[2] for each in at_home.values()] == [b"value %d" % number for number in range(20)]
        # Home again, and the standby follows.
        write_in_transactions(pair.home, orders, [range(20, 25)])
        pair.await_end(pair.away, 30)
        assert read(pair.away, orders, "read_committed") == read(pair.home, orders, "read_committed")


def test_a_group_that_has_read_the_stranded_tail_passes_nothing_of_the_topic_that_is_made_anew(
    pair: Pair, tmp_path: Path
) -> None:
    """It was put where it had been in the deleted topic, behind two records that it had never read.

    Of partitions that were copied before `auto.offset.reset = latest` says nothing: the topic was empty then.
    """
    orders = pair.orders
    group, run = f"{orders.topic}-reader", tmp_path / "run"
    write(pair.home, orders, range(10))
    with pair.engine():
        pair.await_end(pair.away, 10)
        for flow in (pair.there, pair.back):
            pair.await_copied(flow, 10)
    write(pair.home, orders, [98, 99])
    put_group(pair.home, group, orders, 12)
    options = ("--flow", str(pair.there), "--run-directory", str(run), "--yes", "--json")
    mirror("failover", str(pair.file), "--mode", "cut-off", *options, timeout_seconds=400)
    assert committed(pair.away, group, orders) == 10
    write(pair.away, orders, range(10, 15))
    pair.settings += f"{pair.back}.consumer.auto.offset.reset = latest\n"
    with pair.engine():
        pair.await_reason(pair.back, "with records that")
        done = mirror("failback", str(pair.file), *options, "--make-anew", timeout_seconds=400)
    told = json.loads(done.stdout)
    assert read(pair.home, orders, "read_uncommitted") == read(pair.away, orders, "read_uncommitted")
    assert len(read(pair.home, orders, "read_uncommitted")) == 15
    (row,) = told["groups"]
    assert (row["after"], row["exact"]) == (10, False), told
    assert committed(pair.home, group, orders) == 10
