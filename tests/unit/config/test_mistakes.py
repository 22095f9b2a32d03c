"""All mistakes of a file are told at once, each with its line and key, wherever one does not hide another."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load

GOOD = ("clusters = A, B", "A.bootstrap.servers = a:9092", "B.bootstrap.servers = b:9092", "A->B.enabled = true")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mm2.properties"


def told(file: Path, *lines: str) -> list[tuple[int | None, str | None]]:
    """Return line and key of each mistake of a file of these lines, in the order in which they are told."""
    file.write_text("\n".join(lines))
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert str(refused.value).splitlines() == [str(each) for each in refused.value.mistakes]
    return [(each.line, each.key) for each in refused.value.mistakes]


def test_keys_clusters_addresses_and_values_are_told_at_once_by_line(file: Path) -> None:
    assert told(
        file,
        "clusters = A, B",
        "A.bootstrap.servers = a",
        "A->B.enabled = true",
        "A->C.enabled = true",
        "replication.facto = 2",
        "A->B.replication.factor = many",
        "mirror.epoch.seconds = soon",
        "B.offset.storage.partitions = few",
    ) == [
        *((1, "B.bootstrap.servers"), (2, "A.bootstrap.servers"), (4, "A->C.enabled"), (5, "replication.facto")),
        *((6, "A->B.replication.factor"), (7, "mirror.epoch.seconds"), (8, "B.offset.storage.partitions")),
    ]


def test_each_is_told_once_though_several_flows_and_connectors_have_it(file: Path) -> None:
    assert told(file, *GOOD, "B->A.enabled = true", "tasks.max = 0", "topics = [") == [(6, "tasks.max"), (7, "topics")]


def test_filters_clients_and_transforms_are_told_at_once(file: Path) -> None:
    assert told(
        file,
        *GOOD,
        "topics = [",
        "groups.exclude = (",
        "A.consumer.fetch.max.bytes = much",
        "A->B.transforms = drop, hash, mask",
        "A->B.transforms.drop.type = org.apache.kafka.connect.transforms.DropHeaders",
        "A->B.transforms.hash.type = org.example.Hash",
        "A->B.transforms.mask.type = org.example.Mask",
        "A->B.mirror.offsets.topics = [",
    ) == [
        *((5, "topics"), (6, "groups.exclude"), (7, "A.consumer.fetch.max.bytes")),
        *((8, "A->B.transforms"), (10, "A->B.transforms.hash.type"), (11, "A->B.transforms.mask.type")),
        (12, "A->B.mirror.offsets.topics"),
    ]


def test_functions_that_are_not_there_are_told_at_once(file: Path) -> None:
    assert told(
        file,
        *GOOD,
        "A->B.transforms = one, two",
        "A->B.transforms.one.type = python:no_such_module:one",
        "A->B.transforms.two.type = python:no_such_module:two",
    ) == [(6, "A->B.transforms.one.type"), (7, "A->B.transforms.two.type")]


def test_malformed_escapes_are_told_at_once(file: Path) -> None:
    assert told(file, *GOOD, r"topics = \u12", r"groups = \uxyz") == [(5, None), (6, None)]


def test_values_of_the_top_level_are_told_at_once(file: Path) -> None:
    assert told(file, "ssl.client.auth = perhaps", "rest.advertised.port = x") == [
        *((1, "ssl.client.auth"), (2, "rest.advertised.port"), (None, "clusters"))
    ]


@pytest.mark.parametrize("switch", ["A->B.enabld = true", "A -> B.enabled = true", "A->C.enabled = true"])
def test_that_no_flow_is_enabled_is_not_told_of_a_file_whose_switch_is_wrong(file: Path, switch: str) -> None:
    assert len(told(file, *GOOD[:3], switch)) == 1


def test_an_error_with_one_mistake_has_itself_as_that(file: Path) -> None:
    error = ConfigError(file, 3, "topics", "is wrong")
    assert error.mistakes == (error,)
