"""A load generator: applications that produce, and write down the outcome of every send outside the clusters.

Run as ``python -m mirror.lab.load``. It goes on while brokers die (deliveries then fail) until SIGTERM or SIGINT; then
it waits a bounded time for what is on the way, records the rest as indeterminate, closes its ledger and exits 0. The
ledger is written about once a second, so ``kill -9`` of this process loses the outcome of at most the last second's
sends, and the missing last part tells the judge so.
"""

from __future__ import annotations

import functools
import gc
import json
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # public, says its manual

from mirror.lab.reachability import Reachability
from mirror.lab.workload import HeaderKind, PlannedRecord, Workload, planned_records
from mirror.model.ledger import SENDS, SendStatus, digest, encode_content
from mirror.parts import PartWriter
from mirror.waiting import WaitTimeout, wait_until

EXIT_USAGE = 2
EXIT_NOT_STARTED = 3
_PART_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 0.01
_QUEUED_RECORDS = 50_000
_ANSWER_SECONDS = 20.0
_TRANSACTION_SECONDS = 5.0
NEVER_GIVES_UP = 0
_STATUS = next(number for number, column in enumerate(SENDS) if column.name == "status")

# Refusals of the record itself: every attempt to write it meets the same answer, so no earlier one can have succeeded.
# Any other error (a time-out, a purged queue, a lost right to write) may follow an attempt that reached the log.
_REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_REQUIRED_ACKS,
    }
)


def outcome_of(error: KafkaError | None) -> SendStatus:
    """Return what a delivery report says about a send; in doubt, that it is indeterminate."""
    if error is None:
        return SendStatus.ACKED
    return SendStatus.FAILED if error.code() in _REFUSALS else SendStatus.INDETERMINATE


def known_offset(message: Message) -> int:
    """Return the offset a record was acknowledged at; -1 where the broker recognised a retry and did not say."""
    record_offset = message.offset()
    return -1 if record_offset is None else max(record_offset, -1)


def now_ms() -> int:
    """Return the wall clock in milliseconds since 1970 UTC, the unit of Kafka's timestamps."""
    return time.time_ns() // 1_000_000


class Pace:
    """How many records are due: ``rate`` a second, evenly; a stall of over a second is not made up for."""

    def __init__(self, rate: float, began: float) -> None:
        """Start at ``began`` (monotonic seconds); a rate of 0 is no limit."""
        self._rate = rate
        self._began = began
        self._given = 0

    def due(self, now: float, at_most: int) -> int:
        """Return how many records may be sent now, and count them as sent."""
        if not self._rate:
            return at_most
        owed = int((now - self._began) * self._rate) - self._given
        if owed > self._rate:
            self._began, self._given, owed = now, 0, at_most
            return at_most
        due = min(owed, at_most)
        self._given += due
        return due


@dataclass(frozen=True, slots=True)
class TransactionPattern:
    """How a producer groups its records: ``records`` in a transaction, every ``aborted_every``-th of them aborted.

    An ``aborted_every`` of 0 aborts none.
    """

    records: int
    aborted_every: int = 0

    def is_aborted(self, sequence: int) -> bool:
        """Tell whether the transaction of this record is one that ends with an abort."""
        number = sequence // self.records
        return bool(self.aborted_every) and number % self.aborted_every == self.aborted_every - 1


