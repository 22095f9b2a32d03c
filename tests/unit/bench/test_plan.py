"""What a bench measures, in which order, and what each replicator is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from mirror.bench.command import parse_rates
from mirror.bench.contenders import Contender, order, parse_contenders
from mirror.bench.cores import SHARED, Cores, plan_cores
from mirror.bench.programs import properties_text
from mirror.bench.replay import REQUEST_BYTES, compose
from mirror.bench.run import BenchPlan
from mirror.bench.shapes import Codec, Shape, matrix, plan_shape
from mirror.config.resolving import load
from mirror.lab.clusters import LabCluster
from mirror.lab.errors import BadRequest
from mirror.model.partition import TopicPartition

MIRROR, SAME, NAME, SAME_NAME, MM2, TUNED, FLOOR, NO_MIRROR = Contender


@dataclass
class NamedCluster:
    """All of a cluster that a properties file needs."""

    alias: str
    bootstrap_servers: str


EAST = cast(LabCluster, NamedCluster("east", "127.0.0.1:1"))
WEST = cast(LabCluster, NamedCluster("west-1", "127.0.0.1:2"))


def shape(records: int = 1000, codec: Codec = Codec.LZ4) -> Shape:
    return plan_shape(records, 1000, 10, codec, 4)


def test_contenders_are_named_and_everybody_begins_once() -> None:
    chosen = parse_contenders("mm2, mirror,floor")
    assert chosen == (MM2, MIRROR, FLOOR)
    assert [order(number, chosen)[0] for number in (1, 2, 3, 4)] == [MM2, MIRROR, FLOOR, MM2]
    assert all(set(order(number, chosen)) == set(chosen) for number in (1, 2, 3))


@pytest.mark.parametrize(("text", "told"), [("mm3", "'mm3' is none"), ("mm2,mm2", "twice"), (" ,", "at least one")])
def test_wrong_contenders_are_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        parse_contenders(text)


def test_copies_with_the_source_s_offsets_differ_from_the_others_by_that_alone() -> None:
    contenders = (MIRROR, SAME, NAME, SAME_NAME)
    texts = {each: properties_text(each, EAST, WEST, {"bench"}, Codec.LZ4) for each in contenders}
    assert texts[SAME] == texts[MIRROR] + "mirror.offsets = same\n"
    more = texts[SAME_NAME].removeprefix(texts[SAME]).splitlines()
    assert texts[NAME].removeprefix(texts[MIRROR]).splitlines() == more
    assert [each.partition(" = ")[0] for each in more] == [
        "replication.policy.class",
        "west-1->east.enabled",
        "west-1->east.topics",
    ]
    assert [each.copy_of("bench", "east") for each in texts] == ["east.bench", "east.bench", "bench", "bench"]


def test_rates_are_whole_numbers() -> None:
    assert parse_rates("200, 5000") == (200, 5000)
    for wrong in ("0", "1.5", "fast"):
        with pytest.raises(BadRequest, match="--rates"):
            parse_rates(wrong)


def test_who_has_nothing_to_be_measured_has_no_turn() -> None:
    """Without a mirror there is latency only; the bare producer has none."""
    with_latency = BenchPlan(shape(), (MIRROR, NO_MIRROR), 1, (200,), 1.0)
    without = BenchPlan(shape(), (MIRROR, NO_MIRROR), 2, (), 0.0)
    assert list(with_latency.turns()) == [(1, MIRROR), (1, NO_MIRROR)]
    assert list(without.turns()) == [(1, MIRROR), (2, MIRROR)]
    assert not FLOOR.has_latency


def test_a_shape_has_whole_batches_and_as_many_on_each_partition() -> None:
    planned = plan_shape(1001, 100, 10, Codec.ZSTD, 8)
    assert (planned.records, planned.value_bytes) == (1040, 92)
    with pytest.raises(BadRequest, match="--records-per-batch"):
        plan_shape(1000, 10_000, 200, Codec.LZ4, 8)


def test_the_matrix_holds_all_sizes_batches_and_codecs_with_comparable_bytes() -> None:
    shapes = matrix(80_000, 8)
    of_lz4 = {(each.record_bytes, each.records_per_batch) for each in shapes if each.codec is Codec.LZ4}
    assert of_lz4 == {(size, batch) for size in (100, 1000, 10_000) for batch in (1, 10, 100)}
    assert {each.codec for each in shapes} == set(Codec)
    assert len(set(shapes)) == len(shapes) == 13
    assert all(each.records * each.record_bytes <= 1.1 * 80_000 * 1000 for each in shapes)


def test_the_engine_and_mirrormaker_get_the_same_file_and_the_tuned_one_more() -> None:
    topics = {"bench", "latency-1"}
    texts = {each: properties_text(each, EAST, WEST, topics, Codec.LZ4) for each in (MIRROR, MM2, TUNED)}
    assert texts[MIRROR] == texts[MM2]
    assert texts[TUNED].startswith(texts[MM2])
    assert "producer" not in texts[MM2]
    assert "east->west-1.topics = bench,latency-1" in texts[MM2]


@pytest.mark.parametrize("codec", Codec)
def test_the_tuned_file_reaches_the_data_producer_and_consumer(tmp_path: Path, codec: Codec) -> None:
    """By the same rules as any file: keys of the target's producer and of the source's consumer (CFG-082, CFG-083)."""
    path = tmp_path / "tuned.properties"
    path.write_text(properties_text(TUNED, EAST, WEST, {"bench"}, codec))
    (flow,) = (each for each in load(path).flows if each.enabled)
    assert flow.target_producer["compression.type"] == codec.value
    assert (flow.target_producer["batch.size"], flow.target_producer["linger.ms"]) == ("262144", "20")
    assert flow.source_consumer["max.poll.records"] == "5000"


def test_requests_hold_each_partition_once_in_order_and_about_a_megabyte() -> None:
    queues = [
        [(TopicPartition("t", number), memoryview(bytes(REQUEST_BYTES // 4))) for _ in range(3 + number)]
        for number in range(6)
    ]
    requests = list(compose(queues))
    sent = [place for contents in requests for place, _ in contents]
    assert all(len({place for place, _ in contents}) == len(contents) for contents in requests)
    assert {place.partition: sent.count(place) for place in sent} == {number: 3 + number for number in range(6)}
    assert max(len(contents) for contents in requests) == 4


def test_the_target_broker_has_cores_of_its_own_only_if_one_is_left_for_the_others() -> None:
    """Nobody can be measured without a core."""
    assert plan_cores(0, frozenset()) == SHARED
    assert plan_cores(1, {4, 2, 3}) == Cores(frozenset({2}), frozenset({3, 4}))
    with pytest.raises(BadRequest, match="--target-cores 2: of 2"):
        plan_cores(2, {0, 1})
    with pytest.raises(BadRequest, match="--target-cores 1: of 0"):
        plan_cores(1, frozenset())
