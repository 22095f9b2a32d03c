"""Several `mirror run` of one file, as processes: one leads, the others stand by, and no record is there twice."""

from __future__ import annotations

import math
import os
import random
import threading

import pytest

from mirror.lab import faults
from mirror.waiting import wait_until
from tests.brokers.engines import Engines


@pytest.mark.parametrize(
    ("after_kill", "after_stop"),
    [
        pytest.param(math.inf, math.inf, id="in the end"),
        # On a machine with nothing else to do.
        pytest.param(15.0, 5.0, id="in time", marks=pytest.mark.soak),
    ],
)
def test_the_second_stands_by_and_copies_when_the_first_is_killed_told_to_stop_or_frozen(
    engines: Engines, after_kill: float, after_stop: float
) -> None:
    """Within 15 s of kill -9, within 5 s of SIGTERM; who was frozen writes nothing when it thaws."""
    first = engines.running["first"] = engines.start()
    engines.send(1_000)
    engines.await_all()
    second = engines.running["second"] = engines.start()
    led = wait_until(
        engines.status,
        "the second to stand by",
        timeout_seconds=60,
        until=lambda found: found["standbys"] and found["state"] == "RUNNING",
    )
    assert [one["pid"] for one in led["standbys"]] == [second.pid]
    assert led["leader"]["pid"] == first.pid

    first.kill()
    engines.send(1_000)
    assert engines.await_all() < after_kill

    third = engines.running["third"] = engines.start()
    wait_until(engines.status, "the third to stand by", timeout_seconds=60, until=lambda found: found["standbys"])
    engines.send(1_000)
    faults.suspend([second])
    engines.send(1_000)
    engines.await_all()
    faults.resume([second])
    engines.send(1_000)
    engines.await_all()
    found = wait_until(
        engines.status, "the thawed one to stand by", timeout_seconds=60, until=lambda one: one["standbys"]
    )
    assert found["leader"]["pid"] == third.pid
    assert [one["pid"] for one in found["standbys"]] == [second.pid]

    telling = threading.Thread(target=lambda: third.terminate(30))
    telling.start()
    engines.send(1_000)
    assert engines.await_all() < after_stop
    telling.join()
    assert third.return_code() == 0, third.log_tail()
    engines.assert_each_once()
    assert second.terminate(30)
    assert second.return_code() == 0, second.log_tail()
    assert engines.status()["state"] == "STOPPED"


@pytest.mark.soak
@pytest.mark.parametrize(
    "settings", ["", "west.exactly.once.source.support = enabled\n"], ids=["default", "exactly-once"]
)
def test_killed_and_frozen_in_turns_two_engines_leave_every_record_once(engines: Engines, settings: str) -> None:
    engines.settings = settings
    chance = random.Random(int(os.environ.get("MIRROR_SOAK_SEED", "1")))
    for name in ("first", "second"):
        engines.running[name] = engines.start()
    for _ in range(int(os.environ.get("MIRROR_SOAK_FAULTS", "100"))):
        engines.send(chance.randrange(1_000, 20_000))
        name = chance.choice(["first", "second"])
        if chance.random() < 0.5:
            faults.suspend([engines.running[name]])
            engines.send(chance.randrange(1_000, 10_000))
            engines.await_all()
            faults.resume([engines.running[name]])
        else:
            engines.running[name].kill()
            engines.running[name] = engines.start()
        engines.send(chance.randrange(1_000, 10_000))
    engines.await_all()
    engines.assert_each_once()
