"""What the loss of the source would have cost at any moment of the past: the records that were not copied by then.

Of a partition is known, sample by sample, where its source ended and up to where it was copied. Between two samples
both are taken to move evenly. The cost in records is the difference; in seconds it is the time since the source ended
where the copy stands now, so since the oldest record came that would have been lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]

# An end that falls behind the one before, and stays so for as many samples, is that of another log. Fewer are two
# recorders whose clocks or looks differ by a moment.
_SAMPLES_OF_ANOTHER_LOG = 3


@dataclass(frozen=True, slots=True)
class Course:
    """One partition over time.

    Attributes
    ----------
    at
        when samples were taken, in seconds, ascending.
    position
        up to where it was copied.
    end
        where the source ended; not a number where the source did not tell.
    lag_seconds
        how old the oldest record to be copied was at the first sample of all; not a number if that is not known.
    """

    at: Numbers
    position: Numbers
    end: Numbers
    lag_seconds: float = float("nan")


def cost(course: Course, when: Numbers, longest_gap: float) -> tuple[Numbers, Numbers]:
    """Return for each moment the records and the seconds that would have been lost; not a number: not known.

    Parameters
    ----------
    when
        the moments, in seconds.
    longest_gap
        of what lies between two samples further apart than that nothing is said.
    """
    records = np.full(len(when), np.nan)
    seconds = np.full(len(when), np.nan)
    for number, era in enumerate(_eras(course)):
        here = (when >= era.at[0]) & (when <= era.at[-1])
        here[here] &= _is_known(era.at, when[here], longest_gap)
        moments = when[here]
        copied = np.interp(moments, era.at, era.position)
        lost = np.maximum(np.interp(moments, era.at, era.end) - copied, 0.0)
        records[here] = lost
        first_lag = course.lag_seconds if number == 0 else float("nan")
        seconds[here] = np.where(lost > 0, np.maximum(moments - _ended_at(era, copied, first_lag), 0.0), 0.0)
    return records, seconds


def _eras(course: Course) -> Iterator[Course]:
    """Yield what is known of each log of the source: a topic created again begins anew. Ends never fall within one."""
    is_known = ~np.isnan(course.end)
    at, position, end = course.at[is_known], course.position[is_known], course.end[is_known]
    began = 0
    while began < len(at):
        reached = np.maximum.accumulate(end[began:])
        ahead = np.max(_ahead(end[began:]), axis=0)
        falls = np.flatnonzero(ahead[1:] < reached[:-1])
        until = began + int(falls[0]) + 1 if len(falls) else len(at)
        yield Course(at[began:until], position[began:until], reached[: until - began])
        began = until


def _ahead(end: Numbers) -> Numbers:
    """Return each value beside those behind it; behind the last there is any."""
    more = np.full(_SAMPLES_OF_ANOTHER_LOG - 1, np.inf)
    return np.lib.stride_tricks.sliding_window_view(np.concatenate([end, more]), _SAMPLES_OF_ANOTHER_LOG).T


def _is_known(at: Numbers, moments: Numbers, longest_gap: float) -> NDArray[np.bool_]:
    if len(at) == 1:
        return np.ones(len(moments), dtype=bool)
    behind = np.clip(np.searchsorted(at, moments, side="left"), 1, len(at) - 1)
    return np.asarray((at[behind] - at[behind - 1] <= longest_gap) | np.isin(moments, at))


def _ended_at(era: Course, copied: Numbers, first_lag: float) -> Numbers:
    """Return when the source last ended at or before each position; not a number: before the first sample."""
    at, end = era.at, era.end
    if first_lag > 0 and era.position[0] < end[0]:
        at, end = np.concatenate([[at[0] - first_lag], at]), np.concatenate([[era.position[0]], end])
    last = np.searchsorted(end, copied, side="right") - 1
    before = np.clip(last, 0, len(end) - 1)
    behind = np.clip(last + 1, 0, len(end) - 1)
    grown = np.where(end[behind] > end[before], end[behind] - end[before], 1.0)
    found = at[before] + (copied - end[before]) / grown * (at[behind] - at[before])
    return np.where(last < 0, np.nan, found)
