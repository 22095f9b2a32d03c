"""Waiting until a flow has copied up to where its source's logs ended, for as long as it comes further."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.recovery.flow_ends import FlowEnds, yet_to_be_copied
from mirror.recovery.step_facts import named, stretches_named
from mirror.waiting import Counted, WaitTimeout, wait_until


@dataclass(frozen=True, slots=True)
class Patience:
    """For how many seconds a copy is waited for.

    Attributes
    ----------
    all_in_all
        until it has everything.
    standstill
        while it comes no further.
    engine
        while no engine runs: one may just be starting, or take over.
    """

    all_in_all: float
    standstill: float
    engine: float


def await_copy(
    ends: FlowEnds, fixed: Mapping[TopicPartition, int], patience: Patience, monotonic: Callable[[], float]
) -> str:
    """Wait until the copy has reached the ends ``fixed``; return what was done, for people.

    Raises
    ------
    WaitTimeout
        if it does not in time, or cannot: the message names partitions.
    """
    source, target = ends.flow.source, ends.flow.target
    left, stopped = list[str](), list[str]()
    if ends.is_paused():
        raise WaitTimeout(f"{ends.flow} is paused, so it copies nothing: mirror resume")
    ran_at = further_at = monotonic()
    most, least = 0, -1
    is_alone = stands_still = False

    def look() -> Counted:
        nonlocal ran_at, further_at, most, least, is_alone, stands_still
        copied, now = ends.copied(), monotonic()
        lacking = yet_to_be_copied(ends, fixed, copied)
        left[:] = stretches_named(lacking)
        stopped[:] = [f"{each}: {why}" for each, why in copied.stops.items() if each in fixed]
        ran_at = now if not left or ends.is_running() else ran_at
        is_alone = now - ran_at > patience.engine
        count = sum(end - start for start, end in lacking.values())
        most = max(most, count)
        if least < 0 or count < least:
            least, further_at = count, now
        stands_still = now - further_at > patience.standstill
        return Counted(most - count, most)

    try:
        wait_until(
            look,
            f"{target} to have the records of {source}",
            timeout_seconds=patience.all_in_all,
            until=lambda _: not left or bool(stopped) or is_alone or stands_still,
        )
    except WaitTimeout:
        raise WaitTimeout(f"after {patience.all_in_all:g} s {target} lacks records: {named(left)}") from None
    if left and stopped:
        raise WaitTimeout(f"{target} lacks records, and their copy has stopped: {named(stopped)}")
    if left and is_alone:
        message = f"for {patience.engine:g} s no engine has copied {ends.flow}: mirror run FILE"
        raise WaitTimeout(f"{message}; {target} lacks records: {named(left)}")
    if left:
        message = f"for {patience.standstill:g} s {ends.flow} has come no further"
        raise WaitTimeout(f"{message}; {target} lacks records: {named(left)}")
    return f"{target} has all records of {counted(len(fixed), 'partition')}"
