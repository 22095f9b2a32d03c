"""A stream: a member of the group that reads, hands each record on, and commits what the target has acknowledged.

Positions are committed after a flush of what they cover, and only of records that were sent or are known to be left
out: whatever ends a stream, what was not acknowledged is read again.

Invariants:

(a) A partition in error cannot be sought in librdkafka: it is assigned anew, with the others, each where it stands.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from mirror.copier.epoch_channel import EpochChannelListener, Signal
from mirror.legacy.client_settings import ConsumerSettings, ProducerSettings
from mirror.legacy.commits import Answer, answer
from mirror.legacy.handler import TargetRecord, handled, handler_of, listener_of
from mirror.legacy.options import Options
from mirror.legacy.skips import GAUGE, Skips
from mirror.model.counts import counted
from mirror.model.java_regex import compile_java
from mirror.model.offset_ranges import Ranges
from mirror.model.partition import TopicPartition
from mirror.model.transforms.record import Headers, SourceRecord
from mirror.waiting import WaitTimeout, wait_until

T = TypeVar("T")

#: So long what was sent may take to be acknowledged, and committed, once a stream is told to end.
PATIENCE_SECONDS = 30.0

_POLL_SECONDS = 0.2
_PAUSE_SECONDS = 0.1
_ASK_SECONDS = 5.0
_BURST = 500
_NO_EPOCH = -1
_UNSAID = "what is skipped could not be said, and is not committed"
_INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
_REFUSED = {
    *(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION),
    *(KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.FENCED_INSTANCE_ID, KafkaError.GROUP_MAX_SIZE_REACHED),
    *(KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.INVALID_SESSION_TIMEOUT),
}
# For a topic that is not there Java's producer waits for ever; none of its records is skipped.
_NO_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_NOT_THERE_YET = {*_NO_TOPIC, KafkaError.LEADER_NOT_AVAILABLE}


class StreamFailed(Exception):
    """A stream cannot go on; nothing more is committed. The message says why."""


class _ToldToEnd(Exception):
    """What was waited for has not come, and the stream is to end."""


@dataclass(frozen=True, slots=True)
class StreamWork:
    """What a stream is to do: one of ``options.streams``; ``epoch_channel`` is where it is told to end."""

    number: int
    options: Options
    consumer: ConsumerSettings
    producer: ProducerSettings
    epoch_channel: tuple[str, int]


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """What a stream has done.

    Attributes
    ----------
    read, sent, left_out
        records of the source, records acknowledged by the target, records that the message handler has made nothing of.
    dropped, skipped
        how many sends were given up, and where the records lie.
    passed_over
        offsets of the source that were gone when the group's position should have been read.
    failure
        why it ended; None: because it was told to.
    """

    number: int
    read: int = 0
    sent: int = 0
    left_out: int = 0
    dropped: int = 0
    passed_over: int = 0
    skipped: Mapping[TopicPartition, Ranges] = field(default_factory=dict)
    failure: str | None = None


def run_stream(work: StreamWork) -> StreamEnd:
    """Copy until told to end, or until something fails."""
    try:
        epoch_channel = EpochChannelListener.answered(work.epoch_channel)
    except OSError as problem:
        return StreamEnd(work.number, failure=f"the driver is not reached: {problem}")
    try:
        return Stream(work, epoch_channel).run()
    except Exception as defect:  # noqa: BLE001 - of what Spark would say of it nothing is for people
        return StreamEnd(work.number, failure=f"it ends by a defect: {type(defect).__name__}: {defect}")
    finally:
        with contextlib.suppress(WaitTimeout):
            wait_until(lambda: epoch_channel.has_sent_all, "the last lines of the log", timeout_seconds=_ASK_SECONDS)
        epoch_channel.close()


class Stream:
    """One consumer and one producer."""

    def __init__(self, work: StreamWork, epoch_channel: EpochChannelListener) -> None:
        """Make the clients; nothing is read yet.

        Raises
        ------
        BadOption, UnsupportedSetting, KafkaException
            for what is not supported here; all was tried where the command was given.
        """
        self._work, self._options, self._epoch_channel = work, work.options, epoch_channel
        self._handler, self._listener = handler_of(self._options.handler), listener_of(self._options.listener)
        self._include = compile_java(self._options.include)
        self._consumer = Consumer(
            {
                **work.consumer.of_stream(work.number, self._options.streams),
                "error_cb": partial(self._take_error, "source"),
                "log_level": 2,
            }
        )
        self._producer = Producer(
            {**work.producer.of_stream(), "error_cb": partial(self._take_error, "target"), "log_level": 2}
        )
        self._topics: list[str] = []
        self._target_topics: set[str] = set()
        # Where each partition goes on, and what of it was read since the last commit, with the leader epoch.
        self._next: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, tuple[int, int]] = {}
        # Records of batches that were refused as too large, to be sent again each by itself.
        self._again: list[tuple[TopicPartition, int, TargetRecord]] = []
        self._skips = Skips()
        self._records = self._sends = self._left_out = self._passed_over = 0
        self._problem: str | None = None
        self._logged_at: float | None = None
        self._last_logged = ""
        self._commit_due = time.monotonic() + self._options.commit_interval_seconds
        self._discovery_due = 0.0

    def run(self) -> StreamEnd:
        """Copy until told to end; then flush, commit and leave the group (MM1-29)."""
        try:
            with contextlib.suppress(_ToldToEnd):
                self._copy()
            self._settle()
        except (StreamFailed, KafkaException) as problem:
            self._problem = self._problem or str(problem)
        unacknowledged = len(self._producer)
        if self._problem is not None:
            # Nothing that is still on its way is covered by a commit.
            self._producer.purge()
        self._consumer.close()
        return StreamEnd(
            self._work.number,
            read=self._records,
            sent=self._sends - self._skips.dropped - unacknowledged,
            left_out=self._left_out,
            dropped=self._skips.dropped,
            passed_over=self._passed_over,
            skipped=dict(self._skips.all()),
            failure=self._problem,
        )

    def _copy(self) -> None:
        while self._epoch_channel.signal() is Signal.NOTHING:
            if time.monotonic() >= self._discovery_due:
                self._subscribe()
            for number in range(_BURST):
                message = self._consumer.poll(0 if number else _POLL_SECONDS)
                self._require_no_problem()
                if message is None:
                    break
                self._take(message)
            self._producer.poll(0)
            self._require_no_problem()
            if time.monotonic() >= self._commit_due:
                self._settle()

    # --- The group -------------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        """Subscribe to the topics that there are now and that are wanted."""
        self._discovery_due = time.monotonic() + (self._work.consumer.discovery_seconds if self._topics else 1.0)
        try:
            names = self._consumer.list_topics(timeout=_ASK_SECONDS).topics
        except KafkaException as problem:
            self._log(logging.WARNING, f"the source does not say which topics it has: {problem.args[0].str()}")
            return
        internal = set() if self._work.consumer.reads_internal_topics else _INTERNAL_TOPICS
        wanted = sorted(name for name in names if self._include.fullmatch(name) and name not in internal)
        if wanted == self._topics:
            return
        self._topics = wanted
        self._log(logging.INFO, f"subscribes to {counted(len(wanted), 'topic')}: {', '.join(wanted[:20])}")
        if wanted:
            self._consumer.subscribe(
                wanted, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        else:
            self._consumer.unsubscribe()

    def _on_assign(self, _consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        with _Kept(self):
            placed = [self._placed(each) for each in self._committed(partitions)]
            if self._work.consumer.is_incremental:
                self._consumer.incremental_assign(placed)
            else:
                self._consumer.assign(placed)
            got = {TopicPartition(each.topic, each.partition): each.offset for each in placed}
            self._next |= got
            self._log(logging.INFO, f"gets {counted(len(got), 'partition')}: {_named(got)}")
            if self._listener is not None:
                self._listener.on_partitions_assigned(list(got))

    def _on_revoke(self, _consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        given = [TopicPartition(each.topic, each.partition) for each in partitions]
        with _Kept(self):
            if self._problem is None:
                self._settle()
                if self._listener is not None:
                    self._listener.on_partitions_revoked(given)
            self._log(logging.INFO, f"gives {counted(len(given), 'partition')} away: {_named(given)}")
        self._forget(given)

    def _on_lost(self, _consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        lost = [TopicPartition(each.topic, each.partition) for each in partitions]
        self._forget(lost)
        self._log(logging.WARNING, f"has lost {counted(len(lost), 'partition')} to other members: {_named(lost)}")

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget where partitions stand that are another member's: its commits are not to be overwritten."""
        for each in partitions:
            self._next.pop(each, None)
            self._read.pop(each, None)

    def _committed(self, partitions: list[confluent_kafka.TopicPartition]) -> list[confluent_kafka.TopicPartition]:
        def ask() -> list[confluent_kafka.TopicPartition]:
            found = self._consumer.committed(partitions, timeout=_ASK_SECONDS)
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
            return found

        return self._patiently("where the group stands is not reported", ask) if partitions else []

    def _placed(self, committed: confluent_kafka.TopicPartition) -> confluent_kafka.TopicPartition:
        """Return a partition with the offset at which it is read on."""
        if committed.offset >= 0:
            return confluent_kafka.TopicPartition(committed.topic, committed.partition, committed.offset)
        start = self._reset(TopicPartition(committed.topic, committed.partition), None)
        return confluent_kafka.TopicPartition(committed.topic, committed.partition, start)

    def _reset(self, source: TopicPartition, position: int | None) -> int:
        """Return where a partition goes on whose ``position`` is not in its log, or that has none."""
        asked = confluent_kafka.TopicPartition(*source)
        low, high = self._patiently(f"{source}: its log's ends are not reported", lambda: self._ends(asked))
        reset = self._work.consumer.reset
        where = "has no position" if position is None else f"the position {position} is not in the log"
        if reset == "none":
            raise StreamFailed(f"{source}: {where}, {low} to {high}, and auto.offset.reset is none")
        start = low if reset == "earliest" else high
        not_copied = max(0, start - (low if position is None else position))
        self._passed_over += not_copied
        self._log(
            logging.WARNING if not_copied or position is not None else logging.INFO,
            f"{source}: {where}, {low} to {high}: begins at {start} (auto.offset.reset={reset}); "
            f"{counted(not_copied, 'offset')} before it {'is' if not_copied == 1 else 'are'} not copied",
        )
        # On record at once: who goes on without a position would begin at another end, and leave out what came since.
        self._read[source] = (start, _NO_EPOCH)
        self._commit_due = 0.0
        return start

    def _ends(self, partition: confluent_kafka.TopicPartition) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(partition, timeout=_ASK_SECONDS)
        return low, high

    def _begin_again(self, source: TopicPartition) -> None:
        """Go on with a partition from where its log is."""
        self._next[source] = start = self._reset(source, self._next.get(source))
        at = [confluent_kafka.TopicPartition(*source, start)]
        if self._work.consumer.is_incremental:
            self._consumer.incremental_unassign(at)
            self._consumer.incremental_assign(at)
        else:
            self._consumer.assign([confluent_kafka.TopicPartition(*each, on) for each, on in self._next.items()])

    # --- Records ---------------------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        source = TopicPartition(message.topic() or "", -1 if (number := message.partition()) is None else number)
        error = message.error()
        if error is not None:
            self._met(source, error)
            return
        offset = message.offset() or 0
        kind, timestamp = message.timestamp()
        record = SourceRecord(
            *source,
            offset,
            -1 if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else timestamp,
            message.key(),
            message.value(),
            tuple(cast(Headers, message.headers() or ())),
        )
        try:
            made = handled(self._handler, record)
        except Exception as problem:  # it is somebody else's code
            failure = f"{type(problem).__name__}: {problem}"
            raise StreamFailed(f"{source} at offset {offset}: the message handler fails: {failure}") from problem
        for each in made:
            self._send(source, offset, each)
        self._records += 1
        self._sends += len(made)
        self._left_out += not made
        self._next[source] = offset + 1
        epoch = message.leader_epoch()
        self._read[source] = (offset + 1, _NO_EPOCH if epoch is None else epoch)

    def _met(self, source: TopicPartition, error: KafkaError) -> None:
        """Answer what a consumer gets instead of a record."""
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            if source in self._next:
                self._begin_again(source)
        elif error.fatal() or error.code() in _REFUSED:
            raise StreamFailed(f"the source: {error.str()}")
        else:
            self._log(logging.WARNING, f"the source: {error.str()}")

    def _send(self, source: TopicPartition, offset: int, record: TargetRecord) -> None:
        self._await_topic(record.topic)
        self._produce(source, offset, record)
        if record.timestamp == 0:
            self._log(logging.WARNING, f"{source} at offset {offset}: its timestamp 0 becomes the time of sending")
        if self._work.producer.is_synchronous:
            self._flush()
        self._require_no_problem()

    def _produce(self, source: TopicPartition, offset: int, record: TargetRecord, *, is_alone: bool = False) -> None:
        """Hand a record to the producer; ``is_alone``: no other goes with it."""
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    -1 if record.partition is None else record.partition,
                    on_delivery=partial(self._delivered, source, offset, record, is_alone),
                    timestamp=record.timestamp or 0,
                    headers=list(record.headers),
                )
            except BufferError:
                self._pause("the buffer is full of what is not acknowledged")
            except KafkaException as refused:
                # By the producer itself, so that no neighbour was refused with it.
                return self._not_sent(source, offset, record, refused.args[0], is_alone=True)
            else:
                return None

    def _delivered(
        self,
        source: TopicPartition,
        offset: int,
        record: TargetRecord,
        is_alone: bool,
        error: KafkaError | None,
        _: Message,
    ) -> None:
        """Take in that a record was not acknowledged; of those that were the producer says nothing."""
        if error is not None:
            self._not_sent(source, offset, record, error, is_alone=is_alone)

    def _not_sent(
        self, source: TopicPartition, offset: int, record: TargetRecord, error: KafkaError, *, is_alone: bool
    ) -> None:
        if self._problem is not None:
            return
        is_too_large = error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        may_skip = not (self._options.aborts or self._work.producer.is_synchronous)
        why = f"{record.topic} does not take it: {error.str()}"
        if not may_skip or error.fatal() or error.code() in _NO_TOPIC:
            self._skips.dropped += 1
            self._problem = f"{source} at offset {offset} is not sent: {why}; {GAUGE}: {self._skips.dropped}"
        elif is_too_large and not is_alone:
            self._again.append((source, offset, record))
        else:
            self._skips.add(source, offset, why)

    def _await_topic(self, topic: str) -> None:
        """Return once the target has a topic, which the broker may make when it is asked for it."""
        has_logged = False
        while topic not in self._target_topics:
            try:
                found = self._producer.list_topics(topic, timeout=_ASK_SECONDS).topics[topic]
                code = None if found.error is None else found.error.code()
                if code not in _NOT_THERE_YET and (code is not None or found.partitions):
                    self._target_topics.add(topic)
                    return
                message = (
                    f"the target has no topic {topic}, and does not make it (auto.create.topics.enable): waits for it"
                )
            except KafkaException as problem:
                message = f"the target does not answer: {problem.args[0].str()}"
            if not has_logged:
                self._log(logging.WARNING, message)
                has_logged = True
            if self._epoch_channel.signal() is not Signal.NOTHING:
                raise _ToldToEnd(message)
            self._pause(message)

    # --- Positions -------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Flush, and then commit what was read (MM1-24)."""
        self._flush()
        while self._again:
            self._produce(*self._again.pop(0), is_alone=True)
            self._flush()
        self._report_skips()
        self._commit()
        self._commit_due = time.monotonic() + self._options.commit_interval_seconds

    def _flush(self) -> None:
        while self._producer.flush(_POLL_SECONDS):
            self._require_no_problem()
            self._require_patience(f"{counted(len(self._producer), 'record')} not acknowledged")
        self._require_no_problem()

    def _report_skips(self) -> None:
        """Have what was skipped in the log before it is committed."""
        news = self._skips.news()
        for line in news:
            self._log(logging.ERROR, f"{line}; {GAUGE}: {self._skips.dropped}")
        if news:
            try:
                wait_until(lambda: self._epoch_channel.has_sent_all, "the log", timeout_seconds=_ASK_SECONDS)
            except WaitTimeout as problem:
                raise StreamFailed(_UNSAID) from problem
            if self._epoch_channel.signal() is Signal.SILENCE:
                raise StreamFailed(_UNSAID)

    def _commit(self) -> None:
        while self._read:
            positions = [
                confluent_kafka.TopicPartition(*source, at, leader_epoch=epoch)
                for source, (at, epoch) in self._read.items()
            ]
            error: KafkaError | None = None
            try:
                for each in self._consumer.commit(offsets=positions, asynchronous=False) or ():
                    if each.error is None:
                        del self._read[TopicPartition(each.topic, each.partition)]
                    error = each.error or error
            except KafkaException as refused:
                error = refused.args[0]
            match answer(None if error is None else error.code()):
                case Answer.DONE:
                    return
                case Answer.REBALANCED:
                    # Who has the partitions now reads them from where they were committed; the others are kept.
                    self._log(
                        logging.WARNING, f"not committed, the group is about to rebalance: {_error_message(error)}"
                    )
                    return
                case Answer.REFUSED:
                    raise StreamFailed(f"positions are not committed: {_error_message(error)}")
                case Answer.TRY_AGAIN:
                    self._log(logging.WARNING, f"positions are not committed yet: {_error_message(error)}")
                    self._forget_gone_topics()
                    self._pause("positions are not committed, and")

    def _forget_gone_topics(self) -> None:
        try:
            there = self._consumer.list_topics(timeout=_ASK_SECONDS).topics
        except KafkaException:
            return
        gone = [each for each in self._read if each.topic not in there]
        self._forget(gone)
        if gone:
            self._log(logging.WARNING, f"not committed, because the source has them no more: {_named(gone)}")

    # --- What happens beside ---------------------------------------------------------------------------------------

    def _patiently(self, what: str, ask: Callable[[], T]) -> T:
        while True:
            try:
                return ask()
            except KafkaException as problem:
                error = problem.args[0]
                if error.fatal() or error.code() in _REFUSED:
                    raise StreamFailed(f"{what}: {error.str()}") from problem
                self._log(logging.WARNING, f"{what}: {error.str()}")
            if self._epoch_channel.signal() is not Signal.NOTHING:
                raise _ToldToEnd(what)
            self._pause(what)

    def _pause(self, what: str) -> None:
        """Let a moment go by, in which acknowledgements are taken in."""
        self._producer.poll(_PAUSE_SECONDS)
        self._require_no_problem()
        self._require_patience(what)

    def _require_no_problem(self) -> None:
        if self._problem is not None:
            raise StreamFailed(self._problem)

    def _require_patience(self, what: str) -> None:
        """Return unless the stream was told to end long ago."""
        if self._epoch_channel.signal() is Signal.NOTHING:
            return
        self._logged_at = self._logged_at or time.monotonic()
        if time.monotonic() - self._logged_at > PATIENCE_SECONDS:
            raise StreamFailed(f"{what} {PATIENCE_SECONDS:.0f} s after it was told to end; read again by who goes on")

    def _take_error(self, end: str, error: KafkaError) -> None:
        """Take in what a client has met on its own."""
        if error.fatal() or error.code() == KafkaError._AUTHENTICATION:
            self._problem = self._problem or f"the {end}: {error.str()}"
        else:
            self._log(logging.WARNING, f"the {end}: {error.str()}")

    def _log(self, level: int, text: str) -> None:
        """Have the driver log something, once until something else comes."""
        if text != self._last_logged:
            self._last_logged = text
            self._epoch_channel.log(level, f"stream {self._work.number}: {text}")


class _Kept:
    """What fails in a callback is kept for who has called the client."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> bool:
        if isinstance(error, Exception) and not isinstance(error, _ToldToEnd):
            message = str(error) if isinstance(error, StreamFailed) else f"{type(error).__name__}: {error}"
            self._stream._problem = self._stream._problem or message
        return isinstance(error, Exception)


def _named(partitions: Iterable[TopicPartition]) -> str:
    named = [str(each) for each in sorted(partitions)]
    return ", ".join(named[:20]) + (f" and {len(named) - 20} more" if len(named) > 20 else "")


def _error_message(error: KafkaError | None) -> str:
    return "" if error is None else error.str()
