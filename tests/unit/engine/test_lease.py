"""For how long an engine may write as leader, and who waits for a renewal that is late."""

from __future__ import annotations

import pytest

from mirror.clock import steady_seconds
from mirror.control.tick import NotLeading
from mirror.engine.lease import Lease


def test_who_sends_for_others_too_waits_for_no_renewal() -> None:
    """Requests that were handed over just before would go out when the wait is over, and the right with it."""
    lease = Lease(600.0)
    with pytest.raises(NotLeading):
        lease.require_now()
    lease.renew(steady_seconds())
    lease.require_now()
    lease.end()
    with pytest.raises(NotLeading):
        lease.require_now()


def test_the_term_goes_on_while_the_right_to_write_is_not_renewed() -> None:
    """Without a state topic it cannot be; whoever leads as far as it knows makes one."""
    lease = Lease(0.0)
    lease.require_term()
    lease.end()
    with pytest.raises(NotLeading):
        lease.require_term()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which stands still unless a test moves it."""
    now = [1000.0]
    monkeypatch.setattr("mirror.engine.lease.steady_seconds", lambda: now[0])
    return now


def test_a_right_lasts_from_when_its_newest_renewal_was_sent(clock: list[float]) -> None:
    """Not from when that was answered: others count from what they read, which may have been written long before."""
    lease = Lease(10.0)
    assert lease.left == -float("inf"), "before the first renewal there is none"
    lease.renew(sent_at=996.0)
    assert lease.left == 6.0
    lease.renew(sent_at=994.0)
    assert lease.left == 6.0, "an older one, heard of later, takes nothing away"
    clock[0] = 1006.0
    with pytest.raises(NotLeading):
        lease.require_now()


def test_a_term_that_has_ended_is_never_had_again() -> None:
    lease = Lease(10.0)
    lease.end()
    lease.renew(steady_seconds())
    assert lease.left == -float("inf")
    for asked in (lease.require, lease.require_now, lease.require_term):
        with pytest.raises(NotLeading):
            asked()


def test_who_waited_in_vain_for_a_renewal_writes_nothing() -> None:
    lease = Lease(0.001)
    with pytest.raises(NotLeading):
        lease.require()


def test_an_engine_is_alone_once_the_right_of_the_leader_before_has_been_over_for_the_time_of_grace(
    clock: list[float],
) -> None:
    lease = Lease(10.0, former_seconds=20.0)
    clock[0] = 1019.9
    assert not lease.is_alone()
    clock[0] = 1020.0
    assert lease.is_alone()
    assert not lease.is_alone(grace_seconds=5.0)
    clock[0] = 1025.0
    assert lease.is_alone(grace_seconds=5.0)
