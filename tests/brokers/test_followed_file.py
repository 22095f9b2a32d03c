"""An engine whose file changes while it copies: topics come and go, and no record is lost or there twice."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import read_records
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import ends_of
from tests.brokers.engines import Engines


def send(engines: Engines, topic: str, numbers: range) -> None:
    producer = confluent_kafka.Producer(engines.source)
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def copied(engines: Engines, topic: str, until: int) -> list[int]:
    """Return the numbers in the copy of a topic's only partition, once there are so many."""
    copy = TopicPartition(f"{engines.alias}.{topic}", 0)
    said = engines.running["engine"].log_tail

    def found() -> list[int]:
        try:
            return [
                int(each.value or b"-1")
                for each in read_records(engines.target, copy, 0, ends_of(engines.target, [copy])[copy])
            ]
        except Exception:  # noqa: BLE001  # it is not there yet
            return []

    return wait_until(
        found, f"{until} in {copy}; the engine said {said()}", timeout_seconds=120, until=lambda got: len(got) >= until
    )


@contextmanager
def under_load(engines: Engines) -> Iterator[None]:
    over = threading.Event()

    def load_on() -> None:
        while not over.is_set():
            engines.send(50)

    loading = threading.Thread(target=load_on)
    loading.start()
    try:
        yield
    finally:
        over.set()
        loading.join()


@pytest.mark.long
def test_topics_that_the_file_gains_and_loses_are_copied_and_are_not_each_record_once(
    engines: Engines, east: Cluster, unique: Callable[[str], str]
) -> None:
    bills, tours = unique("bills"), unique("tours")
    for each in (bills, tours):
        east.create_topics([NewTopic(each, 1, 1)])
        send(engines, each, range(50))
    engine = engines.running["engine"] = engines.start()
    engines.send(400)
    engines.await_all()

    def copy_only(topics: str, more: str = "") -> None:
        engines.settings = f"{engines.alias}->west.topics = {topics}\n{more}"
        engines.write()
        os.kill(engine.pid, signal.SIGHUP)

    with under_load(engines):
        copy_only(f"{engines.topic}, {bills}")
        assert copied(engines, bills, 50) == list(range(50))
    engines.await_all()
    there = engines.numbers()
    copy_only(f"{bills}, {tours}")
    # The epoch that copies them is of the new choice.
    assert copied(engines, tours, 50) == list(range(50))
    engines.send(200)
    copy_only("(", "mirror.tasks = 3\n")
    send(engines, bills, range(50, 90))
    assert copied(engines, bills, 90) == list(range(90))
    assert engines.numbers() == there
    wait_until(
        lambda: "cannot be used, so what was read before holds" in engine.log_tail(200), "a word", timeout_seconds=60
    )
    # Without a signal: the file is looked at now and then.
    engines.settings = f"{engines.alias}->west.topics = {engines.topic}, {bills}\nmirror.tasks = 3\n"
    engines.write()
    engines.await_all()
    engines.assert_each_once()
    assert copied(engines, bills, 90) == list(range(90))
    assert copied(engines, tours, 50) == list(range(50))
    number = engines.file.read_text().splitlines().index("mirror.tasks = 3") + 1
    wait_until(
        lambda: engines.status()["notes"],
        "what needs a restart",
        timeout_seconds=60,
        until=lambda notes: f"the file has changed: line {number}, mirror.tasks: takes effect after a restart" in notes,
    )
    assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()
