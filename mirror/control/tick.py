"""A tick: one bounded round of control work, with a report that says what was done and what went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mirror.kafka.connecting import in_words
from mirror.kafka.problems import (
    ConnectionFailed,
    KafkaProblem,
)
from mirror.kafka.security import UnsupportedSetting
from mirror.model.flow import Flow

Clock: TypeAlias = Callable[[], int]
"""The time in milliseconds since the epoch."""


class NotLeading(Exception):
    """Something was not written, because this engine does not lead the flow any more, or cannot know that it does."""


# What a cluster, another engine, or this machine (a key store that is being replaced, too many open files) can do to a
# round: it is reported and the round comes again. Anything else is a defect and raises.
_OPERATIONAL = (
    KafkaProblem,
    NotLeading,
    UnsupportedSetting,
    OSError,
)
# What fails for ten groups fails for ten thousand; a report must stay far below the size of a record.
MOST_NAMED = 10
_LONGEST_NAMED = 1_000


def now_ms() -> int:
    """Return the time of this machine in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class TickReport:
    """What one round did.

    Attributes
    ----------
    name
        which tick, with its flow: ``checkpoints east->west``.
    at_ms
        when the round began.
    done
        how many items were changed or written.
    problems
        what went wrong, in words for people; a flow with problems is degraded until a round has none.
    notes
        what people should know although nothing is wrong.
    unreached
        the cluster that could not be reached, if that ended the round; else empty.
    """

    name: str
    at_ms: int
    done: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unreached: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems


def connection_name(flow: Flow, alias: str) -> str:
    """Return what is told of a flow's attempts to connect to one of its clusters begins with."""
    return f"connection of {flow} to {alias}"


def run_tick(name: str, clock: Clock, round_of_work: Callable[[int], tuple[int, Sequence[str]]]) -> TickReport:
    """Run one round and report on it; a cluster that fails is a problem in the report, not an exception.

    Parameters
    ----------
    round_of_work
        is given the time and returns how many items it changed and what went wrong with others.
    """
    at_ms = clock()
    try:
        done, problems = round_of_work(at_ms)
    except ConnectionFailed as error:
        return TickReport(name, at_ms, 0, (str(error),), unreached=error.alias)
    except _OPERATIONAL as error:
        return TickReport(name, at_ms, 0, (in_words(error) if isinstance(error, OSError) else str(error),))
    return TickReport(name, at_ms, done, tuple(problems))


def shortened(texts: Sequence[str]) -> list[str]:
    """Return the first of some texts, each of a length that can be read, and how many more there are."""
    messages = [each if len(each) <= _LONGEST_NAMED else f"{each[:_LONGEST_NAMED]}..." for each in texts[:MOST_NAMED]]
    return [*messages, f"... and {len(texts) - MOST_NAMED:,} more"] if len(texts) > MOST_NAMED else messages
