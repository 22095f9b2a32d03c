"""Pausing a flow: engines that run, that come later and that were frozen append nothing more, and go on when resumed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from mirror.config.resolving import load
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.flow_log import FlowLog
from mirror.engine.flow_pauses import LEFT_OUT
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from mirror.lab import faults
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.model.verdict import Verdict
from mirror.recovery.engine_pausing import EnginePausing
from mirror.recovery.pause import Paused, Resumed, pause, resume
from mirror.waiting import wait_until
from tests.brokers.command import in_process
from tests.brokers.copying import put_group
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_both_ways import committed
from tests.spark.small import small_spark


def flow_of(engines: Engines) -> tuple[MirrorSettings, FlowSettings]:
    settings = load(engines.file)
    (flow,) = settings.enabled_flows
    return settings, flow


def paused(engines: Engines, topics: str | None = None) -> Paused:
    return pause(*flow_of(engines), topics, timeout_seconds=60, by="ann")


def renewals(engines: Engines) -> int:
    """How many times the leader has renewed its claim by now."""
    settings, flow = flow_of(engines)
    log = FlowLog(settings.clusters["west"].client, state_topic(flow.flow.source), alias="west")
    try:
        claim = log.poll().claim
    finally:
        log.close()
    assert claim is not None
    return claim.renewals


def await_renewals(engines: Engines, more: int) -> None:
    """Wait until the leader has gone on leading for a while."""
    before = renewals(engines)
    wait_until(lambda: renewals(engines), "renewals", timeout_seconds=60, until=lambda now: now >= before + more)


def where_a_group_goes_on(engines: Engines, position: int) -> int:
    """Where a group goes on, on the target, that stands at a position of partition 0 on the source."""
    put_group(engines.source, f"readers-of-{engines.topic}", TopicPartition(engines.topic, 0), position)
    done = in_process("offsets", str(engines.file), "--group", f"readers-of-{engines.topic}", "--json")
    (row,) = json.loads(done.stdout)
    assert (row["partition"], row["upstream"]) == (0, position)
    found: int = row["downstream"]
    return found


@contextmanager
def under_load(engines: Engines) -> Iterator[None]:
    """Send as long as this is open."""
    over = threading.Event()

    def load_on() -> None:
        while not over.is_set():
            engines.send(100)

    loading = threading.Thread(target=load_on)
    loading.start()
    try:
        yield
    finally:
        over.set()
        loading.join()


def assert_final(engines: Engines, found: Paused) -> None:
    """What lies in the copies is what the positions say, and none of them is open."""
    assert (found.verdict, found.problem) == (Verdict.PASS, None), found
    there = {each.source.partition: each.upstream for each in found.positions if each.source.topic == engines.topic}
    numbers = engines.numbers()
    assert {number: len(numbers[number]) for number in there} == there


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param("", id="default"),
        pytest.param("west.exactly.once.source.support = enabled\n", id="exactly-once", marks=pytest.mark.soak),
    ],
)
@pytest.mark.long
def test_nothing_is_appended_from_the_confirmation_of_a_pause_on_until_it_is_resumed(
    engines: Engines, settings: str
) -> None:
    """Not by the engine that runs, nor by the one that takes over when that is killed."""
    engines.settings, engines.heartbeats = settings, ""
    first = engines.running["first"] = engines.start()
    engines.send(2_000)
    engines.await_all()
    with under_load(engines):
        found = paused(engines)
        assert_final(engines, found)
        assert found.has_engine
        # The flow mirrors heartbeats as well.
        assert len(found.positions) > PARTITIONS
        numbers = engines.numbers()
        await_renewals(engines, 2)
    assert engines.numbers() == numbers
    assert sum(map(len, numbers)) < engines.sent
    status = engines.status()
    assert (status["state"], status["pause_confirmed"], status["reasons"]) == ("PAUSED", True, [])
    assert [(each["topics"], each["by"]) for each in status["pauses"]] == [(None, "ann")]
    assert {each["is_paused"] for each in status["partitions"]} == {True}
    assert in_process("plan", str(engines.file)).returncode == 0
    small_spark(engines.directory)
    verified = in_process("verify", str(engines.file), "--json")
    assert json.loads(verified.stdout)["verdict"] == "PASS", verified.stdout
    position = next(each for each in found.positions if each.source == TopicPartition(engines.topic, 0))
    assert where_a_group_goes_on(engines, engines.sent // PARTITIONS) <= position.downstream

    first.kill()
    second = engines.running["second"] = engines.start()
    wait_until(
        engines.status,
        "the second to lead",
        timeout_seconds=90,
        until=lambda now: (now["leader"] or {}).get("pid") == second.pid and now["state"] == "PAUSED",
    )
    again = paused(engines)
    assert again.has_engine
    assert_final(engines, again)
    assert engines.numbers() == numbers

    done = resume(*flow_of(engines), timeout_seconds=60)
    assert (done.verdict, done.has_engine) == (Verdict.PASS, True)
    engines.await_all()
    engines.assert_each_once()
    assert wait_until(engines.status, "it to run", timeout_seconds=60, until=lambda now: now["state"] == "RUNNING")
    assert second.terminate(60)


@pytest.mark.soak
def test_a_pause_is_confirmed_and_honoured_within_two_seconds_on_a_machine_with_nothing_else_to_do(
    engines: Engines,
) -> None:
    first = engines.running["first"] = engines.start()
    engines.send(2_000)
    engines.await_all()
    took = []
    with under_load(engines):
        for _ in range(5):
            began = time.monotonic()
            assert paused(engines).verdict is Verdict.PASS
            took.append(time.monotonic() - began)
            resume(*flow_of(engines), timeout_seconds=60)
    assert max(took) < 2.0, took
    assert first.terminate(60)


@pytest.mark.long
def test_a_leader_that_was_frozen_before_the_pause_appends_nothing_when_it_thaws(engines: Engines) -> None:
    first = engines.running["first"] = engines.start()
    engines.send(1_000)
    engines.await_all()
    faults.suspend([first])
    engines.send(1_000)
    found = paused(engines)
    assert found.confirmed_by == "no engine leads the flow"
    assert not found.has_engine
    numbers = engines.numbers()
    faults.resume([first])
    again = wait_until(
        lambda: paused(engines), "the thawed one to lead again", timeout_seconds=90, until=lambda now: now.has_engine
    )
    assert_final(engines, again)
    assert engines.numbers() == numbers
    resume(*flow_of(engines), timeout_seconds=60)
    engines.await_all()
    engines.assert_each_once()
    assert first.terminate(60)


@pytest.mark.long
def test_with_no_engine_the_wish_is_on_record_for_the_next_one_and_the_positions_of_a_clean_stop_are_final(
    engines: Engines,
) -> None:
    never = paused(engines)
    assert (never.verdict, never.has_engine, never.positions) == (Verdict.PASS, False, ())
    assert "no engine has ever led the flow" in str(never.confirmed_by)
    engines.send(400)
    first = engines.running["first"] = engines.start()
    wait_until(engines.status, "the pause", timeout_seconds=90, until=lambda now: now["state"] == "PAUSED")
    confirmed = paused(engines)
    assert confirmed.has_engine
    assert engines.copied() == 0
    resume(*flow_of(engines), timeout_seconds=60)
    engines.await_all()
    assert first.terminate(60)
    stopped = paused(engines)
    assert not stopped.has_engine
    assert_final(engines, stopped)
    assert engines.status()["state"] == "STOPPED"
    killed = engines.running["killed"] = engines.start()
    resume(*flow_of(engines), timeout_seconds=60)
    wait_until(engines.status, "the next to run", timeout_seconds=90, until=lambda now: now["state"] == "RUNNING")
    engines.send(400)
    engines.await_all()
    killed.kill()
    after_kill = paused(engines)
    assert after_kill.confirmed_by == "no engine leads the flow"
    # How far it had copied is not known before the next engine has compared, and nobody says that it was.
    assert after_kill.verdict is Verdict.UNKNOWN
    assert set(after_kill.open_ends.values()) == {
        "the engine ended, or was stopped, before it had said how far it had copied"
    }


@pytest.mark.long
def test_what_was_written_during_a_pause_is_copied_also_where_a_copy_begins_at_the_end_of_its_source(
    engines: Engines,
) -> None:
    """The flow knew the topic: what it leaves out is what was there before it did."""
    engines.settings = f"{engines.alias}->west.consumer.auto.offset.reset = latest\n"
    paused(engines)
    first = engines.running["first"] = engines.start()
    wait_until(engines.status, "the pause", timeout_seconds=90, until=lambda now: now["state"] == "PAUSED")
    assert paused(engines).verdict is Verdict.PASS
    engines.send(400)
    resume(*flow_of(engines), timeout_seconds=60)
    engines.await_all()
    engines.assert_each_once()
    assert first.terminate(60)


@pytest.mark.long
def test_a_pause_outlives_the_loss_of_the_state_topic_and_who_cannot_know_of_it_says_so(
    engines: Engines, west: Cluster
) -> None:
    first = engines.running["first"] = engines.start()
    engines.send(400)
    engines.await_all()
    before = paused(engines)
    assert_final(engines, before)
    numbers = engines.numbers()
    _, flow = flow_of(engines)
    topic = state_topic(flow.flow.source)
    with under_load(engines):
        west.delete_topics([topic])
        told = wait_until(
            engines.status,
            "the pause to be on record again",
            timeout_seconds=120,
            until=lambda now: bool(now["pauses"]) and any("written again" in note for note in now["notes"]),
        )
        assert any("1 pause" in note for note in told["notes"]), told["notes"]
        assert paused(engines).confirmed_by is not None
        await_renewals(engines, 2)
    assert engines.numbers() == numbers
    first.kill()
    west.delete_topics([topic])
    second = engines.running["second"] = engines.start()
    lost = wait_until(
        engines.status,
        "the loss to be told",
        timeout_seconds=120,
        until=lambda now: any("a topic that was paused is copied again" in reason for reason in now["reasons"]),
    )
    assert lost["state"] == "DEGRADED"
    engines.await_all()
    engines.assert_each_once()
    assert second.terminate(60)


def test_of_people_who_pause_and_resume_at_once_the_last_wins_as_a_whole(engines: Engines) -> None:
    """And the one before is told, or was served before."""
    paused(engines)
    settings, flow = flow_of(engines)
    found: list[Paused | Resumed] = []

    def wish_for(topics: str | None, wished: Callable[..., Paused | Resumed]) -> None:
        found.append(wished(settings, flow, topics, timeout_seconds=60))

    wishes = [(None, pause), (None, resume), (None, pause), (None, resume)]
    people = [threading.Thread(target=wish_for, args=each) for each in wishes]
    for each in people:
        each.start()
    for each in people:
        each.join()
    with closing(FlowLog(settings.clusters["west"].client, state_topic(flow.flow.source), alias="west")) as log:
        (last,) = log.poll().wishes.wishes
    (served,) = [each for each in found if each.wish == last]
    assert served.verdict is Verdict.PASS
    others = [each for each in found if each is not served]
    assert all(each.verdict is Verdict.PASS or "paused or resumed since" in str(each.problem) for each in others)


@pytest.mark.long
def test_some_topics_are_paused_and_others_copied_and_the_command_says_so(
    engines: Engines, east: Cluster, unique: Callable[[str], str]
) -> None:
    other = unique("bills")
    east.create_topics([NewTopic(other, 1, 1)])
    engines.settings = f"{engines.alias}->west.topics = {engines.topic}, {other}\n"
    first = engines.running["first"] = engines.start()
    engines.send(400)
    engines.await_all()

    def command(*argv: str) -> tuple[int, str, str]:
        done = in_process(*argv)
        return done.returncode, done.stdout, done.stderr

    file = str(engines.file)
    code, out, _ = command("pause", file, "--topics", "bills-.*", "--dry-run", "--json")
    assert (code, json.loads(out)["changed"]) == (0, [other])
    code, _, err = command("pause", file, "--topics", "bills-.*")
    assert code == 2
    assert "--yes" in err
    code, out, err = command("pause", file, "--topics", "bills-.*", "--yes", "--json", "--by", "ann")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert (said["verdict"], said["engine_runs"], said["problem"]) == ("PASS", True, None)
    assert [each["topic"] for each in said["positions"]] == [other]
    engines.send(400)
    engines.await_all()
    status = engines.status()
    assert {each["topic"] for each in status["partitions"] if each["is_paused"]} == {other}
    code, out, _ = command("resume", file, "--yes", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "PASS")
    assert engines.status()["pauses"] == []
    assert first.terminate(60)


@pytest.mark.long
def test_pauses_by_hand_are_as_before_when_the_cut_of_a_failover_is_taken_back(
    engines: Engines, east: Cluster, unique: Callable[[str], str]
) -> None:
    """The cut stops everything, the engine honours it, and ending it resumes nothing that somebody had paused."""
    other = unique("bills")
    east.create_topics([NewTopic(other, 1, 1)])
    engines.settings = f"{engines.alias}->west.topics = {engines.topic}, {other}\n"
    first = engines.running["first"] = engines.start()
    engines.send(400)
    engines.await_all()
    settings, flow = flow_of(engines)
    by_hand = paused(engines, "bills-.*")
    pausing = EnginePausing(settings, awaits_open_ends=False)

    pausing.pause(flow.flow)
    assert {each["is_paused"] for each in engines.status()["partitions"]} == {True}
    pausing.pause(flow.flow)
    said = pausing.resume(flow.flow)
    status = engines.status()
    assert {each["topic"] for each in status["partitions"] if each["is_paused"]} == {other}
    assert [(each["topics"], each["by"]) for each in status["pauses"]] == [("bills-.*", "ann")]
    assert "paused by hand as before: topics that match bills-.*, paused by ann" in said
    assert status["cut"] is False
    with closing(FlowLog(settings.clusters["west"].client, state_topic(flow.flow.source), alias="west")) as log:
        assert log.poll().pauses.has(by_hand.wish.wish)
        assert b'["pause",null,"cut"]' not in dict(log.records()), "a version without cuts would copy nothing"
    engines.send(400)
    engines.await_all()
    assert "paused by hand" in pausing.resume(flow.flow), "ending it once more changes nothing"

    pausing.pause(flow.flow)
    part = resume(settings, flow, "bills-.*", timeout_seconds=60)
    assert "nothing is copied until the failover is taken back" in str(part.problem)
    whole = resume(settings, flow, timeout_seconds=60)
    assert (whole.verdict, engines.status()["pauses"]) == (Verdict.PASS, [])
    assert first.terminate(60)


@pytest.mark.long
def test_while_a_flow_is_failed_over_groups_on_its_target_and_settings_of_its_copies_are_left_as_they_are(
    engines: Engines, east: Cluster, west: Cluster
) -> None:
    """The source may come back with other settings, and with groups that somebody has set to the end."""
    group = f"{engines.topic}-nightly"
    copy = f"{engines.alias}.{engines.topic}"

    def retention(cluster: Cluster, topic: str) -> str | None:
        return {each.name: each.value for each in cluster.topic_configs([topic])[topic]}["retention.ms"]

    def keeps(cluster: Cluster, topic: str, milliseconds: str) -> None:
        (done,) = cluster.alter_configs({topic: ConfigChange({"retention.ms": milliseconds})})
        assert done.problem is None

    keeps(east, engines.topic, "3600000")
    keys = ("sync.topic.configs", "emit.checkpoints", "sync.group.offsets", "refresh.groups")
    engines.settings = "sync.group.offsets.enabled = true\n" + "".join(f"{key}.interval.seconds = 1\n" for key in keys)
    first = engines.running["first"] = engines.start()
    engines.send(400)
    engines.await_all()
    engines.commit("nightly", 10)

    def await_place(of_group: int) -> None:
        wait_until(
            lambda: committed(engines.target, group, TopicPartition(copy, 0)),
            "the group on the target",
            timeout_seconds=60,
            until=lambda at: at == of_group,
        )

    await_place(10)
    assert retention(west, copy) == "3600000"
    settings, flow = flow_of(engines)
    pausing = EnginePausing(settings, awaits_open_ends=False)
    pausing.pause(flow.flow)
    wait_until(
        lambda: engines.status()["notes"],
        "the engine to say so",
        timeout_seconds=60,
        until=lambda notes: (
            {f"{each} {flow.flow}: {LEFT_OUT}" for each in ("topic configs", "group offsets")} <= {*notes}
        ),
    )
    keeps(west, copy, "7200000")
    engines.commit("nightly", 100)
    await_renewals(engines, 5)
    assert retention(west, copy) == "7200000"
    assert committed(engines.target, group, TopicPartition(copy, 0)) == 10
    pausing.resume(flow.flow)
    wait_until(
        lambda: retention(west, copy), "its source's", timeout_seconds=60, until=lambda found: found == "3600000"
    )
    await_place(100)
    assert first.terminate(60)
