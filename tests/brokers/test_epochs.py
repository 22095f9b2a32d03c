"""Epochs on Spark: they end when they are told to, and what happens to a worker costs time and no record."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import confluent_kafka
import psutil
import pytest

from mirror.copier.epochs import EpochFailed, Epochs
from mirror.copier.work import PartitionWork, TaskResult, TaskWork
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, NewCopying

AN_HOUR = 3600.0


@pytest.fixture(scope="module")
def epochs() -> Iterator[Epochs]:
    """Spark with two tasks an epoch, for all tests of this file."""
    running = Epochs("local[2]", 2)
    running.start()
    yield running
    running.stop()


def work_of(copying: Copying) -> list[TaskWork]:
    """Return an epoch of an hour, a task for each partition."""
    copying.take_producer()
    return [
        TaskWork(
            (copying.flow,),
            (
                PartitionWork(
                    copying.flow.flow,
                    source,
                    target,
                    "",
                    copying.handovers.get(source),
                    sequence=copying.sequences.get(target, 0),
                ),
            ),
            AN_HOUR,
            0.1,
        )
        for source, target in copying.pairs.items()
    ]


class Running:
    """An epoch that runs in a thread."""

    def __init__(self, epochs: Epochs, works: list[TaskWork]) -> None:
        self.results: list[TaskResult] = []
        self.failure: EpochFailed | None = None
        self._thread = threading.Thread(target=self._run, args=(epochs, works), daemon=True)
        self._thread.start()

    def _run(self, epochs: Epochs, works: list[TaskWork]) -> None:
        try:
            self.results = epochs.run(works)
        except EpochFailed as failure:
            self.failure = failure

    def has_ended(self) -> bool:
        return not self._thread.is_alive()


def send(copying: Copying, count: int) -> None:
    producer = confluent_kafka.Producer(dict(copying.flow.source_client))
    for source in copying.pairs:
        for number in range(count):
            producer.produce(source.topic, b"%d" % number, partition=source.partition)
    producer.flush()


def recorded(copying: Copying) -> dict[int, int]:
    return {source.partition: position.upstream for source, position in copying.state().positions.items()}


def take(copying: Copying, running: Running) -> None:
    for result in running.results:
        for each in result.partitions:
            assert each.handover is not None
            copying.handovers[each.source] = each.handover


def test_an_epoch_ends_when_it_is_told_to_and_all_that_was_copied_is_recorded(
    epochs: Epochs, new_copying: NewCopying
) -> None:
    copying = new_copying(partitions=2)
    send(copying, 100)
    running = Running(epochs, work_of(copying))
    wait_until(
        lambda: recorded(copying), "all to be copied", timeout_seconds=60, until=lambda at: at == {0: 100, 1: 100}
    )
    assert not running.has_ended()
    epochs.end_epoch()
    wait_until(running.has_ended, "the epoch to end", timeout_seconds=60)
    take(copying, running)
    assert all(handover.clean and handover.is_recorded for handover in copying.handovers.values())
    assert {source.partition: each.position.upstream for source, each in copying.handovers.items()} == {0: 100, 1: 100}


def test_a_ring_between_two_epochs_ends_the_next(epochs: Epochs, new_copying: NewCopying) -> None:
    copying = new_copying(partitions=2)
    epochs.end_epoch()
    running = Running(epochs, work_of(copying))
    wait_until(running.has_ended, "the epoch to end", timeout_seconds=60)
    assert running.failure is None


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        # It takes until the engine is out of patience.
        pytest.param(signal.SIGSTOP, id="frozen", marks=pytest.mark.soak),
    ],
)
def test_a_lost_worker_costs_an_epoch_and_no_record(
    how: signal.Signals, epochs: Epochs, new_copying: NewCopying, a_worker: Callable[[], psutil.Process]
) -> None:
    copying = new_copying(partitions=2)
    send(copying, 100)
    running = Running(epochs, work_of(copying))
    wait_until(
        lambda: recorded(copying), "all to be copied", timeout_seconds=60, until=lambda at: at == {0: 100, 1: 100}
    )
    send(copying, 2_000)
    lost = a_worker()
    lost.send_signal(how)
    if how is signal.SIGSTOP:
        epochs.end_epoch()
    wait_until(running.has_ended, "the epoch to end", timeout_seconds=90)
    assert running.failure is not None
    copying.from_the_target()
    send(copying, 100)
    following = Running(epochs, work_of(copying))
    wait_until(
        lambda: recorded(copying), "all to be copied", timeout_seconds=60, until=lambda at: at == {0: 2200, 1: 2200}
    )
    epochs.end_epoch()
    wait_until(following.has_ended, "the epoch to end", timeout_seconds=60)
    for source in copying.pairs:
        assert [record.value for record in copying.copies(source)] == [r.value for r in copying.originals(source)]


def test_a_frozen_worker_is_known_while_the_epoch_goes_on(
    epochs: Epochs, new_copying: NewCopying, a_worker: Callable[[], psutil.Process]
) -> None:
    """Whoever leads the flow tells so: nothing else shows it before the epoch is over."""
    copying = new_copying(partitions=2)
    send(copying, 10)
    running = Running(epochs, work_of(copying))
    wait_until(
        lambda: recorded(copying), "all to be copied", timeout_seconds=120, until=lambda at: at == {0: 10, 1: 10}
    )
    frozen = a_worker()
    frozen.suspend()
    wait_until(lambda: epochs.silent_seconds() > 2, "the silence of a task", timeout_seconds=120)
    assert not running.has_ended()
    frozen.resume()
    wait_until(lambda: epochs.silent_seconds() < 1, "all tasks to be heard of", timeout_seconds=120)
    epochs.end_epoch()
    wait_until(running.has_ended, "the epoch to end", timeout_seconds=120)
    assert (running.failure, epochs.silent_seconds()) == (None, 0.0)


@pytest.fixture
def a_worker() -> Iterator[Callable[[], psutil.Process]]:
    """Find one of Spark's Python workers that copies; none is left behind."""
    found: list[psutil.Process] = []

    def find() -> psutil.Process:
        children = psutil.Process(os.getpid()).children(recursive=True)
        living = [each for each in children if each.status() != psutil.STATUS_ZOMBIE]
        daemons = [each for each in living if "pyspark.worker" in " ".join(each.cmdline())]
        parents = {each.pid for each in daemons}
        worker = next(each for each in daemons if each.ppid() in parents)
        found.append(worker)
        return worker

    yield find
    for each in found:
        if each.is_running():
            each.kill()
