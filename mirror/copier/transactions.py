"""The transactions of one task for one flow: records and positions reach the target together, or not at all.

One follows another, as a state machine that the copy loop moves on; nothing here waits. A transaction begins with the
first batch that wants to go out and takes batches in for a while. Then no new ones go out until all that were sent are
acknowledged; the positions are written into the same transaction; and it is committed. A transaction that cannot be
committed for certain is lost, and the slot with it: it is aborted by whoever takes the transactional id over next, and
the lanes end with what was committed last.

Invariants:

(a) In transactions a task writes no position outside one. A fenced task could otherwise put an old position behind
    its successor's.
(b) What a resume, a detour or a takeover has to record goes into the first transaction. Outside of it are written
    only gaps at which a partition stops, the writer record, and MM2's position when the copy goes back.
(c) In transactions a lane counts only what was committed. Its rollback point is taken at each commit. A transaction is
    lost only when it is not known what the target has got; doubts about the source end the epoch, and what was copied
    is committed first.
(d) An atomic position that is the last has no tail (``committed_tail.py``). The default mode writes its own, without
    that mark, before its first batch.
(e) An epoch in transactions always sends something. One fetch can outlast a short epoch, and nothing goes out before
    its partition is added: dropped at the end each time, it would never get anywhere.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence

from mirror.copier.commits import FlowCommits
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks, Writer
from mirror.copier.sender import ANSWER_SECONDS
from mirror.copier.streams import Stream
from mirror.copier.work import FlowWork, Slot, SlotEnd
from mirror.kafka import codes, coordinator
from mirror.kafka.channel import Channel
from mirror.kafka.connection import Connection
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition

_FIRST_BACKOFF_SECONDS = 0.002
_LONGEST_BACKOFF_SECONDS = 0.2
_PATIENCE_SECONDS = 1.0


class _Phase(enum.Enum):
    #: No transaction.
    IDLE = enum.auto()
    #: Batches go out.
    OPEN = enum.auto()
    #: Those that went out are to be acknowledged.
    CLOSING = enum.auto()
    #: Positions are being written.
    RECORDING = enum.auto()
    #: The coordinator is to commit.
    COMMITTING = enum.auto()
    #: It will not be committed, nor will any other.
    LOST = enum.auto()


class Transactions:
    """Writes a flow's batches and positions in transactions, one after another.

    Attributes
    ----------
    connection, is_connecting
        to the coordinator, None while there is none; whether one is being opened.
    trouble
        what keeps a transaction from going on for now.
    lost
        why no more can be written.
    """

    def __init__(self, flow: FlowWork, slot: Slot, cluster: ClusterLinks) -> None:
        """Write as ``slot``, which must be this engine's, on ``cluster``, the flow's target."""
        self.writer = Writer(slot.producer, slot.sequences)
        self.commits = FlowCommits(flow, self)
        self.cluster = cluster
        self.connection: Connection | None = None
        self.is_connecting = False
        self.trouble: str | None = None
        self.lost: str | None = None
        self._slot = slot
        self._node = -1
        self._phase = _Phase.IDLE
        self._lanes: dict[TopicPartition, Lane] = {}
        self._written: Sequence[Lane] = ()
        # What may be written to, what wants to be, and what the coordinator would not have for now.
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._barred_until: dict[TopicPartition, float] = {}
        self._asked: set[TopicPartition] = set()
        self._asked_at: float | None = None
        self._now = 0.0
        self._backoff_until = 0.0
        self._backoff_seconds = _FIRST_BACKOFF_SECONDS
        self._close_at = 0.0
        # From when on a partition that gets nowhere is given some time: what comes before is not its own fault.
        self._patient_from = 0.0
        # Since when the coordinator says that the last transaction has not ended.
        self._ending_since: float | None = None
        self._committed_at = -math.inf
        self._is_called_for = False
        # Whether data has gone out, in this transaction and in this epoch.
        self._has_let = self._has_ever_let = False
        self._is_winding_down = False
        self._is_given_up = False
        self._is_stuck = False

    @property
    def transactional_id(self) -> str:
        """As whom it writes."""
        return self._slot.transactional_id

    @property
    def role(self) -> str:
        """What its connection is for."""
        return f"transactions {self.transactional_id}"

    @property
    def is_over(self) -> bool:
        """Whether nothing is under way, nor to be begun."""
        return self._phase is _Phase.LOST or (self._phase is _Phase.IDLE and not self._may_begin())

    @property
    def has_unanswered(self) -> bool:
        """Whether the coordinator still owes an answer."""
        return self._asked_at is not None

    def lets(self, partition: TopicPartition, *, again: bool) -> bool:
        """Whether a batch may go out to ``partition`` now; if that is not part of the transaction yet it will be."""
        if partition not in self._added:
            is_in_time = self._phase in (_Phase.IDLE, _Phase.OPEN) or partition not in self._lanes
            if is_in_time and self._now >= self._barred_until.get(partition, 0.0):
                self._wanted.add(partition)
            return False
        match self._phase:
            case _Phase.OPEN:
                if not self._has_let:
                    self._has_let = self._has_ever_let = True
                    self._close_at = self._now + self._slot.seconds
                return True
            case _Phase.RECORDING:
                return again or partition not in self._lanes
            case _:
                return again

    def call(self) -> None:
        """Commit what the lanes have to record, although nothing is written."""
        self._is_called_for = True

    def wind_down(self) -> None:
        """Take nothing new in; what has been sent is still committed.

        If nothing has been sent yet in this epoch, something is: one that is short for what a fetch brings would
        otherwise never get anywhere.
        """
        self._is_winding_down = True
        if self._has_ever_let or self.is_over:
            self._wind_streams_down()

    def give_up(self) -> None:
        """Wait no longer for what may or may not have arrived."""
        if not self._is_given_up:
            self._is_given_up = True
            self._wind_streams_down()

    def _wind_streams_down(self) -> None:
        for lane in self._lanes.values():
            lane.stream.wind_down()

    def end(self) -> SlotEnd:
        """Say how the slot is left; a transaction that is not committed yet never will be."""
        if self.lost is None and (self._added or self._phase is _Phase.RECORDING):
            self._lose("the epoch was over before it was", is_stuck=True)
        for target, lane in self._lanes.items():
            self.writer.keep_sequence(target, lane.acknowledged_sequence)
        return SlotEnd(self.writer.sequences, self.lost, is_stuck=self._is_stuck)

    def serve(self, lane: Lane) -> None:
        """Let a lane write."""
        self._lanes[lane.work.target] = lane

    # Moving on.

    def pause(self, now: float) -> float:
        """Return for how many seconds nothing needs to be done but to wait for answers."""
        if self._asked_at is not None or self.is_connecting or self._phase is _Phase.LOST:
            return math.inf
        if self._phase is _Phase.IDLE:
            return 0.0 if self._may_begin() else math.inf
        if self._wants_to_ask():
            return max(0.0, self._backoff_until - now)
        if self._phase is _Phase.OPEN:
            return max(0.0, (self._may_close_at() if self._is_drained() else self._close_at) - now)
        return math.inf

    def wants_connection(self, now: float) -> bool:
        """Whether something is to be asked of the coordinator, and there is no connection to it yet."""
        return (
            self.connection is None and not self.is_connecting and self._wants_to_ask() and now >= self._backoff_until
        )

    def find_coordinator(self, channel: Channel) -> int:
        """Return the broker that coordinates; as :func:`mirror.kafka.coordinator.find_coordinator`."""
        return coordinator.find_coordinator(channel, self.transactional_id)

    def take_connection(self, connection: Connection | Exception, node: int = -1) -> None:
        """Take in the connection to the coordinator, or why there is none for now."""
        self.is_connecting = False
        if isinstance(connection, Exception):
            self._back_off(str(connection))
        else:
            self.connection, self._node = connection, node

    def release(self) -> None:
        """Keep the connection for the next epoch if it can be used again."""
        if self.connection is not None and not self.has_unanswered:
            self.cluster.give_back(self._node, self.role, self.connection)
        elif self.connection is not None:
            self.connection.close()
        self.connection = None

    def abandon(self, reason: str) -> None:
        """Close the connection; what was asked is asked again."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self._asked_at = None, None
        self._back_off(reason)

    def advance(self, now: float) -> None:
        """Move on as far as what has happened allows; what there is to ask for then is asked by :meth:`ask`."""
        self._now = now
        while self._step(now):
            pass

    def ask(self, now: float) -> None:
        """Ask the coordinator for what is needed next, if it is connected and owes no answer.

        Raises
        ------
        ConnectionFailed
            if it hung up, or has not answered for too long.
        """
        if self._phase is _Phase.LOST:
            return
        if self._asked_at is not None and now - self._asked_at > ANSWER_SECONDS:
            raise ConnectionFailed(f"the coordinator of {self.transactional_id} has not answered")
        if self.connection is not None and self._wants_to_ask() and now >= self._backoff_until:
            self._send(self.connection, now)

    def receive(self) -> bool:
        """Take in one answer of the coordinator; return whether there was one.

        Raises
        ------
        ConnectionFailed
            if it hung up, or another broker coordinates now.
        """
        assert self.connection is not None
        frame = self.connection.receive()
        if frame is None:
            return False
        self._asked_at = None
        if self._phase is _Phase.COMMITTING:
            self._answered_commit(coordinator.parse_committed(frame))
        elif self._phase is not _Phase.LOST:
            self._answered_adding(dict(coordinator.parse_added(frame)))
        return True

    def _step(self, now: float) -> bool:
        """Move on to the next phase if this one is over; return whether it was."""
        match self._phase:
            case _Phase.IDLE if self._may_begin():
                self._phase = _Phase.OPEN
                # Its time begins when something goes out, if that is not kept from doing so.
                self._close_at = now + self._slot.seconds + _PATIENCE_SECONDS
                self._is_called_for = self._has_let = False
            case _Phase.OPEN if self._should_close(now):
                self._phase, self._patient_from = _Phase.CLOSING, now
                if self._is_winding_down:
                    self._wind_streams_down()
            case _Phase.CLOSING if self._is_settled():
                self._write_positions()
            case _Phase.CLOSING if (stuck := self._stuck(now)) is not None:
                self._lose(f"what {stuck.partition} has got is not known: {_why(stuck)}", is_stuck=True)
            case _Phase.RECORDING if (refused := self.commits.refused_inside) is not None:
                self._lose(refused)
            case _Phase.RECORDING if (stuck := self._stuck_positions(now)) is not None:
                self._lose(f"{stuck.partition} does not take the positions: {_why(stuck)}", is_stuck=True)
            case _Phase.RECORDING if self.commits.is_written_inside:
                self._phase = _Phase.COMMITTING
            case _:
                return False
        return True

    def _may_begin(self) -> bool:
        if self._is_given_up:
            return False
        is_late = self._is_winding_down and self._has_ever_let
        return self._is_called_for or bool(self._wanted and not is_late)

    def _may_close_at(self) -> float:
        """Return when a transaction that has nothing more to write may end."""
        idle_seconds = self._slot.idle_seconds
        return self._close_at if idle_seconds is None else min(self._close_at, self._committed_at + idle_seconds)

    def _should_close(self, now: float) -> bool:
        if self._asked_at is not None:
            return False
        if not self._added:
            # It has not begun: it ends if nobody wants it to.
            return self._is_given_up or not self._wanted
        if now >= self._close_at:
            return True
        if self._is_winding_down and (self._is_given_up or self._has_ever_let):
            return True
        return any(lane.doubts for lane in self._touched()) or (now >= self._may_close_at() and self._is_drained())

    def _is_drained(self) -> bool:
        """Whether everything that could be written was, and is acknowledged or never will be.

        Behind a record that is to be parked nothing can be: that waits for a commit. What the target refuses for now is
        for a later transaction, if it is certain that it is not in this one.
        """
        return not self._wanted and all(
            lane.stream.is_over or lane.is_held or (lane.stream.trouble and lane.stream.is_settled)
            for lane in self._touched()
        )

    def _touched(self) -> Iterator[Lane]:
        return (self._lanes[partition] for partition in self._added if partition in self._lanes)

    def _is_settled(self) -> bool:
        """Whether it is certain of all that was sent what became of it; lost if it never will be."""
        for lane in self._touched():
            stream = lane.stream
            if lane.doubts is not None or (not stream.is_settled and (stream.closed or self._is_given_up)):
                if stream.is_quiet:
                    message = lane.doubts or f"it is not certain what {stream.partition} has got: {stream.trouble}"
                    self._lose(message, is_stuck=lane.doubts is None)
                return False
            if not stream.is_settled:
                return False
        return True

    def _stuck(self, now: float) -> Stream | None:
        """Return what gets nowhere, so that nothing else of the transaction should wait for it."""
        streams = (lane.stream for lane in self._touched())
        return next((each for each in streams if not each.is_settled and self._gets_nowhere(each, now)), None)

    def _stuck_positions(self, now: float) -> Stream | None:
        """Return what takes no positions; what is not part of the transaction yet is not asked to."""
        streams = (each for each in self.commits.inside if each.partition in self._added)
        return next((each for each in streams if not each.is_idle and self._gets_nowhere(each, now)), None)

    def _gets_nowhere(self, stream: Stream, now: float) -> bool:
        # A broker that holds the line back because of a quota answers later.
        quiet_until = stream.sender.connection.quiet_until if stream.sender is not None else 0.0
        since = max(self._patient_from, stream.waits_since, quiet_until)
        return stream.is_stuck(now) and now >= since + self._slot.patience_seconds

    def _write_positions(self) -> None:
        self._written = [lane for lane in self._lanes.values() if lane.is_dirty]
        if not self._added and (self._is_given_up or not self._written):
            # Nothing is in it.
            self._phase = _Phase.IDLE
            return
        self._phase = _Phase.RECORDING
        self._wanted.clear()
        self.commits.record_inside(self._written)
        self._wanted |= self.commits.addresses(self._written) - self._added

    def _committed(self) -> None:
        for lane in self._written:
            lane.recorded()
        self._written = ()
        self._added.clear()
        self._wanted.clear()
        self._committed_at = self._now
        self._phase = _Phase.IDLE

    def _lose(self, reason: str, *, is_stuck: bool = False) -> None:
        message = f"the transaction of {self.transactional_id} is not committed and will be done again: {reason}"
        self._give_slot_up(message, is_stuck=is_stuck)

    def _give_slot_up(self, reason: str, *, is_stuck: bool) -> None:
        self._phase, self.lost, self._is_stuck = _Phase.LOST, reason, is_stuck
        self.commits.drop_inside()
        for lane in self._lanes.values():
            lane.lose(reason)

    # Talking to the coordinator: one question at a time.

    def _wants_to_ask(self) -> bool:
        if self._asked_at is not None:
            return False
        if self._phase in (_Phase.OPEN, _Phase.RECORDING):
            return bool(self._wanted)
        return self._phase is _Phase.COMMITTING

    def _send(self, connection: Connection, now: float) -> None:
        correlation, slot = connection.next_correlation(), self._slot
        if self._phase is _Phase.COMMITTING:
            frame = coordinator.commit_request(correlation, slot.transactional_id, slot.producer)
        else:
            if self._phase is _Phase.OPEN:
                # They will be written to in the end: asked for now they cost no question of their own.
                lanes = [self._lanes[partition] for partition in self._wanted if partition in self._lanes]
                self._wanted |= self.commits.addresses(lanes) - self._added
            self._asked = set(self._wanted)
            frame = coordinator.add_partitions_request(correlation, slot.transactional_id, slot.producer, self._asked)
        self._asked_at = now
        connection.send([frame])

    def _answered_adding(self, answers: dict[TopicPartition, int]) -> None:
        wrong = {partition: code for partition, code in answers.items() if code}
        if not wrong:
            self._added |= self._asked
            self._wanted -= self._asked
            self._patient_from = self._now
            self._recovered()
            return
        # Where one partition is refused, none is added.
        for code in wrong.values():
            if code in codes.TRANSACTION_ERRORS:
                self._lose(_answer_message(code))
                return
        busy = codes.COORDINATOR_BUSY & set(wrong.values())
        if busy:
            self._trouble(min(busy))
            return
        refused = {partition: code for partition, code in wrong.items() if code != codes.OPERATION_NOT_ATTEMPTED}
        for partition, code in refused.items():
            if partition not in self._lanes:
                self._lose(f"the coordinator of {partition} {_answer_message(code)}")
                return
            trouble = f"the coordinator of transactions {_answer_message(code)} for {partition}"
            self._lanes[partition].stream.trouble = trouble
        self._barred_until |= dict.fromkeys(refused, self._now + _PATIENCE_SECONDS)
        self._wanted -= refused.keys()

    def _answered_commit(self, code: int) -> None:
        if code == 0:
            self._recovered()
            self._committed()
        elif codes.is_retriable(code):
            self._trouble(code)
        else:
            self._lose(_answer_message(code))

    def _recovered(self) -> None:
        self.trouble, self._backoff_seconds, self._ending_since = None, _FIRST_BACKOFF_SECONDS, None

    def _trouble(self, code: int) -> None:
        if code in codes.COORDINATOR_MOVED:
            raise ConnectionFailed(f"the coordinator of {self.transactional_id} {_answer_message(code)}")
        # While the last transaction is being completed the next one cannot begin: nothing to speak of unless it lasts.
        is_ending = code == codes.CONCURRENT_TRANSACTIONS
        if is_ending:
            self._ending_since = self._now if self._ending_since is None else self._ending_since
            if self._now >= self._ending_since + self._slot.patience_seconds:
                self._give_slot_up(
                    f"the cluster does not end the last transaction of {self.transactional_id}: some partition in it "
                    "takes no marker",
                    is_stuck=True,
                )
                return
        is_usual = is_ending and self._backoff_seconds < _LONGEST_BACKOFF_SECONDS
        self._back_off(None if is_usual else f"the coordinator of {self.transactional_id} {_answer_message(code)}")

    def _back_off(self, reason: str | None) -> None:
        self.trouble = reason
        self._backoff_until = self._now + self._backoff_seconds
        self._backoff_seconds = min(2 * self._backoff_seconds, _LONGEST_BACKOFF_SECONDS)


def _why(stream: Stream) -> str:
    return stream.trouble or "it does not answer"


def _answer_message(code: int) -> str:
    return f"answers {codes.name(code)}"