class LedgerProducer:
    """One producer and its ledger.

    Parameters
    ----------
    name, cluster
        as they are written in the ledger.
    client, records, parts
        a client of its own, the records to send and the writer of its ledger.
    skew_ms
        how much its clock, which its records bear the time of, is ahead.
    transactions
        in which it sends. A record of an aborted one counts as refused: nobody may ever see it. Where it is not known
        how one ended the producer sends no more, and its records count as indeterminate.
    """

    def __init__(
        self,
        name: str,
        cluster: str,
        client: Producer,
        records: Iterator[PlannedRecord],
        parts: PartWriter,
        *,
        skew_ms: int = 0,
        transactions: TransactionPattern | None = None,
        stamping: Collection[str] = (),
        reach: Reachability | None = None,
    ) -> None:
        """Send nothing yet; ``stamping`` are the topics whose log gives records its own time."""
        self.name = name
        self.sent = 0
        self.counts = dict.fromkeys(SendStatus, 0)
        self._cluster = cluster
        self._client = client
        self._records = records
        self._parts = parts
        self._next = next(records)
        self._rows: list[tuple[Any, ...]] = []
        self._pending: dict[int, tuple[PlannedRecord, bytes, int, int]] = {}
        self._skew_ms = skew_ms
        self._transactions = transactions
        self._stamping = frozenset(stamping)
        self._reach = reach or Reachability()
        self._open: list[tuple[Any, ...]] = []
        self._is_in_transaction = False
        self.is_broken = False

    def send(self, count: int) -> int:
        """Hand up to ``count`` records to the client; return how many it took (fewer when its queue is full)."""
        if self.is_broken:
            return 0
        produce = self._client.produce
        for taken in range(count):
            if self._transactions and not self._in_transaction(self._transactions):
                return taken
            record = self._next
            identity, topic, partition, key, value, headers = record
            content = encode_content(key, value, headers)
            sent_at = now_ms()
            sequence = identity.sequence
            try:
                produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=functools.partial(self._delivered, sequence),
                    timestamp=sent_at + self._skew_ms,
                    headers=headers,  # type: ignore[arg-type]  # a null value is allowed, the stub does not know
                )
            except BufferError:
                return taken
            except KafkaException as refused:
                self._pending[sequence] = (record, digest(content), len(content), sent_at)
                self._settle(sequence, outcome_of(refused.args[0]), -1, sent_at + self._skew_ms, None)
            else:
                self._pending[sequence] = (record, digest(content), len(content), sent_at)
            self.sent += 1
            self._next = next(self._records)
        return count

    def poll(self, timeout_seconds: float = 0.0) -> None:
        """Let delivery reports in."""
        try:
            self._client.poll(timeout_seconds)
        except KafkaException as problem:
            # The coordinator has given its transaction up, or a client that numbers its records has lost count with a
            # leader that lacks some: it can send no more, which applications end at.
            if self._transactions is None and not problem.args[0].fatal():
                raise
            self._break()

    @property
    def in_flight(self) -> int:
        """Sends whose outcome is not known yet."""
        return len(self._pending)

    @property
    def is_cut_off(self) -> bool:
        """Whether no broker answers any more, so that no outcome can come."""
        return self._reach.is_lost

    def _delivered(self, sequence: int, error: KafkaError | None, message: Message) -> None:
        if sequence not in self._pending:
            return  # given up on at the end, and recorded as indeterminate
        if error is None:
            self._reach.answered()
            record, _, _, sent_at = self._pending[sequence]
            taken_as = message.timestamp()[1] if record.topic in self._stamping else sent_at + self._skew_ms
            self._settle(sequence, SendStatus.ACKED, known_offset(message), taken_as, now_ms())
        else:
            self._settle(sequence, outcome_of(error), -1, self._pending[sequence][3] + self._skew_ms, None)

    def _settle(self, sequence: int, status: SendStatus, offset: int, timestamp: int, acked_at: int | None) -> None:
        record, hashed, size, sent_at = self._pending.pop(sequence)
        rows = self._rows if self._transactions is None else self._open
        if self._transactions is None:
            self.counts[status] += 1
        rows.append(
            (
                self.name,
                sequence,
                self._cluster,
                record.topic,
                record.partition,
                offset,
                status.value,
                hashed,
                size,
                timestamp,
                sent_at,
                acked_at,
            )
        )

    def _in_transaction(self, transactions: TransactionPattern) -> bool:
        """End the transaction that is full and begin the next; tell whether one is open."""
        is_full = self.sent % transactions.records == 0 and self._is_in_transaction
        if is_full:
            self.end_transaction()
        if self.is_broken:
            return False
        if not self._is_in_transaction:
            try:
                self._client.begin_transaction()
            except KafkaException:
                self._break()
                return False
            self._is_in_transaction = True
        return True

    def _break(self) -> None:
        """Send no more: nobody knows how the transaction ended, or another cannot be begun."""
        self.is_broken, self._is_in_transaction = True, False
        self._close_transaction(SendStatus.INDETERMINATE)

    def end_transaction(self) -> None:
        """Commit, or abort where that is planned, the open transaction, if there is one; say how it ended."""
        if self._transactions is None or not self._is_in_transaction:
            return
        self._is_in_transaction = False
        unfinished = self.sent % self._transactions.records != 0
        aborts = unfinished or self._transactions.is_aborted(self.sent - 1)
        try:
            if aborts:
                self._client.abort_transaction(_TRANSACTION_SECONDS)
            else:
                self._client.commit_transaction(_TRANSACTION_SECONDS)
            self._client.poll(0)
        except KafkaException:
            self._break()
            return
        self._close_transaction(SendStatus.FAILED if aborts else None)

    def _close_transaction(self, outcome: SendStatus | None) -> None:
        """Move the rows of the transaction to the ledger, all with ``outcome``, or each with its own for None."""
        for sequence in list(self._pending):
            self._settle(sequence, SendStatus.INDETERMINATE, -1, self._pending[sequence][3] + self._skew_ms, None)
        rows, self._open = self._open, []
        for row in rows:
            status = SendStatus(row[_STATUS]) if outcome is None else outcome
            self.counts[status] += 1
            acked_at = row[-1] if status is SendStatus.ACKED else None
            self._rows.append((*row[:_STATUS], status.value, *row[_STATUS + 1 : -1], acked_at))

    def write_part(self) -> None:
        """Write down the outcomes known since the last part."""
        rows, self._rows = self._rows, []
        self._parts.write(rows)

    def close(self) -> None:
        """Record what is still on the way as indeterminate, and write the last part."""
        for sequence in list(self._pending):
            self._settle(sequence, SendStatus.INDETERMINATE, -1, self._pending[sequence][3] + self._skew_ms, None)
        if self._open:
            self._close_transaction(SendStatus.INDETERMINATE)
        rows, self._rows = self._rows, []
        self._parts.write(rows, last=True)


