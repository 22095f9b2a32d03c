"""Two logs held against each other batch by batch: where the bytes are the same, the records need not be looked at.

A batch was passed on as it was if its copy lies where the offset map says, its header says the same of the records, and
the bytes behind it are equal. Everything else is left for a comparison of the records: batches that were joined, cut or
encoded anew, that reach beyond the range, hold what is said to be absent, or have lost records to compaction.

Invariants:

(a) Equal bytes are not decoded: what cannot be decoded on either side, with right checksums, is equal. What is
    remembered is not read again: bit rot in it shows only without ``--remember``.
(b) A stretch is left to the comparison of records when in doubt: edges of a range or share, what is said to be absent,
    batches thinned out by compaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from mirror.kafka.batch import HEADER_BYTES, NO_PRODUCER, Header
from mirror.model.offset_map import Chunk, Run
from mirror.model.stretches import Stretch, add, united
from mirror.proof.pairs import NOTHING, Amount, Mark, PartitionPair, total

Batches: TypeAlias = Iterable[tuple[memoryview, Header]]

# Runs are packed as they come: a million of them would otherwise take hundreds of megabytes.
_RUNS_A_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class RawFinding:
    """What the batches of a pair have shown.

    Attributes
    ----------
    amount
        what is equal.
    foreign
        records of others in the range of the copy, where others may write; counted by the headers.
    equal
        where what is equal lies.
    rest, target_rest
        the stretches of both logs whose records are still to be compared.
    last, target_last
        the last data batches in the ranges, as far as they were read whole.
    problem
        why the logs were not read to their ends; what was not is among the rest.
    """

    amount: Amount = NOTHING
    foreign: int = 0
    equal: tuple[Chunk, ...] = ()
    rest: tuple[Stretch, ...] = ()
    target_rest: tuple[Stretch, ...] = ()
    last: Mark | None = None
    target_last: Mark | None = None
    problem: str | None = None

    def then(self, later: RawFinding) -> RawFinding:
        """Return what was found of two ranges, one behind the other."""
        return RawFinding(
            total((self.amount, later.amount)),
            self.foreign + later.foreign,
            self.equal + later.equal,
            (*self.rest, *later.rest),
            (*self.target_rest, *later.target_rest),
            later.last or self.last,
            later.target_last or self.target_last,
            self.problem or later.problem,
        )


class RawComparison:
    """Compares the batches of one pair. What was found stands also if the reading of a log fails on the way.

    Batches are the data batches that a reader of the range gets, in order; they may reach beyond it.
    """

    def __init__(self, pair: PartitionPair) -> None:
        """Compare the ranges of ``pair``, whose offset map is known."""
        self._pair = pair
        self._range = pair.source.start, pair.source.end
        self._target_range = pair.target.start, pair.target.end
        self._absent = united(pair.absent, *self._range)
        self._records = self._size_bytes = self._foreign = 0
        self._run = 0, 0, 0
        self._runs: list[Run] = []
        self._chunks: list[Chunk] = []
        self._rest: list[Stretch] = []
        self._target_rest: list[Stretch] = []
        self._last: Header | None = None
        self._target_last: Header | None = None
        # Everything before these was judged.
        self._position, self._target_position = pair.source.start, pair.target.start

    def compare(self, source: Batches, target: Batches) -> None:
        """Walk along both logs; what they raise is raised."""
        runs = iter(self._pair.runs)
        run = next(runs, None)
        copies = iter(target)
        copy = next(copies, None)
        absent = iter(self._absent)
        gone = next(absent, None)
        left_out = self._pair.source.left_out
        for content, header in source:
            base, stop = header.base_offset, header.next_offset
            if header.producer_id in left_out:
                self._position = stop
                continue
            while run is not None and run.upstream_end <= base:
                run = next(runs, None)
            while gone is not None and gone[1] <= base:
                gone = next(absent, None)
            is_absent = gone is not None and gone[0] < stop
            if run is not None and not is_absent and self._has_a_place(base, stop, run) and header.is_dense:
                expected = run.downstream + base - run.upstream
                while copy is not None and copy[1].base_offset < expected:
                    self._leave_copy(copy[1])
                    copy = next(copies, None)
                if copy is not None and copy[1].base_offset == expected and self._is_copy(content, header, *copy):
                    self._found_equal(content, header, copy[1])
                    copy = next(copies, None)
                    continue
            self._leave(header)
        while copy is not None:
            self._leave_copy(copy[1])
            copy = next(copies, None)
        self._position, self._target_position = self._range[1], self._target_range[1]

    def found(self, problem: str | None = None) -> RawFinding:
        """Return what was found; what the walk did not get to, because of ``problem``, is left to be compared."""
        add(self._rest, self._position, self._range[1])
        add(self._target_rest, self._target_position, self._target_range[1])
        self._keep_run()
        self._pack()
        return RawFinding(
            Amount(self._records, self._size_bytes),
            self._foreign,
            tuple(self._chunks),
            tuple(self._rest),
            tuple(self._target_rest),
            _mark(self._last) if problem is None else None,
            _mark(self._target_last) if problem is None else None,
            problem,
        )

    def _has_a_place(self, base: int, stop: int, run: Run) -> bool:
        """Whether a batch of the source lies in the range, and its records in the copy one behind the other."""
        start, end = self._range
        return start <= base and stop <= end and run.upstream <= base and stop <= run.upstream_end

    def _is_copy(self, content: memoryview, header: Header, copied: memoryview, copied_header: Header) -> bool:
        start, end = self._target_range
        return (
            start <= copied_header.base_offset
            and copied_header.next_offset <= end
            and not self._is_foreign(copied_header)
            and header.differs_by_writer_only(copied_header)
            # Two views are compared element by element; this compares memory.
            and pa.py_buffer(content[HEADER_BYTES:]).equals(pa.py_buffer(copied[HEADER_BYTES:]))
        )

    def _is_foreign(self, header: Header) -> bool:
        if not self._pair.writers or header.producer_id in self._pair.writers:
            return False
        if header.base_offset >= self._pair.own_from:
            return True
        # Java MirrorMaker has no producer id; where others may write, whoever has one is one of them.
        return self._pair.is_shared and header.producer_id != NO_PRODUCER

    def _found_equal(self, content: memoryview, header: Header, copied: Header) -> None:
        self._records += header.record_count
        self._size_bytes += len(content)
        upstream, downstream, length = self._run
        if header.base_offset == upstream + length and copied.base_offset == downstream + length:
            self._run = upstream, downstream, length + header.record_count
        else:
            self._keep_run()
            self._run = header.base_offset, copied.base_offset, header.record_count
        self._last, self._target_last = header, copied
        self._position, self._target_position = header.next_offset, copied.next_offset

    def _leave(self, header: Header) -> None:
        """Leave a batch of the source to the comparison of records."""
        self._position = min(header.next_offset, self._range[1])
        self._last = header
        # Compaction keeps a producer's last batch although nothing is left in it.
        if header.record_count:
            add(self._rest, max(header.base_offset, self._range[0]), self._position)

    def _leave_copy(self, header: Header) -> None:
        """Leave a batch of the copy to the comparison of records, or count it where it is of others and may be."""
        start, end = self._target_range
        self._target_position = min(header.next_offset, end)
        self._target_last = header
        is_whole = start <= header.base_offset and header.next_offset <= end and header.is_dense
        if self._pair.is_shared and is_whole and self._is_foreign(header):
            self._foreign += header.record_count
        elif header.record_count:
            add(self._target_rest, max(header.base_offset, start), self._target_position)

    def _keep_run(self) -> None:
        """Put away the run that does not go on; there is none at first."""
        if self._run[2]:
            self._runs.append(Run(*self._run))
        if len(self._runs) > _RUNS_A_CHUNK:
            self._pack()

    def _pack(self) -> None:
        if self._runs:
            self._chunks.append(Chunk.of(self._runs))
            self._runs = []


def mark_of(header: Header) -> Mark:
    """Return what a batch is known by."""
    return Mark(header.base_offset, header.leader_epoch, header.crc)


def _mark(header: Header | None) -> Mark | None:
    return None if header is None else mark_of(header)
