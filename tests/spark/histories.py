"""Histories written by hand: one short call per send, per record in a log, per read.

The usual story is told by the defaults: producer ``p`` sends to partition 0 of ``orders`` on ``east``; the copy of it is
``east.orders`` on ``west``; the group ``billing`` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mirror.model.ledger import COMMITS, LOGS, READS, SENDS, Column, digest
from mirror.proof.delivery import Place, Route
from mirror.proof.tables import small_table

ORDERS = Place("east", "orders")
COPY = Place("west", "east.orders")
NEW = Place("west", "orders")
MIRRORED = Route(ORDERS, COPY)

SENT_AT = 1_000_000
Row = tuple[Any, ...]
_clock = count(2_000_000)


def content(producer: str, sequence: int) -> bytes:
    return digest(f"{producer}:{sequence}".encode())


def sent(
    sequence: int,
    at: int | None = None,
    *,
    producer: str = "p",
    place: Place = ORDERS,
    partition: int = 0,
    status: str = "acked",
    acked_at: int | None = None,
    size: int = 100,
) -> Row:
    """A send whose record got the offset ``at`` (that of its sequence unless said otherwise)."""
    acked = status == "acked"
    offset = (sequence if at is None else at) if acked else -1
    moment = SENT_AT + sequence
    acked_at_ms = (moment if acked_at is None else acked_at) if acked else None
    return (
        producer, sequence, place.cluster, place.topic, partition, offset, status,
        content(producer, sequence), size, moment, moment, acked_at_ms,
    )  # fmt: skip


def logged(
    sequence: int | None,
    at: int | None = None,
    *,
    producer: str = "p",
    place: Place = COPY,
    partition: int = 0,
    other_content: bool = False,
    later_by: int = 0,
    producer_id: int = 7,
) -> Row:
    """A record in a log, the copy unless said otherwise; ``sequence`` None is one of somebody who keeps no ledger."""
    offset = sequence if at is None else at
    timestamp = SENT_AT + (sequence or 0) + later_by
    hashed = digest(b"something else") if other_content else content(producer, sequence or 0)
    mine = None if sequence is None else producer
    return (
        place.cluster, place.topic, partition, offset, timestamp, mine, sequence, hashed, 100, producer_id,
    )  # fmt: skip


def own(sequence: int | None, at: int | None = None, **more: Any) -> Row:
    """A record in the log it was sent to."""
    return logged(sequence, at, place=more.pop("place", ORDERS), **more)


def read(
    sequence: int,
    at: int | None = None,
    *,
    group: str = "billing",
    consumer: str = "c",
    producer: str = "p",
    place: Place = ORDERS,
    partition: int = 0,
    other_content: bool = False,
) -> Row:
    """A record handed to a group, after all that were read before in this test."""
    moment = next(_clock)
    hashed = digest(b"something else") if other_content else content(producer, sequence)
    return (
        group, consumer, moment, place.cluster, place.topic, partition, sequence if at is None else at,
        producer, sequence, hashed, SENT_AT + sequence, moment,
    )  # fmt: skip


def committed(
    position: int, *, group: str = "billing", consumer: str = "c", place: Place = ORDERS, partition: int = 0
) -> Row:
    """A commit of a group that was acknowledged, after all that was read, or committed, before in this test."""
    return group, consumer, place.cluster, place.topic, partition, position, next(_clock)


def now() -> int:
    """The time, after all that was read, or committed, before in this test."""
    return next(_clock)


def frame(spark: SparkSession, columns: Sequence[Column], rows: Sequence[Row]) -> DataFrame:
    return small_table(spark, columns, rows)


def sends_of(spark: SparkSession, *rows: Row) -> DataFrame:
    return frame(spark, SENDS, rows)


def logs_of(spark: SparkSession, *rows: Row) -> DataFrame:
    return frame(spark, LOGS, rows)


def reads_of(spark: SparkSession, *rows: Row) -> DataFrame:
    return frame(spark, READS, rows)


def commits_of(spark: SparkSession, *rows: Row) -> DataFrame:
    return frame(spark, COMMITS, rows)
