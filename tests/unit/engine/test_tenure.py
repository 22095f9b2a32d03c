"""For how long an engine may write as leader, and who waits for a renewal that is late."""

from __future__ import annotations

import pytest

from mirror.clock import steady_seconds
from mirror.control.tick import NotLeading
from mirror.engine.tenure import Tenure


def test_who_sends_for_others_too_waits_for_no_renewal() -> None:
    """Requests that were handed over just before would go out when the wait is over, and the right with it."""
    tenure = Tenure(600.0)
    with pytest.raises(NotLeading):
        tenure.require_now()
    tenure.renew(steady_seconds())
    tenure.require_now()
    tenure.end()
    with pytest.raises(NotLeading):
        tenure.require_now()
