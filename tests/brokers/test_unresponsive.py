"""What is reported of a broker that answers nothing any more."""

from __future__ import annotations

import pytest

from mirror.lab import clusters, faults
from mirror.lab.brokers import EmbeddedBroker
from tests.brokers import unresponsive
from tests.brokers.unresponsive import unresponsive_brokers


def test_a_broker_that_answers_nothing_is_named_with_what_it_does(
    mortal: clusters.LabCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen, or with its threads waiting for each other."""
    (broker,) = mortal.brokers
    assert isinstance(broker, EmbeddedBroker)
    assert broker.process is not None
    assert list(unresponsive_brokers([mortal])) == []
    faults.suspend([broker.process])
    ((name, frozen),) = unresponsive_brokers([mortal])
    faults.resume([broker.process])
    assert "answers nothing" in name
    assert "is stopped (SIGSTOP)" in frozen
    monkeypatch.setattr(unresponsive, "_answers", lambda _: False)
    ((_, waiting),) = unresponsive_brokers([mortal])
    assert "data-plane-kafka-request-handler-0" in waiting
    broker.process.kill()
    ((name, ended),) = unresponsive_brokers([mortal])
    assert "has ended" in name
    assert ended.startswith("return code -9")
