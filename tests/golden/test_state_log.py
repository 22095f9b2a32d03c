"""A state topic is read alike by this version and the one before: upgrades and rollbacks between them lose nothing."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from mirror.model.flow_state import FlowState
from mirror.model.pause import PauseWish
from mirror.model.position import NextBatch, Position
from mirror.model.state_record import OF_THE_LEADER, StateRecord, stamped, term_of
from mirror.model.state_values import (
    WrittenAs,
    no_chunk_record,
    no_standby_record,
    pause_record,
    producer_asked_for_record,
    source_record,
    transactional_id_record,
)
from tests.golden.state_log import portable, reading
from tests.unit.model.state_records import BILLS, KINDS

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "state_log.json").read_text())
TERM, EPOCH = 3, 7
_OF_TASKS = (b'["position",', b'["runs",', b'["gap",')


def records() -> list[StateRecord]:
    """Return records of every kind, as this version writes them, in an order in which nothing takes back another."""
    rest = [written for kind, (written, _, _) in KINDS.items() if kind not in ("claim", "paused")]
    return [
        KINDS["claim"][0],
        producer_asked_for_record("an id"),
        *rest,
        Position(9, 8, 0, True, settled=True, next_batch=NextBatch(12, 3, 8), settled_in=2).record(BILLS),
        source_record("an id"),
        transactional_id_record("another", 79, fencing=(8, 4)),
        transactional_id_record("a third", 80, (7, 3), WrittenAs(7, 3, 5), (7, 2)),
        no_chunk_record(BILLS, 4),
        no_standby_record("an engine that has ended"),
        pause_record(PauseWish("all", None, True, "ann", 6)),
        pause_record(PauseWish("a cut", None, True, "a run", 7, is_cut=True)),
        pause_record(PauseWish("a cut's end", None, False, "a run", 8, is_cut=True)),
        pause_record(PauseWish("some", "bills", False, "ann", 9)),
        KINDS["paused"][0],
        (b'["placement","gone","orders",3]', None),
    ]


def as_written() -> list[dict[str, Any]]:
    """Return the log of this version, in the form of the golden data."""
    log = []
    for key, value in records():
        term = TERM if key.startswith(OF_THE_LEADER) else None
        epoch = EPOCH if key.startswith(_OF_TASKS) else None
        ((_, _, headers, _),) = stamped([(key, value)], term, 0, epoch)
        assert term_of(headers) == term
        log.append(
            {"key": key.decode(), "value": None if value is None else value.decode(), "term": term, "epoch": epoch}
        )
    return log


def test_this_version_writes_the_bytes_that_the_one_before_was_given() -> None:
    assert as_written() == GOLDEN["this"]["records"]


def test_the_version_before_has_read_them_as_this_one_does() -> None:
    ours, theirs = reading(GOLDEN["this"]["records"]), GOLDEN["this"]["read_by_the_one_before"]
    assert ours["not_understood"] == []
    assert [problem[0] for _, problem in theirs["not_understood"]] == ["closed"], "the kind that has come since"
    assert {name: ours[name] for name in theirs} == {**theirs, "not_understood": []}


def test_what_the_version_before_has_written_is_read_as_it_reads_it_itself() -> None:
    ours, theirs = reading(GOLDEN["before"]["records"]), GOLDEN["before"]["read"]
    assert ours["not_understood"] == []
    assert {name: ours[name] for name in theirs} == theirs


def test_every_kind_of_record_is_in_both_logs() -> None:
    """A kind that comes later is in the log of the version that has it."""
    kinds = set(re.findall(r'case \["(\w+)"', inspect.getsource(FlowState._apply)))
    for log, lacking in (("this", set[str]()), ("before", {"closed"})):
        assert kinds - {json.loads(each["key"])[0] for each in GOLDEN[log]["records"]} == lacking


def test_kinds_that_neither_knows_are_kept_and_told_by_both() -> None:
    """What a later version has written stands there still when that one runs again."""
    newer = [
        {"key": '["weather","orders",3]', "value": '{"v":1,"rain":true}', "term": TERM, "epoch": None},
        {"key": '["position","orders",3]', "value": '{"v":2,"at":5}', "term": TERM, "epoch": EPOCH},
    ]
    assert newer == GOLDEN["newer"]["records"]
    found = reading(GOLDEN["this"]["records"] + newer)
    assert [problem[0] for _, problem in found["not_understood"]] == ["position", "weather"]
    assert found["not_understood"] == GOLDEN["newer"]["unread_by_the_one_before"]
    assert portable(BILLS) in [source for source, _ in found["positions"]], "the other partitions go on"
