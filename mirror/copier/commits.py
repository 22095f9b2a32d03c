"""What a copy task writes down of a flow beside the data: positions, the offset map, and offset syncs.

Invariants:

(a) MM2's positions are owed where they cannot be written, ours go on; the partition is recorded only when both are.
    Inside transactions they stay together.
(b) MirrorMaker's position is written after ours is acknowledged, or it would look as if Java MirrorMaker had copied
    further.
(c) MM2's position goes back before ours, or it would look like Java MirrorMaker's own.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

from mirror.copier import oversized
from mirror.copier.lane import Lane
from mirror.copier.links import Writer
from mirror.copier.oversized import DeadLetter, Parked
from mirror.copier.streams import Gate, Piece, Stream
from mirror.copier.work import FlowWork
from mirror.kafka import batch, codes
from mirror.kafka.batch import CorruptBatch
from mirror.kafka.log import side_batches
from mirror.kafka.problems import KafkaProblem
from mirror.model import connect_offsets
from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord, stamped

Side = Literal["source", "target"]


class Inside(Gate, Protocol):
    """A transaction, as what is written beside the data sees it."""

    @property
    def writer(self) -> Writer:
        """Who writes in it."""
        ...


class SideBatch:
    """A batch for a side topic, and what is to be done once it is acknowledged."""

    __slots__ = ("acknowledged", "content")

    def __init__(self, content: memoryview, acknowledged: Callable[[], None]) -> None:
        """Keep the encoded batch."""
        self.content = content
        self.acknowledged = acknowledged


class FlowCommits:
    """The side topics of one flow, as one task writes them: never two batches of a partition under way at once."""

    def __init__(self, work: FlowWork, inside: Inside | None = None) -> None:
        """Open no stream before something is written to it; positions go ``inside`` transactions if given."""
        self.work = work
        self._inside = inside
        self._refusal: str | None = None
        side: Side = "source" if work.syncs_on_source else "target"
        self._syncs_at = (side, TopicPartition(work.syncs_topic, 0)) if work.syncs_topic is not None else None
        self._streams: dict[tuple[Side, TopicPartition], Stream] = {}
        self._new: list[tuple[Side, Stream]] = []
        # MM2's positions to be written, by where they go: the newest of each lane.
        self._mm2: dict[TopicPartition, dict[Lane, StateRecord]] = defaultdict(dict)
        # The lanes whose letters are under way, and the stream of the dead letters.
        self._dead_letters: deque[Lane] = deque()
        self._dead_letter_stream: Stream | None = None
        # What was parked before this task began to, once somebody has looked.
        self._parked_before: Parked | None = None

    @property
    def is_over(self) -> bool:
        """Whether all that was written to the state topic is acknowledged, or cannot be."""
        state = self._streams.get(("target", self.state_address))
        return state is None or state.is_over

    def is_done(self, now: float) -> bool:
        """Whether nothing that was written needs to be waited for: it is there, cannot be, or gets nowhere."""
        return all(
            (stream.is_over if place != self._syncs_at else stream.is_quiet) or stream.is_stuck(now)
            for place, stream in self._streams.items()
        ) and (
            self._dead_letter_stream is None
            or self._dead_letter_stream.is_quiet
            or self._dead_letter_stream.is_stuck(now)
        )

    @property
    def _syncs(self) -> Stream | None:
        """Where offset syncs go, None before the first: no position waits for them (ERR-11)."""
        return self._streams.get(self._syncs_at) if self._syncs_at is not None else None

    @property
    def inside(self) -> list[Stream]:
        """What is written to inside the transaction."""
        return [stream for stream in self._streams.values() if stream.transactional_id]

    @property
    def is_written_inside(self) -> bool:
        """Whether all that was written inside the transaction is acknowledged."""
        return all(stream.is_idle for stream in self.inside)

    @property
    def refused_inside(self) -> str | None:
        """Why something of the transaction will never be written, None while it may."""
        is_refused = any(stream.closed for stream in self.inside)
        return self._refusal if is_refused else None

    @property
    def trouble(self) -> str | None:
        """Why something could not be written down, None when all was."""
        waiting = (
            f"what the flow writes down in {stream.partition} on the {side} is not acknowledged: {stream.trouble}"
            for side, stream in (
                *((side, stream) for (side, _), stream in self._streams.items()),
                *((("target", self._dead_letter_stream),) if self._dead_letter_stream else ()),
            )
            if stream.trouble
        )
        return self._refusal or next(waiting, None)

    def new_streams(self) -> list[tuple[Side, Stream]]:
        """Return the streams opened since the last call; they need a sender."""
        opened, self._new = self._new, []
        return opened

    def commit(self, lanes: Sequence[Lane]) -> None:
        """Write the positions of ``lanes`` in both formats; does nothing while the last commit is under way.

        MM2's follow when ours are in: a position of MM2's that is ahead of ours is then one that Java MM2 has written.
        Ours do not wait for them: what cannot be written is owed, to the next epoch too.
        """
        if not self.is_over:
            return
        state, mm2 = self._positions(lanes)

        def recorded() -> None:
            for lane in lanes:
                lane.recorded()
            for address, positions in mm2.items():
                self._mm2[address] |= positions
                for lane in positions:
                    lane.owes_mm2 = True
                self._write_mm2(address)

        self._write("target", self.state_address, state, recorded)

    def _write_mm2(self, address: TopicPartition) -> None:
        """Write the positions of MM2's that are owed to one place, once those before them are there."""
        before = self._streams.get(("target", address))
        if not self._mm2[address] or (before is not None and not before.is_idle):
            return
        positions = self._mm2.pop(address)

        def written() -> None:
            for lane in positions:
                lane.owes_mm2 = lane in self._mm2[address]
            self._write_mm2(address)

        self._write("target", address, list(positions.values()), written)

    def record_inside(self, lanes: Sequence[Lane]) -> None:
        """Write the positions of ``lanes`` in both formats as part of the transaction that is open.

        They count, and the lanes are told, when it is committed.
        """
        assert self._inside is not None
        state, mm2 = self._positions(lanes)
        self._write("target", self.state_address, state, inside=self._inside)
        for address, positions in mm2.items():
            self._write("target", address, list(positions.values()), inside=self._inside)

    @property
    def state_address(self) -> TopicPartition:
        """Where this engine's positions go."""
        return TopicPartition(self.work.state_topic, 0)

    def drop_inside(self) -> None:
        """Write nothing more inside a transaction: none will be committed."""
        for stream in self.inside:
            stream.close()

    def addresses(self, lanes: Sequence[Lane]) -> set[TopicPartition]:
        """Return where the positions of ``lanes`` go, in both formats."""
        return {self.state_address, *(self.mm2_address(lane.work.source) for lane in lanes)} if lanes else set()

    def mm2_address(self, source: TopicPartition) -> TopicPartition:
        """Return where MM2's position of a source partition goes."""
        key = connect_offsets.source_key(self.work.flow.source, source)
        partition = connect_offsets.partition_of(key, self.work.offsets_partitions)
        return TopicPartition(self.work.offsets_topic, partition)

    def _positions(
        self, lanes: Sequence[Lane]
    ) -> tuple[list[StateRecord], Mapping[TopicPartition, dict[Lane, StateRecord]]]:
        """Return what brings the state topic up to date, and MM2's positions by where they go, and lane."""
        state: list[StateRecord] = []
        mm2: dict[TopicPartition, dict[Lane, StateRecord]] = defaultdict(dict)
        for lane in lanes:
            state += lane.unrecorded()
            if lane.upstream > 0:
                key = connect_offsets.source_key(self.work.flow.source, lane.work.source)
                position = key, connect_offsets.source_value(lane.upstream - 1)
                mm2[self.mm2_address(lane.work.source)][lane] = position
        return state, mm2

    def park(self, lane: Lane) -> None:
        """Write the dead letter of ``lane``, if there is one, to the topic of parked records; tell it the outcome."""
        if lane.dead_letter is None or lane in self._dead_letters:
            return
        if lane.is_perhaps_parked and self._is_parked_already(lane, lane.dead_letter):
            return
        if self._dead_letter_stream is None:
            assert self.work.parked_topic is not None
            address = TopicPartition(self.work.parked_topic, 0)
            self._dead_letter_stream = Stream(address, _acknowledged, self._not_parked, pipelined=False)
            self._new.append(("target", self._dead_letter_stream))
        self._dead_letters.append(lane)
        self._dead_letter_stream.put(SideBatch(lane.dead_letter.content, lambda: self._dead_letters.popleft().parked()))

    def _is_parked_already(self, lane: Lane, dead_letter: DeadLetter) -> bool:
        """Tell the lane if its dead letter is found among the last ones, or if that cannot be known for now."""
        try:
            if self._parked_before is None:
                self._parked_before = oversized.parked_last(self.work)
        except (KafkaProblem, CorruptBatch) as problem:
            lane.look_again(
                f"whether the record at upstream offset {dead_letter.offset} is parked is not known: {problem}"
            )
            return True
        if not oversized.is_among(dead_letter, self._parked_before):
            return False
        lane.parked()
        return True

    def _not_parked(self, code: int, message: str) -> None:
        """Stop the lane whose dead letter is refused; those behind it, never sent, go to another stream."""
        self._dead_letters.popleft().cannot_park(f"the target answers {codes.name(code)} {message}".rstrip())
        self._dead_letters.clear()
        self._dead_letter_stream = None

    def wind_down(self) -> None:
        """Drop the dead letters that were never sent."""
        if self._dead_letter_stream:
            self._dead_letter_stream.wind_down()

    def give_up(self) -> None:
        """Send no dead letter, and no offset sync, any more: the next epoch does."""
        for stream in (self._dead_letter_stream, self._syncs):
            if stream is not None:
                stream.give_up()

    def emit_syncs(self, lanes: Iterable[Lane]) -> None:
        """Write the offset syncs that have become due, one a partition at most; nothing while others are under way."""
        if self._syncs_at is None or (self._syncs is not None and not self._syncs.is_idle):
            return
        due = [
            (lane.syncs, sync)
            for lane in lanes
            if lane.syncs is not None and (sync := lane.take_due_sync()) is not None
        ]

        def written() -> None:
            for syncs, sync in due:
                syncs.written(sync)

        self._write(*self._syncs_at, [(sync.key_bytes(), sync.value_bytes()) for _, sync in due], written)

    def _write(
        self,
        side: Side,
        address: TopicPartition,
        records: Sequence[StateRecord],
        acknowledged: Callable[[], None] = lambda: None,
        inside: Inside | None = None,
    ) -> None:
        """Put records on their way; ``acknowledged`` is called when the last of them is in the log."""
        # Only this engine's own topic: the others are read by MirrorMaker, which knows no such headers. What is
        # committed with its records counts whoever leads meanwhile.
        is_own = address == self.state_address and inside is None
        content = stamped(records, self.work.term if is_own else None, int(time.time() * 1000), self.work.epoch)
        if inside is None:
            contents = list(side_batches(content))
        else:
            first = inside.writer.sequence(address)
            contents = list(side_batches(content, inside.writer.producer, first))
            inside.writer.keep_sequence(address, batch.next_sequence(first, len(content)))
        for batched in contents:
            is_last = batched is contents[-1]
            self._stream(side, address, inside).put(SideBatch(batched, acknowledged if is_last else lambda: None))

    def _stream(self, side: Side, address: TopicPartition, gate: Gate | None) -> Stream:
        if (side, address) not in self._streams:

            def refused(code: int, message: str) -> None:
                answer = f"{codes.name(code)} {message}".rstrip()
                self._refusal = f"{address} on the {side} refuses what the flow writes down: {answer}"

            stream = Stream(address, _acknowledged, refused, pipelined=False, gate=gate)
            self._streams[side, address] = stream
            self._new.append((side, stream))
        return self._streams[side, address]


def _acknowledged(piece: Piece, _base_offset: int, _appended_at: int) -> None:
    assert isinstance(piece, SideBatch)
    piece.acknowledged()
