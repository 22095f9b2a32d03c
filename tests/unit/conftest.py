"""How thorough property tests are: ``--hypothesis-profile=thorough`` tries many other examples, as `make soak` does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings

from mirror.engine.run_log import Lines
from mirror.waiting import wait_until

# A machine that is busy with brokers is slow: no law is broken by that.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# The same ones each time: what fails on somebody's change is what that has broken.
settings.register_profile("quick", _PATIENT, max_examples=20, derandomize=True)
settings.register_profile("thorough", _PATIENT, max_examples=1000)
settings.load_profile("quick")


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a unit test waits for is there within milliseconds, and asking for it costs no broker anything."""
    monkeypatch.setitem(cast(Any, wait_until).__kwdefaults__, "longest_pause_seconds", 0.02)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of entries are written here, and none has to outlast the machine."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Leave the log of this process as it was: a command that is called in it sets it up for good."""
    loggers = logging.getLogger("mirror"), logging.getLogger()
    before = [(each.level, each.propagate) for each in loggers]
    yield
    for logger, (level, propagate) in zip(loggers, before, strict=True):
        for handler in [each for each in logger.handlers if isinstance(each, Lines)]:
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(level)
        logger.propagate = propagate
