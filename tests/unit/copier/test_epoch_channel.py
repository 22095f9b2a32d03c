"""The epoch channel that ends an epoch: every task gets the signal, wherever and whenever it listens, and notices when the driver is gone."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from mirror.clock import steady_seconds
from mirror.copier.epoch_channel import CopiedNews, EpochChannel, EpochChannelListener, Signal, Troubles
from mirror.copier.epochs import await_all
from mirror.kafka.problems import ConnectionFailed
from mirror.model.copied import Ages, Copied, Waiting
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice a second is what a driver over a network needs."""
    monkeypatch.setattr("mirror.copier.epoch_channel._BEAT_SECONDS", 0.02)


@pytest.fixture
def epoch_channel() -> Iterator[EpochChannel]:
    with EpochChannel("127.0.0.1") as hung:
        yield hung


@pytest.fixture
def listen() -> Iterator[Callable[[EpochChannel], EpochChannelListener]]:
    """Return a way to listen to an epoch channel that knows it."""
    with ExitStack() as ending:

        def listening(epoch_channel: EpochChannel) -> EpochChannelListener:
            before = epoch_channel.listeners
            listener = ending.enter_context(closing(EpochChannelListener(epoch_channel.address)))
            wait_until(
                lambda: epoch_channel.listeners > before, "the epoch channel to know its listener", timeout_seconds=5
            )
            return listener

        yield listening


Listen = Callable[[EpochChannel], EpochChannelListener]


def heard_by(listener: EpochChannelListener) -> Signal:
    return wait_until(
        listener.signal, "a word from the epoch channel", timeout_seconds=5, until=lambda word: word != Signal.NOTHING
    )


def test_there_is_no_signal_until_the_epoch_is_to_end(epoch_channel: EpochChannel, listen: Listen) -> None:
    listener = listen(epoch_channel)
    assert listener.signal() is Signal.NOTHING
    epoch_channel.end_epoch()
    assert heard_by(listener) is Signal.END


def test_who_comes_late_hears_it_all_the_same(epoch_channel: EpochChannel, listen: Listen) -> None:
    epoch_channel.end_epoch()
    assert heard_by(listen(epoch_channel)) is Signal.END


def test_a_task_that_ends_ends_the_epoch_of_the_others(epoch_channel: EpochChannel, listen: Listen) -> None:
    first, second = listen(epoch_channel), listen(epoch_channel)
    first.close()
    assert heard_by(second) is Signal.END


def test_a_driver_that_is_gone_is_no_signal_to_end(listen: Listen) -> None:
    epoch_channel = EpochChannel("127.0.0.1")
    listener = listen(epoch_channel)
    epoch_channel.close()
    assert heard_by(listener) is Signal.SILENCE


def test_a_driver_that_is_gone_after_a_ring_is_heard_too(epoch_channel: EpochChannel, listen: Listen) -> None:
    listener = listen(epoch_channel)
    epoch_channel.end_epoch()
    assert heard_by(listener) is Signal.END
    epoch_channel.close()
    wait_until(listener.signal, "silence", timeout_seconds=5, until=lambda word: word is Signal.SILENCE)


def test_what_is_wrong_is_told_while_an_epoch_runs_and_only_what_has_changed_of_it() -> None:
    told: list[Troubles] = []
    with (
        EpochChannel("127.0.0.1", told.append) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as listener,
    ):
        first, second = ((Flow("east", "west"), TopicPartition("orders\n", number)) for number in range(2))
        listener.report_troubles({first: "no leader", second: "too few replicas"})
        wait_until(lambda: len(told) == 1, "the first news", timeout_seconds=5)
        listener.report_troubles({first: "no leader", second: "too few replicas"})
        listener.report_troubles({second: "no leader"})
        wait_until(lambda: len(told) == 2, "the second news", timeout_seconds=5)
        assert told == [{first: "no leader", second: "too few replicas"}, {first: None, second: "no leader"}]


