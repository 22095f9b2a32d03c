"""Brokers start without an archive of their classes where there is none, or only half a one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.lab import class_archive
from mirror.lab.brokers import EmbeddedBroker, EmbeddedCluster
from mirror.lab.errors import BrokerError
from mirror.lab.java import Java
from mirror.lab.runtime import KafkaRuntime


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaRuntime:
    """A Java and jars, without an archive."""
    found = KafkaRuntime(Java(Path("/j/java"), "17"), tmp_path)
    monkeypatch.setattr(class_archive.kafka_runtime, "prepare", lambda *_: found)
    return found


def test_a_training_broker_that_does_not_start_leaves_one_line(
    runtime: KafkaRuntime, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise BrokerError("training broker-1 ended while it started; it logged last:\nmuch")

    monkeypatch.setattr(EmbeddedCluster, "start", fail)

    assert class_archive.prepare() == runtime
    (line,) = capfd.readouterr().err.splitlines()
    assert "training broker-1 ended while it started" in line


def test_a_training_broker_that_was_killed_leaves_one_line(
    runtime: KafkaRuntime, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EmbeddedCluster, "start", lambda *_: None)
    monkeypatch.setattr(EmbeddedBroker, "stop", lambda *_: None)

    assert class_archive.prepare() == runtime
    (line,) = capfd.readouterr().err.splitlines()
    assert "ended with status None" in line


def test_half_an_archive_is_not_given_to_a_broker(runtime: KafkaRuntime) -> None:
    (runtime.jars / "broker-classes-java-17.jsa").write_bytes(b"cut sh")

    assert class_archive.ready().class_archive is None
