"""Where the source's brokers are stands on record on the target, and follows them."""

from __future__ import annotations

from typing import Any

from mirror.control.source_brokers import SourceBrokersTick
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.state_values import source_record


class Log:
    def __init__(self) -> None:
        self.state = FlowState()
        self.appended = 0

    def append(self, topic: str, partition: int, records: Any) -> int:
        assert (topic, partition) == ("mm2-state.east.internal", 0)
        for key, value, *_ in records:
            self.state.apply(key, value)
            self.appended += 1
        return 0


class Source:
    cluster_id = "one"
    brokers: tuple[str, ...] = ("a:1", "b:2")

    def broker_addresses(self) -> tuple[str, ...]:
        return self.brokers


def test_brokers_are_recorded_once_and_again_when_they_change() -> None:
    log, source = Log(), Source()
    tick = SourceBrokersTick(Flow("east", "west"), log, source, log).tick  # type: ignore[arg-type]
    tick()
    assert log.appended == 0, "whose brokers these are is on record first"
    log.state.apply(*source_record("one"))
    assert log.state.source_brokers == ()
    tick()
    tick()
    assert (log.state.source_id, log.state.source_brokers, log.appended) == ("one", ("a:1", "b:2"), 1)
    source.brokers = ("b:2", "c:3")
    tick()
    assert log.state.source_brokers == ("b:2", "c:3")
    source.cluster_id = "another"
    source.brokers = ("z:9",)
    tick()
    assert log.state.source_brokers == ("b:2", "c:3")