def test_how_much_is_copied_is_told_while_an_epoch_runs() -> None:
    told: list[CopiedNews] = []
    with (
        EpochChannel("127.0.0.1", copied=told.append) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as listener,
    ):
        where = Flow("east", "west"), TopicPartition("orders\n", 3)
        news = {where: Copied(7, 70, Ages(2, 30.0, 10.0, 20.0, 10.0), Ages(), Waiting(1_000, 10.5))}
        listener.report_copied(news)
        listener.report_copied({})
        listener.report_troubles({where: "no leader"})
        wait_until(lambda: told, "the news", timeout_seconds=5)
        assert told == [news]


def test_that_a_trouble_of_the_epoch_before_is_over_is_told_once_while_this_one_runs() -> None:
    """A partition went on at once after an outage, and was told to wait until the epoch ended, half a minute later."""
    told: list[Troubles] = []
    with (
        EpochChannel("127.0.0.1", told.append) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as listener,
    ):
        first, second = ((Flow("east", "west"), TopicPartition("orders", number)) for number in range(2))
        listener.report_troubles({second: "no leader"}, {first})
        wait_until(lambda: len(told) == 1, "the first news", timeout_seconds=5)
        listener.report_troubles({second: "no leader"}, {first})
        listener.report_troubles({first: "no leader"}, {first, second})
        wait_until(lambda: len(told) == 2, "the second news", timeout_seconds=5)
        assert told == [{first: None, second: "no leader"}, {first: "no leader", second: None}]


def test_what_a_task_says_is_heard_and_it_knows_when_that_has_gone_out() -> None:
    said: list[tuple[int, str]] = []
    with (
        EpochChannel("127.0.0.1", log=lambda level, text: said.append((level, text))) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as listener,
    ):
        listener.log(30, "orders-3 \n is small")
        wait_until(lambda: listener.has_sent_all, "it to be said", timeout_seconds=5)
        wait_until(lambda: said, "it to be heard", timeout_seconds=5)
        assert not epoch_channel.ending.is_set()
    assert said == [(30, "orders-3 \n is small")]


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"\n", b"\x16\x03\x01\n", b"5.5\n", b"[[1]]\n"])
def test_an_unknown_client_is_disconnected_and_the_epoch_channel_goes_on(
    epoch_channel: EpochChannel, listen: Listen, said: bytes
) -> None:
    listener = listen(epoch_channel)
    with socket.create_connection(epoch_channel.address, timeout=5) as stranger:
        stranger.sendall(said)
        while stranger.recv(64):
            pass
    assert heard_by(listener) is Signal.END
    listen(epoch_channel)


def test_who_ends_the_epoch_waits_for_nobody_even_if_the_channel_is_busy() -> None:
    """Who ends the epoch may hold the very lock that the epoch channel's thread needs to take in what a task has told."""
    is_told, may_go_on = threading.Event(), threading.Event()

    def take_in(_: Troubles) -> None:
        is_told.set()
        wait_until(may_go_on.is_set, "the end to be told", timeout_seconds=60)

    with (
        EpochChannel("127.0.0.1", take_in) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as listener,
    ):
        listener.report_troubles({(Flow("east", "west"), TopicPartition("orders", 0)): "no leader"})
        wait_until(is_told.is_set, "the epoch channel to be busy", timeout_seconds=5)

        def end_epoch() -> None:
            for _ in range(5_000):
                epoch_channel.end_epoch()

        ending = threading.Thread(target=end_epoch, daemon=True)
        ending.start()
        ending.join(20)
        is_stuck = ending.is_alive()
        may_go_on.set()
        assert not is_stuck


def test_a_task_may_write_for_as_long_as_the_driver_says_counted_from_when_it_asked() -> None:
    """Not from when it hears the answer: that may have lain there while the task was stopped."""
    seconds = [600.0]
    with (
        EpochChannel("127.0.0.1", write_seconds=lambda: seconds[0]) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as task,
    ):
        assert not task.may_write
        wait_until(lambda: task.signal() is Signal.NOTHING and task.may_write, "an answer", timeout_seconds=5)
        task.require()
        seconds[0] = 0.0
        wait_until(lambda: task.signal() is Signal.NOTHING and not task.may_write, "another one", timeout_seconds=5)
        with pytest.raises(ConnectionFailed, match="nothing is written"):
            task.require()
        seconds[0] = 600.0
        wait_until(lambda: task.signal() is Signal.NOTHING and task.may_write, "a third one", timeout_seconds=5)
        seconds[0] = -math.inf
        assert heard_by(task) is Signal.SILENCE
        assert not task.may_write