@dataclass(slots=True)
class StopRequest:
    """Set by SIGTERM or SIGINT."""

    asked: bool = False

    def listen(self) -> None:
        """Take over both signals."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def run_load(
    producers: Sequence[LedgerProducer],
    *,
    rate: float,
    records: int | None,
    flush_seconds: float,
    stop: StopRequest,
) -> None:
    """Send until asked to stop, or until ``records`` are sent in all; then close every ledger.

    Parameters
    ----------
    rate
        Records a second of all producers together; 0 is full speed.
    flush_seconds
        How long to wait at the end for outcomes that are not known yet, as long as a broker answers.
    """
    pace = Pace(rate, time.monotonic())
    part_due = time.monotonic() + _PART_SECONDS
    turn = 0
    while not stop.asked and not all(producer.is_broken for producer in producers):
        now = time.monotonic()
        left = None if records is None else records - sum(producer.sent for producer in producers)
        if left is not None and left <= 0:
            break
        burst = 500 if left is None else min(500, left)
        due = pace.due(now, burst)
        producer = producers[turn % len(producers)]
        if due:
            turn += 1
            taken = producer.send(due)
            # A full queue: wait for reports, which make room in it.
            producer.poll(0.0 if taken == due else _LONGEST_WAIT_SECONDS)
        else:
            for other in producers:
                other.poll(0.0)
            producer.poll(_LONGEST_WAIT_SECONDS)
        if now >= part_due:
            part_due = now + _PART_SECONDS
            for each in producers:
                each.poll(0.0)
                each.write_part()
    for producer in producers:
        producer.end_transaction()
    deadline = time.monotonic() + flush_seconds
    while any(each.in_flight and not each.is_cut_off for each in producers) and time.monotonic() < deadline:
        for producer in producers:
            producer.poll(_LONGEST_WAIT_SECONDS)
    for producer in producers:
        producer.close()


def partition_counts(client: Producer, topics: Sequence[str], *, timeout_seconds: float) -> tuple[tuple[str, int], ...]:
    """Return the topics with their number of partitions, waiting until all of them exist.

    Raises
    ------
    WaitTimeout
        if a topic does not exist, or no broker answers, in time.
    """

    def look() -> dict[str, int] | str:
        try:
            found = client.list_topics(timeout=2.0).topics
        except KafkaException as error:
            return str(error)
        return {topic: len(found[topic].partitions) for topic in topics if topic in found}

    seen = wait_until(
        look,
        f"topics {', '.join(topics)} to exist",
        timeout_seconds=timeout_seconds,
        until=lambda counts: isinstance(counts, dict) and len(counts) == len(set(topics)),
    )
    assert isinstance(seen, dict)
    return tuple((topic, seen[topic]) for topic in topics)


def stamping_topics(client: Mapping[str, str], topics: Sequence[str]) -> frozenset[str]:
    """Return the topics whose log gives records its own time (LogAppendTime).

    Answers do not tell: of a batch that came twice a broker says the newest of its times, as if it had stamped it.

    Raises
    ------
    KafkaException
        if the cluster does not say.
    """
    asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    admin = AdminClient(dict(client))  # which must live until it has answered
    answers = admin.describe_configs(asked, request_timeout=_ANSWER_SECONDS)
    return frozenset(
        resource.name
        for resource, answer in answers.items()
        if answer.result()["message.timestamp.type"].value == "LogAppendTime"
    )


def client_settings(
    bootstrap: str, name: str, *, compression: str, message_timeout_ms: int, further: Mapping[str, str]
) -> dict[str, str | int | bool]:
    """Return the settings of a producer whose acknowledgements can be trusted.

    ``message_timeout_ms`` of `NEVER_GIVES_UP` is for those that must not write a record twice: once it has given one
    up the client goes on with another epoch, and sends with that what else is unanswered, though the broker may have
    taken it. In transactions the client has a limit of its own, the transaction's.
    """
    limit = {} if "transactional.id" in further else {"message.timeout.ms": message_timeout_ms}
    return {
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": compression,
        "linger.ms": 5,
        "queue.buffering.max.messages": _QUEUED_RECORDS,
        **limit,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 2,  # a broker that is gone is what drills are made of, not news
        **further,
    }


def parse_properties(texts: Sequence[str]) -> dict[str, str]:
    """Read ``key=value`` texts.

    Raises
    ------
    ValueError
        naming the text that is not one.
    """
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ValueError(f"a client property is written key=value, got {text!r}")
        pairs[key.strip()] = value.strip()
    return pairs


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def load(
    *,
    bootstrap: Annotated[str, typer.Option(help="Brokers to start from, host:port,...")],
    cluster: Annotated[str, typer.Option(help="Alias of the cluster, as written in the ledger.")],
    topic: Annotated[list[str], typer.Option(help="Topic to write to; may be given several times.")],
    ledger: Annotated[Path, typer.Option(help="Directory of the ledger; sends/ is made in it.")],
    name: Annotated[
        str, typer.Option(help="Prefix of the producers' names; unique among all loads of a run.")
    ] = "load",
    producers: Annotated[int, typer.Option(min=1, help="Number of producers.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="Records a second in all; 0 is full speed.")] = 0,
    records: Annotated[int | None, typer.Option(min=0, help="Stop after this many records in all.")] = None,
    value_bytes: Annotated[int, typer.Option(min=0, help="Size of a value.")] = 512,
    keys: Annotated[int, typer.Option(min=1, help="Number of different keys a topic.")] = 1000,
    tombstones: Annotated[float, typer.Option(min=0, max=1, help="Fraction of records without a value.")] = 0.0,
    headers: Annotated[HeaderKind, typer.Option(help="Headers beside the one of the ledger.")] = HeaderKind.MIXED,
    large: Annotated[float, typer.Option(min=0, max=1, help="Fraction of records of another size.")] = 0.0,
    large_bytes: Annotated[int, typer.Option(min=0, help="That size.")] = 0,
    transaction_records: Annotated[
        int, typer.Option(min=0, help="Records in a transaction of each producer; 0: no transactions.")
    ] = 0,
    aborted_every: Annotated[int, typer.Option(min=0, help="Abort every Nth transaction; 0: none.")] = 0,
    clock_skew_ms: Annotated[int, typer.Option(help="How much the clock of the producers is ahead.")] = 0,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "lz4",
    seed: Annotated[int, typer.Option(help="The same seed gives the same records.")] = 0,
    message_timeout_ms: Annotated[
        int,
        typer.Option(min=0, help="A send not acknowledged by then is given up, and others may come twice; 0: none is."),
    ] = NEVER_GIVES_UP,
    flush_seconds: Annotated[float, typer.Option(min=0, help="Longest wait for outcomes at the end.")] = 6.0,
    wait_seconds: Annotated[float, typer.Option(min=0, help="Longest wait for the topics to exist.")] = 30.0,
    client_property: Annotated[list[str] | None, typer.Option(help="Further librdkafka setting, key=value.")] = None,
) -> None:
    """Produce records and keep a ledger of every send."""
    names = [f"{name}-{number}" for number in range(producers)]
    try:
        further = parse_properties(client_property or [])
        transactions = TransactionPattern(transaction_records, aborted_every) if transaction_records else None
        parts = [PartWriter(ledger / "sends", each, SENDS) for each in names]
        reaches = [Reachability() for _ in names]
        clients = [
            Producer(
                {
                    **client_settings(
                        bootstrap,
                        each,
                        compression=compression,
                        message_timeout_ms=message_timeout_ms,
                        further=further | ({"transactional.id": each} if transactions else {}),
                    ),
                    "error_cb": reach.failed,
                }
            )
            for each, reach in zip(names, reaches, strict=True)
        ]
    except (ValueError, FileExistsError, KafkaException) as error:
        typer.echo(f"load: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    try:
        counts = partition_counts(clients[0], topic, timeout_seconds=wait_seconds)
        stamping = stamping_topics({"bootstrap.servers": bootstrap, **further}, topic)
    except (WaitTimeout, KafkaException) as error:
        typer.echo(f"load: cluster {cluster} at {bootstrap}: {error}", err=True)
        raise typer.Exit(EXIT_NOT_STARTED) from error
    if transactions:
        for client in clients:
            client.init_transactions(wait_seconds)
    workload = Workload(counts, keys, value_bytes, tombstones, headers, seed, large, large_bytes)
    senders = [
        LedgerProducer(
            each,
            cluster,
            client,
            planned_records(workload, each),
            writer,
            skew_ms=clock_skew_ms,
            transactions=transactions,
            stamping=stamping,
            reach=reach,
        )
        for each, client, writer, reach in zip(names, clients, parts, reaches, strict=True)
    ]
    typer.echo(f"load: producing to {cluster} ({bootstrap}) as {', '.join(names)}")
    gc.disable()  # millions of tuples and no cycles: looking for some took an eighth of the time
    stop = StopRequest()
    stop.listen()
    run_load(senders, rate=rate, records=records, flush_seconds=flush_seconds, stop=stop)
    typer.echo(
        json.dumps({sender.name: {status.value: n for status, n in sender.counts.items()} for sender in senders})
    )


if __name__ == "__main__":
    app()
