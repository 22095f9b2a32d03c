"""The log of `mirror run`: one line an event whatever names hold, and nobody waits for who reads it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.engine.run_log import Lines, LogLevel, OneLine, logger_of, printable, set_up
from mirror.waiting import wait_until
from tests.flows import EAST_WEST


@pytest.fixture
def package() -> Iterator[logging.Logger]:
    """The logger of this package, as it was before afterwards."""
    logger, root = logging.getLogger("mirror"), logging.getLogger()
    before = logger.level, logger.propagate, list(logger.handlers), list(root.handlers)
    yield logger
    for each in (logger, root):
        for handler in each.handlers:
            if isinstance(handler, Lines):
                handler.close()
    logger.setLevel(before[0])
    logger.propagate, logger.handlers, root.handlers = before[1:]


def lines_to(descriptor: int, most_waiting: int = 100) -> Lines:
    handler = Lines(descriptor, most_waiting)
    handler.setFormatter(OneLine())
    return handler


def record(text: str, *arguments: object, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("mirror.engine", level, "", 0, text, arguments, None)


def test_a_line_has_time_level_flow_and_no_markup(package: logging.Logger, tmp_path: Path) -> None:
    """A group may be called svc[/prod], [bold] or anything else."""
    with (tmp_path / "log").open("wb") as file:
        set_up(LogLevel.INFO, file.fileno())
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


@pytest.mark.parametrize(
    ("text", "shown"), [("größe-0", "größe-0"), ("a\r\nb", "a\\r\\nb"), ("\udc80", "\\udc80"), ("\u202ex", "\\u202ex")]
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


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
