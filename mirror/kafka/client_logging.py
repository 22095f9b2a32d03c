"""What kafka-python may say in the log: news, once a minute, not each of its reconnection attempts.

Whatever fails reaches the caller as an exception or a problem; the library's own lines only add detail to that. While a
broker is away it writes several of them a second for every client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_LIBRARY = "kafka"
_REPEAT_AFTER_SECONDS = 60.0


class OnlyNews(logging.Handler):
    """Pass a record on to the root logger's handlers unless its like was passed on within the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._logged_at: dict[tuple[str, int], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Pass ``record`` on if the line of code that wrote it has been silent for a minute."""
        written_at = (record.pathname, record.lineno)
        now = self._clock()
        logged_at = self._logged_at.get(written_at)
        if logged_at is not None and now - logged_at < _REPEAT_AFTER_SECONDS:
            return
        self._logged_at[written_at] = now
        root = logging.getLogger()
        # Where nobody set up logging, nobody asked for details.
        if root.handlers and record.levelno >= root.getEffectiveLevel():
            root.callHandlers(record)


def keep_client_quiet() -> None:
    """Let kafka-python's loggers speak only of news; calling it again changes nothing."""
    logger = logging.getLogger(_LIBRARY)
    if any(isinstance(handler, OnlyNews) for handler in logger.handlers):
        return
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(OnlyNews())
