"""Comparing the batches of pairs on Spark: a task reads both logs of its share side by side, with large fetches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from mirror.kafka.channel import Channel
from mirror.kafka.failures import error_message
from mirror.kafka.log import read_stretches
from mirror.model.progress import Watch, nobody
from mirror.proof.log_reader import LogRange
from mirror.proof.pairs import PartitionPair
from mirror.proof.raw_batches import RawComparison, RawFinding
from mirror.proof.spark_progress import in_tasks

# Some shares for each core, so that none waits long for the last; of a size that connecting does not matter.
_SHARES_A_CORE = 4
_FEWEST_OFFSETS, _MOST_OFFSETS = 100_000, 4_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a pair, known by its number: the ranges of both logs between two places of the offset map."""

    number: int
    pair: PartitionPair


@dataclass(frozen=True, slots=True)
class _Done:
    found: tuple[tuple[int, RawFinding], ...]
    cpu_seconds: float


def compare_batches(
    spark: SparkSession, pairs: Mapping[int, PartitionPair], watch: Watch = nobody
) -> tuple[dict[int, RawFinding], float]:
    """Return what the batches of pairs show, by the pairs' numbers, and how many CPU seconds that took.

    Where a log cannot be read, what was not compared is left to whoever compares the records, and finds out why.
    """
    shares = shares_of(pairs, spark.sparkContext.defaultParallelism)
    done = in_tasks(spark, shares, _compare_share, "comparing batches", watch)
    found = {number: RawFinding() for number in pairs}
    for number, finding in sorted((each for share in done for each in share.found), key=lambda each: each[0]):
        found[number] = found[number].then(finding)
    return found, sum(share.cpu_seconds for share in done)


def shares_of(pairs: Mapping[int, PartitionPair], cores: int, fewest: int = _FEWEST_OFFSETS) -> list[tuple[Piece, ...]]:
    """Return the pairs in shares of about the same size: long ones are cut, short ones put together."""
    total = sum(pair.source.end - pair.source.start for pair in pairs.values())
    most = min(_MOST_OFFSETS, max(fewest, -(-total // (_SHARES_A_CORE * max(cores, 1)))))
    shares: list[tuple[Piece, ...]] = []
    share: list[Piece] = []
    size = 0
    for number, pair in sorted(pairs.items()):
        for part in _cut(pair, most):
            if not part.source.wanted and not part.target.wanted:
                continue
            offsets = part.source.end - part.source.start
            if share and size + offsets > most:
                shares.append(tuple(share))
                share, size = [], 0
            share.append(Piece(number, part))
            size += offsets
    return [*shares, tuple(share)] if share else shares


def _cut(pair: PartitionPair, most: int) -> Iterator[PartitionPair]:
    """Yield the pair in parts of at most ``most`` upstream offsets; a batch that lies across a cut is left by both."""
    source, target = pair.source, pair.target
    for start in range(source.start, source.end, most) or [source.start]:
        end = min(start + most, source.end)
        first = target.start if start == source.start else _copied_to(pair, start)
        last = target.end if end == source.end else _copied_to(pair, end)
        yield replace(
            pair,
            source=replace(source, start=start, end=end),
            target=replace(target, start=first, end=max(first, last)),
            runs=pair.runs.within(start, end),
            absences=tuple(each for each in pair.absences if each.start < end and start < each.end),
            parked={},
        )


def _copied_to(pair: PartitionPair, upstream: int) -> int:
    """Return where the copy of what lies at and behind an upstream offset begins, inside the range of the copy."""
    run = pair.runs.behind(upstream)
    if run is None:
        return pair.target.end
    downstream = run.downstream + max(0, upstream - run.upstream)
    return min(max(downstream, pair.target.start), pair.target.end)


def _compare_share(share: Sequence[Piece]) -> _Done:
    """Compare the pieces of a share, one after the other; runs inside a Spark task."""
    began = time.process_time()
    with ExitStack() as opened:
        logs = _Logs(opened)
        found = tuple((piece.number, _compare_piece(piece.pair, logs)) for piece in share)
    return _Done(found, time.process_time() - began)


class _Logs:
    """The ways to both sides' clusters; a channel serves one reader at a time, so that each side has its own."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._channels: dict[tuple[str, str], Channel] = {}

    def channel(self, side: str, wanted: LogRange) -> Channel:
        """Return the channel to the cluster of a range."""
        key = side, wanted.cluster
        if key not in self._channels:
            self._channels[key] = self._opened.enter_context(closing(Channel(wanted.cluster, wanted.client)))
        return self._channels[key]


def _compare_piece(pair: PartitionPair, logs: _Logs) -> RawFinding:
    comparison = RawComparison(pair)
    problem = None
    try:
        source, target = (
            read_stretches(
                logs.channel(side, wanted),
                wanted.partition,
                [(wanted.start, wanted.end)],
                read_committed=wanted.read_committed,
            )
            for side, wanted in (("source", pair.source), ("target", pair.target))
        )
        with closing(source), closing(target):
            comparison.compare(source, target)
    except Exception as stopped:  # noqa: BLE001  # whatever it is, who compares the rest finds it too, and says so
        problem = error_message(stopped)
    return comparison.found(problem)
