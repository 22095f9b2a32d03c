"""What a file says about transactions, as Connect and MirrorMaker read it (section 2.14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import FlowSettings, TransactionSettings

GOOD = (
    "clusters = A, B",
    "A.bootstrap.servers = a:9092",
    "B.bootstrap.servers = b:9092",
    "A->B.enabled = true",
)
ENABLED = "B.exactly.once.source.support = Enabled"


def flow(directory: Path, *lines: str) -> FlowSettings:
    file = directory / "mm2.properties"
    file.write_text("\n".join((*GOOD, *lines)))
    (settings,) = load(file).enabled_flows
    return settings


@pytest.mark.parametrize(
    "line", ["", "B.exactly.once.source.support = preparing", "A.exactly.once.source.support = enabled"]
)
def test_without_the_targets_switch_there_are_no_transactions(tmp_path: Path, line: str) -> None:
    """EOS-01: it is the worker's on the target, and preparing only prepares."""
    settings = flow(tmp_path, line, "A->B.transaction.boundary = connector")
    assert settings.transactions is None
    assert not settings.exactly_once
    assert "transactional.id" not in settings.target_producer


def test_with_it_ids_are_mirror_makers_and_a_transaction_is_short(tmp_path: Path) -> None:
    """EOS-04, EOS-05."""
    settings = flow(tmp_path, ENABLED, "tasks.max = 3")
    prefix = "A-mm2-MirrorSourceConnector-"
    assert settings.transactions == TransactionSettings(prefix, 3, 60_000, 1.0, 0.25)
    assert settings.exactly_once
    assert settings.target_producer["transactional.id"] == f"{prefix}0"
    named = flow(tmp_path, ENABLED, "B.group.id = ours", "A->B.name = copier").transactions
    assert named is not None
    assert named.id_prefix == "ours-copier-"


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (["A->B.transaction.boundary.interval.ms = 300"], 0.3),
        (["B.offset.flush.interval.ms = 5000"], 5.0),
        ([], 30.0),
        (["B.producer.transaction.timeout.ms = 8000"], 4.0),
        (["B.producer.transaction.timeout.ms = 600000"], 60.0),
        (["A->B.producer.override.transaction.timeout.ms = 2000"], 1.0),
        (["transaction.boundary.interval.ms = 300"], 30.0),
    ],
)
def test_an_interval_is_the_connectors_or_the_workers_and_never_near_the_timeout(
    tmp_path: Path, lines: list[str], seconds: float
) -> None:
    """CFG-013: only the flow's own keys count; Connect would take a minute, the timeout of its transactions."""
    found = flow(tmp_path, ENABLED, "A->B.transaction.boundary = INTERVAL", *lines).transactions
    assert found is not None
    assert (found.seconds, found.idle_seconds) == (seconds, None)


def test_it_can_be_required(tmp_path: Path) -> None:
    """EOS-03."""
    settings = flow(
        tmp_path, ENABLED, "A.consumer.isolation.level = read_committed", "A->B.exactly.once.support = required"
    )
    assert settings.exactly_once


@pytest.mark.parametrize(
    ("lines", "key", "said"),
    [
        (
            ["A->B.exactly.once.support = required"],
            "A->B.exactly.once.support",
            "exactly.once.source.support = enabled",
        ),
        ([ENABLED, "A->B.exactly.once.support = required"], "A->B.exactly.once.support", "read_committed"),
        (["A->B.exactly.once.support = wanted"], "A->B.exactly.once.support", "requested, required"),
        ([ENABLED, "A->B.transaction.boundary = connector"], "A->B.transaction.boundary", "poll or interval"),
        ([ENABLED, "A->B.transaction.boundary = batch"], "A->B.transaction.boundary", "poll, interval"),
        (
            [ENABLED, "A->B.transaction.boundary.interval.ms = -1"],
            "A->B.transaction.boundary.interval.ms",
            "at least 0",
        ),
        ([ENABLED, "A->B.offsets.storage.topic = mine"], "A->B.offsets.storage.topic", "mm2-offsets.A.internal"),
    ],
)
def test_what_cannot_be_had_is_refused_with_file_line_and_key(
    tmp_path: Path, lines: list[str], key: str, said: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        flow(tmp_path, *lines)
    assert (refusal.value.key, refusal.value.line) == (key, 4 + len(lines))
    assert said in str(refusal.value)
