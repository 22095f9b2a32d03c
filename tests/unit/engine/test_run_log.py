"""The log of `mirror run`: one line an event whatever names hold, and nobody waits for who reads it."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirror.engine import run_log
from mirror.engine.run_log import JsonLine, Lines, LogFormat, LogLevel, OneLine, logger_of, set_up
from mirror.escaping import printable
from mirror.waiting import wait_until
from tests.flows import EAST_WEST


@pytest.fixture
def package() -> logging.Logger:
    """The logger of this package."""
    return logging.getLogger("mirror")


def lines_to(descriptor: int, most_waiting: int = 100) -> Lines:
    handler = Lines(descriptor, most_waiting)
    handler.setFormatter(OneLine())
    return handler


def record(text: str, *arguments: object, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("mirror.engine", level, "", 0, text, arguments, None)


def test_a_line_has_time_level_flow_and_no_markup(package: logging.Logger, tmp_path: Path) -> None:
    """A group may be called svc[/prod], [bold] or anything else."""
    with (tmp_path / "log").open("wb") as file:
        set_up(LogLevel.INFO, LogFormat.TEXT, file.fileno())
        logger_of(EAST_WEST).warning("group %s: %s", "svc[/prod]", "[red]refused\n[2026-11-22] \x1b[2J forged")
        logging.getLogger("mirror.engine.run").info("starts")
        logging.getLogger("mirror").debug("not asked for")
        (handler,) = package.handlers
        handler.close()
    warned, started = (tmp_path / "log").read_text().splitlines()
    time = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"
    assert re.fullmatch(
        time + r" WARN east->west: group svc\[/prod\]: \[red\]refused\\n\[2026-11-22\] \\x1b\[2J forged", warned
    )
    assert re.fullmatch(time + " INFO engine: starts", started)


def test_a_second_command_of_a_process_logs_each_line_once(package: logging.Logger, tmp_path: Path) -> None:
    with (tmp_path / "first").open("wb") as first, (tmp_path / "second").open("wb") as second:
        set_up(LogLevel.DEBUG, LogFormat.TEXT, first.fileno())
        logger_of(EAST_WEST).info("one")
        set_up(LogLevel.INFO, LogFormat.TEXT, second.fileno())
        logger_of(EAST_WEST).info("two")
        (handler,) = package.handlers
        handler.close()
    told = [(tmp_path / each).read_text().splitlines() for each in ("first", "second")]
    assert [[line.rpartition(" ")[2] for line in lines] for lines in told] == [["one"], ["two"]]


@pytest.mark.parametrize(
    ("text", "shown"), [("größe-0", "größe-0"), ("a\r\nb", "a\\r\\nb"), ("\udc80", "\\udc80"), ("\u202ex", "\\u202ex")]
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_program_reads_one_json_object_a_line() -> None:
    line = JsonLine()
    plain = logging.LogRecord("mirror.engine", logging.WARNING, "", 0, "west does not\n%s", ("answer",), None)
    plain.created = 1_732_285_446.5
    assert json.loads(line.format(plain)) == {
        "time": "2024-11-22T14:24:06.500Z",
        "level": "WARN",
        "flow": None,
        "message": "west does not\nanswer",
    }
    assert "\n" not in line.format(plain)
    try:
        raise ValueError("of its own")
    except ValueError as defect:
        about = (type(defect), defect, defect.__traceback__)
    ended = logging.LogRecord("mirror.engine", logging.CRITICAL, "", 0, "ended", (), about)
    ended.flow = "east->west"
    found = json.loads(line.format(ended))
    assert (found["level"], found["flow"]) == ("FATAL", "east->west")
    assert found["defect"].endswith("ValueError: of its own")


def test_a_full_disk_ends_nothing_and_what_it_cost_is_said(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    handler = lines_to(full)
    for number in range(3):
        handler.emit(record("line %d", number))
    wait_until(lambda: handler._lost == 3, "three lines to be lost", timeout_seconds=10)
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(file, full)
    handler.emit(record("there is room again"))
    handler.close()
    for each in (full, file):
        os.close(each)
    lost, after = (tmp_path / "log").read_text().splitlines()
    assert "3 lines of this log could not be written: no space left on device" in lost
    assert after.endswith("there is room again")


def test_a_pipe_without_a_reader_ends_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    handler = lines_to(writer)
    handler.emit(record("nobody reads"))
    wait_until(lambda: handler._lost == 1, "the line to be lost", timeout_seconds=10)
    handler.close()
    os.close(writer)


def test_what_could_not_be_written_is_said_at_the_end_if_no_line_follows(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    handler = lines_to(full)
    handler.emit(record("the last line"))
    wait_until(lambda: handler._lost == 1, "the line to be lost", timeout_seconds=60)
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(file, full)
    handler.close()
    for each in (full, file):
        os.close(each)
    (lost,) = (tmp_path / "log").read_text().splitlines()
    assert "1 line of this log could not be written: no space left on device" in lost


def test_a_pipe_that_others_have_made_non_blocking_is_waited_for() -> None:
    """Standard error may be shared with a shell, or another program, that has set it so."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    handler = lines_to(writer)
    lines = [f"{number} {'x' * 10_000}" for number in range(50)]
    for each in lines:
        handler.emit(record(each))
    written = bytearray()
    while written.count(b"\n") < len(lines):
        written += os.read(reader, 1 << 16)
    handler.close()
    for descriptor in (reader, writer):
        os.close(descriptor)
    assert [each.endswith(line) for each, line in zip(written.decode().splitlines(), lines, strict=True)] == [True] * 50


def test_of_a_line_that_broke_off_what_was_written_stands_alone_and_it_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = bytearray()
    everything, nothing = 1 << 20, 0
    takes = iter([nothing, everything, 4, nothing])

    def write(_: int, content: bytes) -> int:
        most = min(next(takes, everything), len(content))
        if most == nothing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.extend(content[:most])
        return most

    monkeypatch.setattr(run_log, "os", SimpleNamespace(write=write))
    handler = lines_to(-1)
    for text in ("nothing of it", "some of it", "all of it"):
        handler.emit(record(text))
    handler.close()
    told, broken_off, told_again, whole = written.decode().splitlines()
    assert "1 line of this log could not be written" in told
    assert len(broken_off) == 4
    assert "1 line of this log could not be written" in told_again
    assert whole.endswith("all of it")


def test_a_reader_that_stands_still_holds_nobody_up() -> None:
    """A terminal on which somebody pressed Ctrl-S: the copy, and who leads, must not depend on it."""
    reader, writer = os.pipe()
    handler = lines_to(writer, most_waiting=10)
    for _ in range(100):
        handler.emit(record("x" * 10_000))
    written = bytearray()
    told = re.compile(rb"(\d+) lines? of this log could not be written: they came faster than they are read")
    # A pipe holds six of them, and ten wait.
    while sum(int(each[1]) for each in told.finditer(written)) < 80:
        handler.emit(record("on it goes"))
        written += os.read(reader, 1 << 20)
    os.close(reader)
    handler.close()
    os.close(writer)
