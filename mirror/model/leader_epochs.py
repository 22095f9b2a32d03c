"""Leader epochs: which reign wrote which part of a log, and from where on two logs of the same name differ.

A log is a chain of leader epochs. Two replicas, or one log then and now, agree up to where the newest epoch that both
have ended first; behind that they were written by different leaders. So who remembers the epochs of what was read finds
out about a truncation even when the log has long grown past the place again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

# Leaders change rarely; of more than this the oldest become one that is not known.
_MOST_EPOCHS = 16

NOT_KNOWN = -1


class EpochEnd(NamedTuple):
    """A leader epoch, and one past the last offset of it that is there, or was read; epoch -1 is not known."""

    epoch: int
    end: int


def epochs_before(epochs: Iterable[EpochEnd], upstream: int) -> tuple[EpochEnd, ...]:
    """Return what ``epochs`` say of the offsets before ``upstream``; if they are many, of the newest ones."""
    kept: list[EpochEnd] = []
    for epoch, end in epochs:
        kept.append(EpochEnd(epoch, min(end, upstream)))
        if end >= upstream:
            break
    forgotten = len(kept) - _MOST_EPOCHS
    if forgotten > 0:
        kept[: forgotten + 1] = [EpochEnd(NOT_KNOWN, kept[forgotten].end)]
    return tuple(kept)


def find_divergence(epochs: Sequence[EpochEnd], upstream: int, ask: Callable[[int], EpochEnd | None]) -> int | None:
    """Return the first offset from which a log is another one than was read, None if it is the same up to ``upstream``.

    Parameters
    ----------
    epochs
        the epochs of what was read, ascending.
    upstream
        the position up to which it was read.
    ask
        what the log's leader says of an epoch: the newest it has that is not newer, with its end; None if there is
        none (OffsetForLeaderEpoch).
    """
    known = [one for one in epochs if one.epoch != NOT_KNOWN]
    older = max((one.end for one in epochs if one.epoch == NOT_KNOWN), default=0)
    common = upstream
    while known:
        asked = known[-1].epoch
        answer = ask(asked)
        if answer is None:
            return 0
        if answer.epoch < asked:
            # The leader has never known the reign under which the newest of it was written.
            known = [one for one in known if one.epoch <= answer.epoch]
            common = min(common, known[-1].end if known else older)
        if not known or known[-1].epoch == min(answer.epoch, asked):
            found = min(common, answer.end)
            return found if found < upstream else None
    return None
