"""How a load generator keeps its ledger: outcomes, pace and closing, without a broker."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.lab.load import (
    NEVER_GIVES_UP,
    LedgerProducer,
    Pace,
    TransactionPattern,
    client_settings,
    load,
    outcome_of,
    parse_properties,
)
from mirror.lab.readers import client_settings as reader_settings
from mirror.lab.workload import HeaderKind, Workload, planned_records
from mirror.model.ledger import SENDS, SendStatus, digest, encode_content
from mirror.parts import PartWriter

WORKLOAD = Workload((("orders", 2),), keys=10, value_bytes=10, headers=HeaderKind.PLAIN, seed=1)


class FakeMessage:
    """A delivered record."""

    def __init__(self, offset: int, timestamp: tuple[int, int]) -> None:
        self._offset, self._timestamp = offset, timestamp

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp


class FakeProducer:
    """Takes records up to ``room``; the test decides what becomes of them."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.reports: list[tuple[Callable[..., None], int]] = []
        self._offsets = count()

    def produce(
        self, _topic: str, _value: Any, _key: Any, _partition: int, *, on_delivery: Any, timestamp: int, headers: Any
    ) -> None:
        assert headers
        if len(self.reports) >= self.room:
            raise BufferError
        self.reports.append((on_delivery, timestamp))

    def poll(self, _timeout: float) -> int:
        return 0

    def report(self, *errors: KafkaError | None, append_time: int | None = None) -> None:
        for error in errors:
            on_delivery, timestamp = self.reports.pop(0)
            stamped = (1, timestamp) if append_time is None else (2, append_time)
            on_delivery(error, FakeMessage(next(self._offsets), stamped))


@pytest.fixture
def fake() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
def producer(fake: FakeProducer, tmp_path: Path) -> LedgerProducer:
    return LedgerProducer("p", "east", fake, planned_records(WORKLOAD, "p"), PartWriter(tmp_path, "p", SENDS))  # type: ignore[arg-type]


def ledger(directory: Path) -> list[dict[str, Any]]:
    parts = sorted(directory.glob("p-*.parquet"), key=lambda path: int(path.stem.split("-")[1]))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, SendStatus.ACKED),
        (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), SendStatus.FAILED),
        (KafkaError(KafkaError.INVALID_RECORD), SendStatus.FAILED),
        (KafkaError(KafkaError._MSG_TIMED_OUT), SendStatus.INDETERMINATE),
        (KafkaError(KafkaError._PURGE_QUEUE), SendStatus.INDETERMINATE),
        (KafkaError(KafkaError._PURGE_INFLIGHT), SendStatus.INDETERMINATE),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), SendStatus.INDETERMINATE),
        (KafkaError(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND), SendStatus.INDETERMINATE),
    ],
)
def test_a_send_has_failed_only_where_no_attempt_can_have_succeeded(
    error: KafkaError | None, status: SendStatus
) -> None:
    """An earlier attempt may be in the log while the last one timed out, was purged, or was no longer allowed."""
    assert outcome_of(error) is status


