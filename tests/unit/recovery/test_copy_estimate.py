"""How much has to be copied into topics that are made anew, and how long that is assumed to take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.control import same_offsets
from mirror.control.same_offsets import Logs
from mirror.kafka.channel import EARLIEST, Channel
from mirror.kafka.cluster_model import Topic
from mirror.model.partition import TopicPartition
from mirror.recovery import copy_estimate
from mirror.recovery.copy_estimate import CopyEstimate, estimate_of, sampled
from mirror.same_offsets.filling import Bounds

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
NONE = Bounds(0, 0)
DENSE = Logs(Bounds(0, 6_000_000), NONE, 0.0, 100.0)


class Standby:
    """A cluster whose only log has 4,000 offsets, of which retention has removed 100."""

    def find_offsets(self, partitions: Iterable[TopicPartition], at: int, *_: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100 if at == EARLIEST else 4100)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_the_newest_offsets_of_a_log_tell_its_records_and_bytes(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the batch of 80 bytes lies before them; each second offset has a marker behind a record."""

    def read_batches(_: object, __: object, start: int, end: int, **___: object) -> Iterator[tuple[bytes, Any]]:
        assert (start, end) == (3_100, 4_100)
        yield bytes(80), SimpleNamespace(base_offset=3_090, next_offset=3_110, record_count=20)
        yield bytes(4_960), SimpleNamespace(base_offset=3_110, next_offset=4_100, record_count=495)

    monkeypatch.setattr(same_offsets, "read_batches", read_batches)
    monkeypatch.setattr(copy_estimate, "topic_settings", lambda *_: {"orders": {"cleanup.policy": policy}})
    topic = cast("Topic", SimpleNamespace(topic_partitions=[ORDERS]))
    logs, compacted, unread = sampled({"orders": topic}, cast("Channel", Standby()), read_committed=False)
    assert unread == 0
    assert logs == {ORDERS: Logs(Bounds(100, 4_100), NONE, pytest.approx(0.495), pytest.approx(5.0))}
    assert compacted == ({"orders"} if policy == "compact" else set())


def test_logs_that_could_not_be_read_are_not_in_it_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_estimate, "read_logs", lambda *_, **__: {ORDERS: DENSE})
    monkeypatch.setattr(copy_estimate, "topic_settings", lambda *_: {})
    topics = {each.topic: cast("Topic", SimpleNamespace(topic_partitions=[each])) for each in (ORDERS, BILLS)}
    found = estimate_of(*sampled(topics, cast("Channel", None), read_committed=False))
    assert (found.records, found.unread) == (6_000_000, 1)
    assert str(found).endswith("takes longer; 1 partition could not be read and is not in it")


def test_records_and_bytes_are_those_of_all_partitions_by_the_sample_of_each() -> None:
    found = estimate_of({ORDERS: DENSE, BILLS: Logs(Bounds(100, 300), NONE, 0.5, 10.0)}, frozenset(), 0)
    assert (found.records, found.size_bytes) == (6_000_100, 600_002_000)


@pytest.mark.parametrize(
    ("logs", "seconds"),
    [
        pytest.param(DENSE, 60, id="by records"),
        pytest.param(replace(DENSE, offset_bytes=1_000.0), 120, id="by bytes"),
        pytest.param(replace(DENSE, share_without_record=0.5, offset_bytes=0.0), 30 + 150_000, id="with markers"),
    ],
)
def test_what_takes_longest_of_records_and_bytes_counts_and_markers_on_top(logs: Logs, seconds: float) -> None:
    assert estimate_of({ORDERS: logs}, frozenset(), 0).seconds == seconds


def test_partitions_get_their_markers_at_the_same_time() -> None:
    half = replace(DENSE, share_without_record=0.5, offset_bytes=0.0)
    assert estimate_of({ORDERS: half, BILLS: half}, frozenset(), 0).seconds == 60 + 150_000


def test_a_compacted_copy_is_filled_by_records_which_takes_seconds() -> None:
    half = replace(DENSE, share_without_record=0.5, offset_bytes=0.0)
    assert estimate_of({ORDERS: half}, frozenset({"orders"}), 0).seconds == 30 + 3


def test_people_are_told_what_the_time_rests_on() -> None:
    assert str(CopyEstimate(1_200_000, 1_300_000_000, 5_400.0)) == (
        "about 1,200,000 records (1,300.0 MB, by the newest 1,000 offsets of each partition), about 1 h 30 min: assumed "
        "are 100,000 records/s, 50 MB/s and, in each partition, 20 markers/s for offsets without a record; a slow line, "
        "or a quota, takes longer"
    )
    assert "records (0.0 MB, by the newest 1,000 offsets of each partition), less than a minute" in str(
        CopyEstimate(2, 20, 1.0)
    )
