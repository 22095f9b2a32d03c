"""Topics mirrored both ways under one name: every record once on both clusters, and none of them goes round (WANT-17)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config.settings import ClusterSettings
from mirror.control.foreign_records import RECENT_MS, find_foreign, foreign_reasons
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import processes
from mirror.lab.processes import ManagedProcess
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.state_values import ForeignWriter
from mirror.waiting import wait_until
from tests.brokers.copying import (
    Copying,
    NewCopying,
    Unique,
    as_program,
    assert_translated,
    can_tell,
    contents,
    ends_of,
    log_of,
    write,
)
from tests.brokers.in_transactions import InTransactions
from tests.flows import flow_work

NewTwoWays = Callable[..., tuple[Copying, Copying]]


@pytest.fixture
def new_two_ways(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique
) -> NewTwoWays:
    """Make a topic on both clusters, and the flows that copy it from each to the other under its name."""

    def make(**flow: Any) -> tuple[Copying, Copying]:
        topic = TopicPartition(unique("orders"), 0)
        sides = {"east": east, "west": west}
        clients = {alias: dict(settings_of(alias).client) for alias in sides}
        names = {alias: (unique(f"mm2-state.{alias}"), unique(f"mm2-offsets.{alias}")) for alias in sides}
        compacted = {"cleanup.policy": "compact"}
        for alias, other in (("east", "west"), ("west", "east")):
            wanted = [NewTopic(topic.topic, 1, 1, {"retention.ms": "-1"})]
            wanted += [NewTopic(name, 1, 1, compacted) for name in names[other]]
            assert [result.problem for result in sides[alias].create_topics(wanted) if result.problem] == []
        for alias, other in (("east", "west"), ("west", "east")):
            asked = [topic, *(TopicPartition(name, 0) for name in names[other])]
            wait_until(
                lambda client=clients[alias], asked=asked: can_tell(client, asked),  # type: ignore[misc]
                "the topics",
                timeout_seconds=60,
            )

        def one_way(source: str, target: str) -> Copying:
            work = flow_work(
                flow=Flow(source, target),
                source_client=clients[source],
                target_client=clients[target],
                state_topic=names[source][0],
                offsets_topic=names[source][1],
                offsets_partitions=1,
                **flow,
            )
            return Copying(work, {topic: topic}, left_out=(names[target][0],))

        return one_way("east", "west"), one_way("west", "east")

    return make


def assert_each_once(forward: Copying, back: Copying, produced: Sequence[Sequence[int]]) -> None:
    """Both logs hold the records of both clusters once, those of each cluster in their order; positions translate."""
    (topic,) = forward.pairs
    first, second = produced
    for copying, own, others in ((forward, first, second), (back, second, first)):
        log = log_of(copying.flow.source_client, topic)
        writers = replace(back if copying is forward else forward).state().writers
        local = [each for each in log if each.producer_id not in writers]
        mirrored = [each for each in log if each.producer_id in writers]
        assert [each.value for each in local] == [b"value %d" % number for number in own]
        assert [each.value for each in mirrored] == [b"value %d" % number for number in others]
        ours = copying.state()
        copies = [each for each in log_of(copying.flow.target_client, topic) if each.producer_id in ours.writers]
        assert contents(copies) == contents(local)
        known = ours.offset_map(topic)
        assert known is not None
        assert_translated(known, local, copies)
        assert ours.positions[topic].upstream == ends_of(copying.flow.source_client, [topic])[topic]
        assert ours.positions[topic].left_out == len(mirrored)


def test_no_record_goes_round(new_two_ways: NewTwoWays, new_process: Callable[[], None]) -> None:
    """Whoever writes next, with ids that the other flow has never seen, its copies are known for what they are."""
    forward, back = new_two_ways()
    (topic,) = forward.pairs
    for life in range(3):
        write(forward.flow.source_client, topic, range(life * 10, life * 10 + 5))
        write(back.flow.source_client, topic, range(1000 + life * 10, 1000 + life * 10 + 7))
        for copying in (forward, back, forward):
            copying.until_caught_up()
        new_process()
    mine = [life * 10 + number for life in range(3) for number in range(5)]
    others = [1000 + life * 10 + number for life in range(3) for number in range(7)]
    assert_each_once(forward, back, (mine, others))
    assert len(forward.state().writers) == 1, "one for all lives"


def test_a_tail_is_matched_against_local_records_alone(
    new_two_ways: NewTwoWays, new_process: Callable[[], None]
) -> None:
    """After a crash the source is compared without what was mirrored there, which was never copied on."""
    forward, back = new_two_ways()
    (topic,) = forward.pairs
    write(forward.flow.source_client, topic, range(3))
    forward.until_caught_up()
    before = dict(forward.handovers)
    for start in (10, 20):
        write(back.flow.source_client, topic, range(1000 + start, 1003 + start))
        back.until_caught_up()
        write(forward.flow.source_client, topic, range(start, start + 4))
    forward.until_caught_up()
    new_process()
    forward.handovers = {source: replace(each, clean=False) for source, each in before.items()}
    result = forward.epoch()[topic]
    assert result.stopped is None
    assert result.skipped_by_match == 8
    forward.until_caught_up()
    back.until_caught_up()
    mine = [*range(3), *range(10, 14), *range(20, 24)]
    assert_each_once(forward, back, (mine, [*range(1010, 1013), *range(1020, 1023)]))


def test_batches_in_transactions_are_known_too(new_two_ways: NewTwoWays, unique: Unique) -> None:
    """The producers of transactional ids are recorded like all others, also when another engine has taken them over."""
    plain, back = new_two_ways(read_committed=True)
    (topic,) = plain.pairs
    forward = InTransactions(plain.flow, plain.pairs, left_out=plain.left_out, prefix=unique("mirror"))
    for life in range(3):
        write(forward.flow.source_client, topic, range(life * 10, life * 10 + 5))
        write(back.flow.source_client, topic, range(1000 + life * 10, 1000 + life * 10 + 7))
        for copying in (forward, back, forward):
            copying.until_caught_up()
        forward.restart()
    forward.close()
    mine = [life * 10 + number for life in range(3) for number in range(5)]
    others = [1000 + life * 10 + number for life in range(3) for number in range(7)]
    assert_each_once(forward, back, (mine, others))


def test_who_else_writes_into_a_copy_is_named(new_copying: NewCopying) -> None:
    """A one-way flow: its own batches say by their offsets that somebody was there, and those batches who it was."""
    copying = new_copying()
    copying.is_watched = True
    (source,) = copying.pairs
    target = copying.pairs[source]
    write(copying.flow.source_client, source, range(3))
    copying.until_caught_up()
    write(copying.flow.target_client, target, range(1000, 1005), enable_idempotence=True)
    write(copying.flow.target_client, target, range(2000, 2002))
    write(copying.flow.source_client, source, range(3, 6))
    result = wait_until(
        lambda: copying.epoch()[source], "the copy to go on", timeout_seconds=60, until=lambda each: each.records > 0
    )
    assert result.foreign == ((3, 10),)
    ids = {each.producer_id for each in log_of(copying.flow.target_client, target) if each.offset in range(3, 8)}
    channel = Channel("west", copying.flow.target_client)
    try:
        found = find_foreign(channel, target, (3, 10), copying.flow.writers, {}, 5)
        again = find_foreign(channel, target, (3, 10), copying.flow.writers, found, 9)
        repeated = find_foreign(channel, target, (3, 10), copying.flow.writers, found, 9, is_again=True)
    finally:
        channel.close()
    (somebody,) = ids
    assert found == {
        (target, somebody): ForeignWriter(target, somebody, 3, 8, 5, 5),
        (target, -1): ForeignWriter(target, -1, 8, 10, 2, 5),
    }
    assert again[target, somebody] == ForeignWriter(target, somebody, 3, 8, 10, 9)
    assert repeated[target, somebody] == ForeignWriter(target, somebody, 3, 8, 5, 9)
    named, plain = sorted(foreign_reasons(found.values(), "west", 10))[::-1]
    assert f"{target} on west has 5 records at offsets 3 to 7 that no mirror wrote (producer id {somebody})" in named
    assert "has 2 records at offsets 8 to 9 that no mirror wrote (a producer without an id)" in plain
    assert foreign_reasons(found.values(), "west", 10 + RECENT_MS) == ()
    assert ForeignWriter(target, 1, 2, 3, 1, 4) == next(
        iter(folded(ForeignWriter(target, 1, 2, 3, 1, 4)).foreign.values())
    )


def folded(one: ForeignWriter) -> FlowState:
    """Read back what is written of it."""
    state = FlowState()
    state.apply(*one.record())
    return state


def test_what_cannot_be_decided_waits(new_two_ways: NewTwoWays, new_process: Callable[[], None]) -> None:
    """A state topic that cannot be read holds the partition up, with the reason, and nothing is copied on trust."""
    forward, back = new_two_ways()
    (topic,) = forward.pairs
    write(forward.flow.source_client, topic, range(3), enable_idempotence=True)
    unreadable = replace(forward, left_out=("no topic can be called this",))
    result = unreadable.epoch(1.0)[topic]
    assert result.records == 0
    assert "were mirrored there cannot be known" in str(result.trouble)
    forward.handovers = unreadable.handovers
    forward.until_caught_up()
    back.until_caught_up()
    assert_each_once(forward, back, (range(3), ()))


@pytest.mark.soak
def test_engines_that_are_killed_at_full_speed_send_nothing_round(new_two_ways: NewTwoWays, tmp_path: Path) -> None:
    """Two processes, one a flow, each killed in turn: new ids appear while the other reads, and every record is there once."""
    forward, back = new_two_ways()
    (topic,) = forward.pairs
    running: dict[str, ManagedProcess] = {}

    def start(name: str, copying: Copying) -> None:
        running[name] = processes.start(
            tmp_path, f"{name}-{len(list(tmp_path.iterdir()))}", as_program(copying), owner_pid=os.getpid()
        )

    start("forward", forward)
    start("back", back)
    mine: list[int] = []
    others: list[int] = []
    for life in range(6):
        before = ends_of(back.flow.source_client, [topic])[topic]
        for produced, copying, first in ((mine, forward, 0), (others, back, 100_000)):
            more = range(first + life * 400, first + life * 400 + 400)
            write(copying.flow.source_client, topic, more, batch_num_messages=10)
            produced.extend(more)
        wait_until(
            lambda: ends_of(back.flow.source_client, [topic])[topic],
            "something to be copied",
            timeout_seconds=60,
            until=lambda end, before=before: end > before + 400,  # type: ignore[misc]
        )
        name, copying = (("forward", forward), ("back", back))[life % 2]
        running[name].kill()
        start(name, copying)
    wait_until(
        lambda: [ends_of(each.flow.source_client, [topic])[topic] for each in (forward, back)],
        "both to be copied",
        timeout_seconds=30,
        until=lambda ends: min(ends) >= len(mine) + len(others),
    )
    for process in running.values():
        process.kill()
    forward.from_the_target()
    back.from_the_target()
    for each in (forward, back, forward):
        each.until_caught_up()
    for copying in (forward, back):
        values = Counter(each.value for each in log_of(copying.flow.source_client, topic))
        assert values == Counter(b"value %d" % number for number in (*mine, *others))
    assert_each_once(forward, back, (mine, others))
