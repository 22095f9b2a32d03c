"""Waiting until copies hold what was written, and groups have read what is there; told is who has not in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack, closing, suppress
from functools import cache, partial

from mirror.config.settings import ClusterSettings, MirrorSettings
from mirror.control.status import observe
from mirror.kafka.answers import Found
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.log import holds_record
from mirror.kafka.problems import KafkaProblem
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

_COPYING = ("RUNNING", "PAUSED", "DEGRADED")


def await_copies(behind: Callable[[], list[str]], *, seconds: float) -> list[str]:
    """Wait until every copy has caught up with what was written; return what has not when the time is over.

    Parameters
    ----------
    behind
        says, for people, which copies have not: by the logs (`mirror.recovery.tails`), or by what a flow has on record.
    """
    return _left(behind, "every copy to catch up", seconds)


def await_return(settings: MirrorSettings, home: Flow, groups: Sequence[str], *, seconds: float) -> None:
    """Wait until the target of a flow is back, with leaders of all its partitions, and an engine copies to it.

    Its coordinators remember the members that the groups had when it was lost, until the sessions of those time out:
    that is waited for, too, since no position of a group with members can be written.

    Raises
    ------
    WaitTimeout
        saying what is not so when the time is over.
    """

    def missing() -> str | None:
        try:
            with Cluster.connect(settings.clusters[home.target]) as cluster:
                topics = cluster.topics()
                partitions = [each for topic in topics.values() for each in topic.topic_partitions]
                problems = [f"{home.target} {what}: {why}" for what, why in topics.problems.items()]
                leaderless = cluster.offsets(partitions, "latest").problems
                problems += [f"{home.target} {what}: {why}" for what, why in leaderless.items()]
                states = cluster.describe_groups(groups)
                problems += [f"group {group}: {why}" for group, why in states.problems.items()]
                problems += [
                    f"group {group} has {counted(state.members, 'member')} on {home.target} ({state.state})"
                    for group, state in states.items()
                    if state.is_active
                ]
        except KafkaProblem as away:
            return str(away)
        if problems:
            return "; ".join(problems)
        with observe(settings, {home}) as (observer,):
            status = observer.look()
        return None if status.state in _COPYING else f"{home} is {status.state}: {'; '.join(status.reasons)}"

    what = f"{home.target} to be back, and {home} to be copied"
    wait_until(missing, what, timeout_seconds=seconds, until=lambda problem: problem is None)


def await_reading(settings: ClusterSettings, wanted: Mapping[str, Set[str]], *, seconds: float) -> list[str]:
    """Wait until groups have read what is there on a cluster now; return who has not when the time is over.

    What comes meanwhile, as copies of what a forgotten producer sends do, may wait.

    Parameters
    ----------
    wanted
        the topics each group is to read.
    """
    ends: Found[TopicPartition, int] | None = None
    without_records: set[tuple[TopicPartition, int, int]] = set()

    def holds_records(channels: Callable[[], Channel], partition: TopicPartition, start: int, end: int) -> bool:
        if (partition, start, end) in without_records:
            return False
        if holds_record(channels(), partition, start, end):
            return True
        without_records.add((partition, start, end))
        return False

    def behind() -> list[str]:
        nonlocal ends
        try:
            with ExitStack() as connections:
                client = connections.enter_context(Cluster.connect(settings))
                # Nothing is read while everybody has read all.
                channel = cache(lambda: connections.enter_context(closing(Channel(settings.alias, settings.client))))
                if ends is None or ends.problems:
                    described = client.topics(set().union(*wanted.values()))
                    if described.problems:
                        return [f"{settings.alias} {topic}: {why}" for topic, why in described.problems.items()]
                    partitions = [one for topic in described.values() for one in topic.topic_partitions]
                    ends = client.offsets(partitions, "latest")
                positions = client.positions_of_groups(list(wanted))
                left = unread(wanted, ends, positions, partial(holds_records, channel))
                return [f"{settings.alias} {each}" for each in left]
        except KafkaProblem as away:
            return [str(away)]

    return _left(behind, f"every group to read what is on {settings.alias}", seconds)


def unread(
    wanted: Mapping[str, Set[str]],
    ends: Found[TopicPartition, int],
    positions: Found[str, Found[TopicPartition, GroupPosition]],
    holds_records: Callable[[TopicPartition, int, int], bool],
) -> list[str]:
    """Return, for people, which groups have not read the topics they were to read up to these ends, or may not have.

    A group commits behind the last record that it was handed: markers of transactions that follow at the end of a log
    stay behind its position for ever. ``holds_records`` tells whether there is a record from one offset up to another.
    """
    left = [f"{partition}: {problem}" for partition, problem in ends.problems.items()]
    left += [f"group {group}: {problem}" for group, problem in positions.problems.items()]
    for group, topics in wanted.items():
        found: Mapping[TopicPartition, GroupPosition] = positions.get(group, {})
        for partition, end in ends.items():
            position = found[partition].position if partition in found else 0
            missing = end - position
            if partition.topic not in topics or missing <= 0 or group in positions.problems:
                continue
            if holds_records(partition, position, end):
                left.append(f"{partition}, group {group}: {counted(missing, 'record')}")
    return left


def _left(behind: Callable[[], list[str]], what: str, seconds: float) -> list[str]:
    """Look until nobody is behind; return who was at the last look."""
    last: list[str] = []

    def look() -> list[str]:
        last[:] = behind()
        return last

    with suppress(WaitTimeout):
        wait_until(
            look,
            what,
            timeout_seconds=seconds,
            until=lambda left: not left,
            first_pause_seconds=0.1,
            longest_pause_seconds=1.0,
        )
    return last
