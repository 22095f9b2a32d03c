"""The log of a running engine: Python's ``logging``, one line an event, in the form of Kafka's own logs.

``[2026-11-22 14:24:06,123] WARN east->west: ...``: local time, level, the flow (``engine`` where it is none's), and
what happened. Names that others chose are text: what is not printable is escaped, so an event stays one line. Programs
read the same as JSON.

Invariants:

(a) Nobody waits for who reads the log. Lines go through a queue to a thread of their own: a terminal on which
    somebody pressed Ctrl-S, a full disk or a closed pipe would otherwise end a thread, or a lead. What could not be
    written is counted in the next line that can.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import select
import threading
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias

from mirror.escaping import printable
from mirror.kafka.connecting import in_words
from mirror.model.counts import counted
from mirror.model.flow import Flow

FlowLogger: TypeAlias = logging.LoggerAdapter[logging.Logger]

_PACKAGE = "mirror"
_LINE = "[%(asctime)s] %(log4j_level)s %(flow)s: %(message)s"
_LOG4J_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_MOST_WAITING = 10_000
_CLOSING_SECONDS = 2.0


class LogLevel(StrEnum):
    """From which level on lines are written, in the words of log4j; ``DEBUG`` adds what the libraries warn of."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class LogFormat(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


def logger_of(flow: Flow) -> FlowLogger:
    """Return where lines about a flow go."""
    return logging.LoggerAdapter(logging.getLogger(f"{_PACKAGE}.engine"), {"flow": str(flow)})


class OneLine(logging.Formatter):
    """Kafka's layout; only the traceback of a defect takes further lines."""

    def __init__(self) -> None:
        super().__init__(_LINE, defaults={"flow": "engine"})

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line of a record."""
        record.message = printable(record.message)
        record.log4j_level = _LOG4J_LEVELS.get(record.levelname, record.levelname)
        return super().formatMessage(record)


class JsonLine(logging.Formatter):
    """One JSON object a line: ``{"time", "level", "flow", "message"}``, and ``"defect"`` with a traceback.

    ``time`` is UTC, as ``2026-11-22T14:24:06.123Z``; ``flow`` is null where the line is about none.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
            "level": _LOG4J_LEVELS.get(record.levelname, record.levelname),
            "flow": getattr(record, "flow", None),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["defect"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class Lines(logging.Handler):
    """Writes lines to a file descriptor, in a thread: whoever logs neither waits for a reader nor fails with it.

    Lines that cannot be written (a full disk, a pipe nobody reads) are dropped and counted; their number, with the last
    reason, goes before the next line that can, or at the end. Of one that broke off what was written stands in a line
    of its own. A pipe or socket that takes nothing for now is waited for, also if others have made it non-blocking.
    """

    def __init__(self, descriptor: int, most_waiting: int = _MOST_WAITING) -> None:
        """Write to ``descriptor``, which stays open; at most ``most_waiting`` lines wait to be written."""
        super().__init__()
        self._descriptor = descriptor
        self._waiting: queue.Queue[str | None] = queue.Queue(most_waiting)
        self._lost, self._why = 0, ""
        self._is_broken_off = False
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written."""
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self._lose(1, "they came faster than they are read")
        except Exception:  # noqa: BLE001 - a line that cannot be made must not end what it is about
            self.handleError(record)

    def close(self) -> None:
        """Write what waits, for a moment."""
        try:
            self._waiting.put(None, timeout=_CLOSING_SECONDS)
            self._thread.join(_CLOSING_SECONDS)
        except queue.Full:
            pass  # nobody reads
        super().close()

    def _lose(self, lines: int, why: str) -> None:
        with self._counting:
            self._lost, self._why = self._lost + lines, why

    def _write_all(self) -> None:
        while (line := self._waiting.get()) is not None:
            if self._report_loss():
                self._try(line)
            else:
                self._lose(1, self._why)
        self._report_loss()

    def _report_loss(self) -> bool:
        """Say how much was lost, if anything was; return whether that could be said."""
        with self._counting:
            lost, why, self._lost = self._lost, self._why, 0
        if not lost:
            return True
        try:
            self._write(self._about_loss(lost, why))
        except OSError as problem:
            self._lose(lost, in_words(problem))
            return False
        return True

    def _try(self, line: str) -> None:
        try:
            self._write(line)
        except OSError as problem:
            self._lose(1, in_words(problem))

    def _write(self, line: str) -> None:
        content = f"{line}\n".encode("utf-8", "backslashreplace")
        content = b"\n" + content if self._is_broken_off else content
        while content:
            try:
                written = os.write(self._descriptor, content)
            except BlockingIOError:
                select.select([], [self._descriptor], [])
                continue
            content = content[written:]
            self._is_broken_off = bool(content)

    def _about_loss(self, lost: int, why: str) -> str:
        message = "%s of this log could not be written: %s"
        return self.format(
            logging.LogRecord(_PACKAGE, logging.WARNING, "", 0, message, (counted(lost, "line"), why), None)
        )


def set_up(level: LogLevel, form: LogFormat, descriptor: int) -> None:
    """Have this process's log written to ``descriptor``, once; its last lines are written when the process ends.

    A command that was called in this process before is not logged twice from then on.
    """
    for logger in (logging.getLogger(_PACKAGE), logging.getLogger()):
        for before in [each for each in logger.handlers if isinstance(each, Lines)]:
            logger.removeHandler(before)
            before.close()
    handler = Lines(descriptor)
    handler.setFormatter(JsonLine() if form is LogFormat.JSON else OneLine())
    package = logging.getLogger(_PACKAGE)
    package.setLevel(level.value)
    if level is LogLevel.DEBUG:
        # What fails reaches the log as a problem; the libraries' own lines add detail to that.
        logging.getLogger().addHandler(handler)
    else:
        package.addHandler(handler)
        package.propagate = False