def test_until_when_a_task_may_write_is_known_also_when_nothing_is_heard_of_it_any_more() -> None:
    """One that is cut off goes on for as long as it was told last, or before."""
    seconds = [600.0]
    with EpochChannel("127.0.0.1", write_seconds=lambda: seconds[0]) as epoch_channel:
        assert epoch_channel.write_until == -math.inf, "nobody was told anything"
        with closing(EpochChannelListener(epoch_channel.address)) as task:
            wait_until(lambda: task.signal() is Signal.NOTHING and task.may_write, "an answer", timeout_seconds=60)
            seconds[0] = 0.0
            wait_until(lambda: task.signal() and not task.may_write, "another one", timeout_seconds=60)
        assert epoch_channel.write_until > steady_seconds() + 300.0


def test_who_does_not_listen_otherwise_hears_the_last_answer_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that takes partitions over reads logs for minutes, and then writes something down."""
    seconds = [600.0]
    with (
        EpochChannel("127.0.0.1", write_seconds=lambda: seconds[0]) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as task,
    ):
        task.require_answer()
        seconds[0] = 0.0
        wait_until(lambda: task.signal() is Signal.NOTHING and not task.may_write, "another one", timeout_seconds=5)
        monkeypatch.setattr("mirror.copier.epoch_channel._LAPSE_SECONDS", 0.1)
        with pytest.raises(ConnectionFailed, match="nothing is written"):
            task.require_answer()


def test_answers_that_nobody_has_listened_to_are_heard_at_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as driver,
        closing(EpochChannelListener(driver.getsockname()[:2])) as task,
        driver.accept()[0] as other,
    ):
        task._beats |= dict.fromkeys(range(10_000, 11_000), -1e6)
        task._beats[11_000] = steady_seconds()
        other.sendall(b"".join(b"%d 1.0\n" % number for number in range(10_000, 11_000)) + b"11000 600.0\n")
        wait_until(lambda: task.signal() is Signal.NOTHING and task.may_write, "the last answer", timeout_seconds=5)


def test_an_answer_that_was_long_on_its_way_gives_no_more_time() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as driver,
        closing(EpochChannelListener(driver.getsockname()[:2])) as task,
    ):
        line, _ = driver.accept()
        beat = line.recv(64).split(b"\n")[0]
        task._beats[int(beat)] -= 30.0
        line.send(beat + b" 29.0\n")
        wait_until(lambda: task.signal() and not task._beats.get(int(beat)), "the answer", timeout_seconds=5)
        assert not task.may_write
        line.close()


def test_a_task_that_was_stopped_for_longer_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without having heard anything: its own clock went on."""
    with (
        EpochChannel("127.0.0.1", write_seconds=lambda: 600.0) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as task,
    ):
        wait_until(lambda: task.signal() and task.may_write, "an answer", timeout_seconds=5)
        thawed_at = steady_seconds() + 700
        monkeypatch.setattr("mirror.copier.epoch_channel.steady_seconds", lambda: thawed_at)
        assert not task.may_write


def test_where_no_bell_hangs_nobody_listens() -> None:
    epoch_channel = EpochChannel("127.0.0.1")
    address = epoch_channel.address
    epoch_channel.close()
    with pytest.raises(OSError, match="refused"):
        EpochChannelListener(address)


def test_a_driver_that_has_answered_is_reached(epoch_channel: EpochChannel) -> None:
    with closing(EpochChannelListener.answered(epoch_channel.address)) as listener:
        assert listener.may_write


