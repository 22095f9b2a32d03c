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
