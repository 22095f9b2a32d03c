"""Message handlers and rebalance listeners of one's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.legacy.handler import TargetRecord, handled, handler_of, listener_of
from mirror.legacy.options import BadOption, OwnCode
from mirror.model.references import named
from mirror.model.transforms.python_function import NotARecord
from mirror.model.transforms.record import SourceRecord

CODE = """
from mirror.legacy.handler import TargetRecord

def twice(record):
    return [TargetRecord(record.topic + each, record.key, record.value) for each in ("-1", "-2")]

def tagged(record, tag):
    return [TargetRecord(record.topic, record.key, tag.encode())]

def none(record):
    return []

def not_a_list(record):
    return 7

def a_dict(record):
    return [{"topic": record.topic}]

def text(record):
    return [TargetRecord(record.topic, "key", None)]

def nowhere(record):
    return [TargetRecord(record.topic, None, None, partition=-1)]

class Counter:
    def __init__(self, start="0"):
        self.number = int(start)
    def __call__(self, record):
        self.number += 1
        return [TargetRecord(record.topic, None, b"%d" % self.number)]

class Listener:
    def on_partitions_assigned(self, partitions): ...
    def on_partitions_revoked(self, partitions): ...
"""
RECORD = SourceRecord("orders", 3, 17, 5, b"k", b"v", (("a", None),))


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "old_mirror_code.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("old_mirror_code", None)
    named.cache_clear()


def code(name: str, arguments: str | None = None, option: str = "message.handler") -> OwnCode:
    return OwnCode(option, f"python:old_mirror_code:{name}", arguments)


def test_without_a_handler_only_the_partition_is_left_to_the_producer() -> None:
    assert handled(handler_of(None), RECORD) == [TargetRecord("orders", b"k", b"v", (("a", None),), 5, None)]
    assert handled(handler_of(None), RECORD._replace(timestamp=-1))[0].timestamp is None


@pytest.mark.parametrize(
    ("name", "arguments", "values"),
    [
        ("twice", None, [b"v", b"v"]),
        ("none", None, []),
        ("tagged", "new", [b"new"]),
        ("Counter", None, [b"1"]),
        ("Counter", "5", [b"6"]),
    ],
)
def test_a_function_or_a_class_makes_any_number_of_records(
    name: str, arguments: str | None, values: list[bytes]
) -> None:
    assert [each.value for each in handled(handler_of(code(name, arguments)), RECORD)] == values


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("not_a_list", "a int, no list"),
        ("a_dict", "a dict among others"),
        ("text", "its key is a str"),
        ("nowhere", "its partition -1"),
    ],
)
def test_what_cannot_be_sent_is_told(name: str, said: str) -> None:
    with pytest.raises(NotARecord, match=said):
        handled(handler_of(code(name)), RECORD)


@pytest.mark.parametrize(
    ("reference", "arguments", "said"),
    [
        ("com.example.Mask", None, "names a Java class.*python:package.module:name"),
        ("python:old_mirror_code:absent", None, "has no function or class"),
        ("python:absent_module:f", None, "PYTHONPATH"),
        ("python:old_mirror_code:Counter", "many", "cannot be made: ValueError"),
        ("python:old_mirror_code:Listener", None, "cannot be called with a record"),
    ],
)
def test_a_handler_that_cannot_be_had_is_refused(reference: str, arguments: str | None, said: str) -> None:
    with pytest.raises(BadOption, match=f"--message.handler: .*{said}"):
        handler_of(OwnCode("message.handler", reference, arguments))


def test_a_listener_has_both_methods() -> None:
    option = "consumer.rebalance.listener"
    assert listener_of(None) is None
    assert listener_of(code("Listener", option=option)) is not None
    with pytest.raises(BadOption, match="no method on_partitions_assigned"):
        listener_of(code("Counter", option=option))
