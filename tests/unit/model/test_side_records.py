"""Checkpoints and heartbeats: their bytes, and when a checkpoint is news (sections 2.11, 2.12 and 3.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.checkpoint import Checkpoint
from mirror.model.heartbeat import Heartbeat
from mirror.model.partition import TopicPartition
from tests.strategies import OFFSETS, PARTITIONS, UNICODE

CHECKPOINT = Checkpoint("grp", TopicPartition("A.orders", 3), 100, 42, "m")


def test_the_golden_bytes_of_a_checkpoint() -> None:
    assert CHECKPOINT.key_bytes().hex() == "00036772700008412e6f726465727300000003"
    assert CHECKPOINT.value_bytes().hex() == "00000000000000000064000000000000002a00016d"
    assert replace(CHECKPOINT, metadata="").value_bytes().hex() == "00000000000000000064000000000000002a0000"


def test_the_golden_bytes_of_a_heartbeat() -> None:
    heartbeat = Heartbeat("A", "B", 1_700_000_000_000)
    assert heartbeat.key_bytes().hex() == "000141000142"
    assert heartbeat.value_bytes().hex() == "00000000018bcfe56800"


@given(group=UNICODE, partition=PARTITIONS, upstream=OFFSETS, downstream=OFFSETS, metadata=UNICODE)
def test_a_checkpoint_reads_back(
    group: str, partition: TopicPartition, upstream: int, downstream: int, metadata: str
) -> None:
    checkpoint = Checkpoint(group, partition, upstream, downstream, metadata)
    assert Checkpoint.parse(checkpoint.key_bytes(), checkpoint.value_bytes()) == checkpoint


@given(source=UNICODE, target=UNICODE, timestamp_ms=OFFSETS)
def test_a_heartbeat_reads_back(source: str, target: str, timestamp_ms: int) -> None:
    heartbeat = Heartbeat(source, target, timestamp_ms)
    assert Heartbeat.parse(heartbeat.key_bytes(), heartbeat.value_bytes()) == heartbeat


@given(key=st.none() | st.binary(max_size=30), value=st.none() | st.binary(max_size=9))
def test_what_does_not_parse_is_passed_over(key: bytes | None, value: bytes | None) -> None:
    """CKP-03."""
    assert Checkpoint.parse(key, value) is None
    assert Heartbeat.parse(key, value) is None


@pytest.mark.parametrize(
    ("upstream", "downstream", "is_news", "reason"),
    [
        (100, 42, False, "already"),
        (200, 42, False, "already"),
        (200, 41, False, "back on the target"),
        (100, 43, True, "moved on"),
        (99, 42, True, "back on the source"),
        (99, 1, True, "back on the source"),
    ],
)
def test_a_checkpoint_is_news_when_the_source_went_back_or_the_target_forward(
    upstream: int, downstream: int, is_news: bool, reason: str
) -> None:
    """CKP-05, CKP-06."""
    decision, said = replace(CHECKPOINT, upstream=upstream, downstream=downstream).is_news_after(CHECKPOINT)
    assert decision is is_news
    assert reason in said


def test_the_first_checkpoint_is_always_news() -> None:
    assert CHECKPOINT.is_news_after(None)[0]