def test_every_send_has_one_row_with_its_outcome(fake: FakeProducer, producer: LedgerProducer, tmp_path: Path) -> None:
    producer.send(4)
    fake.report(None, KafkaError(KafkaError._MSG_TIMED_OUT), KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    producer.write_part()
    producer.close()
    rows = ledger(tmp_path)

    assert [(row["sequence"], row["status"], row["offset"]) for row in rows] == [
        (0, "acked", 0),
        (1, "indeterminate", -1),
        (2, "failed", -1),
        (3, "indeterminate", -1),  # nobody knows what became of it when the generator had to end
    ]
    assert [row["acked_at_ms"] is not None for row in rows] == [True, False, False, False]
    assert producer.counts == {SendStatus.ACKED: 1, SendStatus.FAILED: 1, SendStatus.INDETERMINATE: 2}


def test_the_row_says_what_was_sent(fake: FakeProducer, producer: LedgerProducer, tmp_path: Path) -> None:
    producer.send(1)
    fake.report(None)
    producer.close()
    record = next(planned_records(WORKLOAD, "p"))
    content = encode_content(record.key, record.value, record.headers)
    [row] = ledger(tmp_path)

    assert (row["producer"], row["cluster"], row["topic"], row["partition"]) == (
        "p",
        "east",
        "orders",
        record.partition,
    )
    assert (row["digest"], row["size_bytes"]) == (digest(content), len(content))
    assert row["timestamp_ms"] == row["sent_at_ms"]


@pytest.mark.parametrize("stamping", [(), ("orders",)])
def test_only_where_the_log_stamps_records_its_time_is_the_records(
    fake: FakeProducer, stamping: tuple[str, ...], tmp_path: Path
) -> None:
    """Of a batch that came twice a broker answers with a time in any case."""
    records, parts = planned_records(WORKLOAD, "p"), PartWriter(tmp_path, "p", SENDS)
    producer = LedgerProducer("p", "east", fake, records, parts, stamping=stamping)  # type: ignore[arg-type]
    producer.send(1)
    fake.report(None, append_time=12345)
    producer.close()

    (row,) = ledger(tmp_path)
    assert row["timestamp_ms"] == (12345 if stamping else row["sent_at_ms"])


def test_a_full_queue_takes_nothing_and_loses_no_number(
    producer: LedgerProducer, fake: FakeProducer, tmp_path: Path
) -> None:
    fake.room = 2

    assert (producer.send(5), producer.sent) == (2, 2)
    fake.report(None, None)
    assert producer.send(5) == 2
    fake.report(None, None)
    producer.close()

    assert [row["sequence"] for row in ledger(tmp_path)] == [0, 1, 2, 3]


def test_a_record_refused_at_once_is_a_send_that_failed(
    producer: LedgerProducer, fake: FakeProducer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    monkeypatch.setattr(fake, "produce", refuse)
    producer.send(1)
    producer.close()

    assert [(row["sequence"], row["status"]) for row in ledger(tmp_path)] == [(0, "failed")]


def test_a_report_that_comes_after_closing_changes_nothing(
    fake: FakeProducer, producer: LedgerProducer, tmp_path: Path
) -> None:
    producer.send(1)
    producer.close()
    fake.report(None)

    assert [row["status"] for row in ledger(tmp_path)] == ["indeterminate"]


def test_a_name_is_not_given_twice(producer: LedgerProducer, tmp_path: Path) -> None:
    producer.close()

    with pytest.raises(FileExistsError, match="another name"):
        PartWriter(tmp_path, "p", SENDS)


class TestPace:
    def test_records_come_due_evenly(self) -> None:
        pace = Pace(1000, began=0.0)

        assert [pace.due(now, 500) for now in (0.001, 0.002, 0.002, 0.01)] == [1, 1, 0, 8]

    def test_a_burst_is_bounded_and_the_rest_stays_due(self) -> None:
        pace = Pace(1000, began=0.0)

        assert [pace.due(0.9, 500), pace.due(0.9, 500), pace.due(0.9, 500)] == [500, 400, 0]

    def test_what_a_long_stall_has_cost_is_not_made_up(self) -> None:
        pace = Pace(1000, began=0.0)
        pace.due(60.0, 500)

        assert pace.due(60.0, 500) == 0

    def test_zero_is_full_speed(self) -> None:
        assert Pace(0, began=0.0).due(0.0, 500) == 500


def test_a_producer_can_be_trusted_and_a_reader_commits_by_itself_only() -> None:
    producer = client_settings("b:1", "p", compression="lz4", message_timeout_ms=2000, further={"linger.ms": "1"})
    reader = reader_settings("b:1", "g", "c", auto_offset_reset="earliest", further={})

    assert (producer["enable.idempotence"], producer["acks"], producer["linger.ms"]) == (True, "all", "1")
    assert (reader["enable.auto.commit"], reader["enable.auto.offset.store"]) == (False, False)


def test_a_producer_gives_no_record_up_unless_it_is_told_to() -> None:
    """A client that gives one up takes another epoch, and with that sends again what the broker may have taken."""
    never = client_settings("b:1", "p", compression="lz4", message_timeout_ms=NEVER_GIVES_UP, further={})
    told = client_settings("b:1", "p", compression="lz4", message_timeout_ms=1500, further={})

    assert inspect.signature(load).parameters["message_timeout_ms"].default == NEVER_GIVES_UP == 0
    assert (never["message.timeout.ms"], told["message.timeout.ms"]) == (0, 1500)


def test_in_transactions_the_client_limits_by_itself_how_long_a_send_may_take() -> None:
    """No longer than the transaction may; what it has given up is aborted with that, and nobody sees it twice."""
    further = {"transactional.id": "p"}
    settings = client_settings("b:1", "p", compression="lz4", message_timeout_ms=NEVER_GIVES_UP, further=further)

    assert "message.timeout.ms" not in settings


def test_client_properties_are_key_and_value() -> None:
    assert parse_properties(["a=1", "b = x=y"]) == {"a": "1", "b": "x=y"}
    with pytest.raises(ValueError, match="key=value, got 'broken'"):
        parse_properties(["broken"])


class TransactionalFake(FakeProducer):
    """Reports what was sent when its transaction ends, as a client does that flushes; may fail to commit."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.ended: list[str] = []
        self._fails_at = fails_at

    def begin_transaction(self) -> None:
        self.ended.append("open")

    def commit_transaction(self, _timeout: float) -> None:
        if len(self.ended) - 1 == self._fails_at:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self._end("committed")

    def abort_transaction(self, _timeout: float) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        self.report(*[None] * len(self.reports))
        self.ended[-1] = how


def in_transactions(fake: TransactionalFake, directory: Path) -> LedgerProducer:
    parts, records = PartWriter(directory, "p", SENDS), planned_records(WORKLOAD, "p")
    return LedgerProducer("p", "east", fake, records, parts, skew_ms=-500, transactions=TransactionPattern(2, 2))  # type: ignore[arg-type]


def test_records_of_an_aborted_transaction_count_as_refused_though_the_broker_took_them(tmp_path: Path) -> None:
    """Two in a transaction, every second of which is aborted; the last, which is not full, too."""
    fake = TransactionalFake()
    producer = in_transactions(fake, tmp_path)
    assert producer.send(5) == 5
    producer.end_transaction()
    producer.close()
    rows = ledger(tmp_path)

    assert fake.ended == ["committed", "aborted", "aborted"]
    assert [row["status"] for row in rows] == ["acked", "acked", "failed", "failed", "failed"]
    assert [row["acked_at_ms"] is not None for row in rows] == [True, True, False, False, False]
    assert all(row["timestamp_ms"] == row["sent_at_ms"] - 500 for row in rows)
    assert producer.counts[SendStatus.ACKED] == 2


def test_where_nobody_knows_how_a_transaction_ended_its_records_are_indeterminate_and_no_more_are_sent(
    tmp_path: Path,
) -> None:
    producer = in_transactions(TransactionalFake(fails_at=0), tmp_path)

    assert producer.send(5) == 2
    assert producer.is_broken
    assert producer.send(5) == 0
    producer.close()
    assert [row["status"] for row in ledger(tmp_path)] == ["indeterminate", "indeterminate"]


def test_a_producer_whose_transaction_the_coordinator_gave_up_closes_its_ledger_all_the_same(tmp_path: Path) -> None:
    class GivenUp(TransactionalFake):
        def poll(self, _timeout: float) -> int:
            raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE))

    producer = in_transactions(GivenUp(), tmp_path)
    producer.send(1)
    producer.poll()
    producer.close()

    assert producer.is_broken
    assert [row["status"] for row in ledger(tmp_path)] == ["indeterminate"]


class LostCount(FakeProducer):
    """A client that numbers its records and met a leader that lacks some of them."""

    def __init__(self, *, fatal: bool) -> None:
        super().__init__()
        self.fatal = fatal

    def poll(self, _timeout: float) -> int:
        raise KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost count", self.fatal))


def test_a_client_that_has_failed_for_good_sends_no_more_and_closes_its_ledger(tmp_path: Path) -> None:
    client = LostCount(fatal=True)
    producer = LedgerProducer("p", "east", client, planned_records(WORKLOAD, "p"), PartWriter(tmp_path, "p", SENDS))  # type: ignore[arg-type]
    producer.send(2)
    producer.poll()
    producer.close()
    assert producer.is_broken
    assert producer.send(1) == 0
    assert [row["status"] for row in ledger(tmp_path)] == ["indeterminate"] * 2


def test_a_failure_that_is_not_for_good_is_raised(tmp_path: Path) -> None:
    client = LostCount(fatal=False)
    producer = LedgerProducer("p", "east", client, planned_records(WORKLOAD, "p"), PartWriter(tmp_path, "p", SENDS))  # type: ignore[arg-type]
    with pytest.raises(KafkaException):
        producer.poll()