def test_who_accepts_a_connection_and_does_not_answer_is_not_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall, or a line that is cut behind a proxy: the epoch stood still for 92 s."""
    monkeypatch.setattr("mirror.copier.epoch_channel._FIRST_ANSWER_SECONDS", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(OSError, match=r"127\.0\.0\.1:\d+ is connected, and has not answered for"),
    ):
        EpochChannelListener.answered(silent.getsockname()[:2])


def test_a_driver_that_goes_before_its_first_answer_is_heard_of_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as driver:

        def go() -> None:
            driver.accept()[0].close()

        threading.Thread(target=go).start()
        with closing(EpochChannelListener.answered(driver.getsockname()[:2])) as listener:
            assert listener.signal() is Signal.SILENCE


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\n", b"7 1.0\n", b"0 x\n", b"\x15\x03\x01\n"])
def test_who_answers_something_else_is_not_the_driver(said: bytes) -> None:
    """A proxy that wants another protocol: the task ended by a ValueError of which nobody could tell what was wrong."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:

        def answer() -> None:
            connected, _ = stranger.accept()
            with connected:
                connected.sendall(said)
                while connected.recv(64):
                    pass

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+ is connected, and does not answer as the driver does"):
            EpochChannelListener.answered(stranger.getsockname()[:2])
        answering.join(timeout=5)


def test_it_is_alone_when_the_last_task_has_ended(epoch_channel: EpochChannel, listen: Listen) -> None:
    listener = listen(epoch_channel)
    listener.close()
    wait_until(lambda: epoch_channel.listeners == 0, "the epoch channel to be alone", timeout_seconds=5)


def test_who_is_not_heard_of_is_the_most_silent_task_or_all_before_the_first_has_begun(
    epoch_channel: EpochChannel, listen: Listen
) -> None:
    wait_until(lambda: epoch_channel.silent_seconds() > 0.1, "nobody to be heard of", timeout_seconds=5)
    listen(epoch_channel)
    with socket.create_connection(epoch_channel.address):
        wait_until(lambda: epoch_channel.listeners == 2, "both to listen", timeout_seconds=5)
        wait_until(lambda: epoch_channel.silent_seconds() > 0.1, "the silence of one of two", timeout_seconds=5)
    wait_until(lambda: epoch_channel.silent_seconds() < 0.1, "the silent one to be gone", timeout_seconds=60)


def test_an_epoch_is_over_at_once_when_some_of_its_tasks_find_no_core(
    epoch_channel: EpochChannel, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster has lost a worker: whoever waited for another task to end would find the epoch over."""
    monkeypatch.setattr("mirror.copier.epochs._LOOK_SECONDS", 0.01)
    listen(epoch_channel)
    assert await_all(epoch_channel, 60.0, tasks=2, patience_seconds=0.0)
    assert epoch_channel.most == 1


def test_an_epoch_whose_tasks_have_all_begun_lasts_until_it_is_rung_for(
    epoch_channel: EpochChannel, listen: Listen
) -> None:
    listen(epoch_channel)
    listen(epoch_channel)
    epoch_channel.end_epoch()
    assert not await_all(epoch_channel, 60.0, tasks=2, patience_seconds=0.0)


def test_before_any_task_has_begun_nothing_is_known_of_cores(epoch_channel: EpochChannel) -> None:
    assert not await_all(epoch_channel, 0.01, tasks=2, patience_seconds=0.0)


def test_tasks_are_told_another_address_than_is_listened_on_and_a_port_that_is_let_through() -> None:
    with EpochChannel("localhost", bind="127.0.0.1") as any_port:
        first = any_port.address[1]
    with (
        EpochChannel("localhost", bind="127.0.0.1", port=first) as one,
        EpochChannel("localhost", bind="127.0.0.1", port=first) as next_one,
        closing(EpochChannelListener(next_one.address)) as task,
    ):
        assert one.address[0] == next_one.address[0] == "localhost"
        assert first <= one.address[1] < next_one.address[1] < first + 16
        wait_until(lambda: task.may_write, "an answer", timeout_seconds=5, until=lambda _: bool(next_one.listeners))


def test_where_tasks_connect_is_known_also_when_the_engine_has_stopped_meanwhile() -> None:
    """It was asked of the closed socket: an engine that was told to stop as an epoch began ended by a defect."""
    epoch_channel = EpochChannel("127.0.0.1")
    before = epoch_channel.address
    epoch_channel.disconnect_all()
    epoch_channel.close()
    assert epoch_channel.address == before
