"""Whether applications are at work on the cluster that they were moved to, as it tells itself.

Somebody's word for that, a person's or that of a probe without moments, is checked by it. What the cluster does not
show is not thereby untrue, and is not observed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mirror.kafka.answers import Found
from mirror.kafka.channel import Channel, offsets_request
from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition
from mirror.recovery.applications import Answer, Done, Unobserved
from mirror.recovery.step_facts import named
from mirror.waiting import last_seen

Placed = Mapping[str, Mapping[TopicPartition, int]]
"""Where groups were put, by group and partition of the target."""


def back_at_work(source: str, run: str, found: Sequence[str]) -> str | None:
    """Return why applications are not started elsewhere, given who was ``found`` at work on their source; None: nobody.

    That they are being started is not on record: who has an older copy of the run's directory may have taken it back.
    """
    if not found:
        return None
    return (
        f"nothing is started, since applications are at work on {source} again ({named(found)}), as by taking back an "
        f"older copy of this run's directory. Stop them there and go on; if they have written, stay there, and give "
        f"this run up with another one: --give-up {run}"
    )


def checked_write(answer: Answer, cluster: str, first_written: Callable[[], int | None], seconds: float) -> Answer:
    """Return what is known of a first write: when it was, by the cluster, where somebody only says that there was one.

    ``first_written`` asks the cluster when it first accepted one; None: none is seen. It is asked for so many
    ``seconds`` at most.
    """
    if not isinstance(answer, Done) or not answer.is_word:
        return answer
    at_ms = last_seen(
        first_written, f"{cluster} to show a first write", timeout_seconds=seconds, until=lambda at: at is not None
    )
    if at_ms is None:
        return Unobserved(
            f"{answer.detail}, but no topic of the flow has a record there with a time from behind the cut"
        )
    return Done(f"{answer.detail}, and {cluster} shows it", at_ms)


def checked_reads(
    answers: Mapping[str, Answer],
    cluster: str,
    idle_groups_of: Callable[[Collection[str]], Mapping[str, str]],
    seconds: float,
) -> Mapping[str, Answer]:
    """Return what is known of groups that read, where somebody only says so of some.

    ``idle_groups_of`` asks the cluster which groups show nothing of that, and returns what of each it shows. It is
    asked for so many ``seconds`` at most: who has just been started joins later.
    """
    by_word = [group for group, each in answers.items() if isinstance(each, Done) and each.is_word]
    idle: Mapping[str, str] = {}
    if by_word:
        idle = last_seen(
            lambda: idle_groups_of(by_word),
            f"the groups to be seen on {cluster}",
            timeout_seconds=seconds,
            until=lambda found: not found,
        )
    return {
        group: Unobserved(f"{each.detail}, but {idle[group]}")
        if group in idle and isinstance(each, Done)
        else replace(each, is_word=False)
        if isinstance(each, Done)
        else each
        for group, each in answers.items()
    }


def first_write(channel: Channel, partitions: Sequence[TopicPartition], since_ms: int) -> int | None:
    """Return the timestamp of the first record that partitions have of that time or later; None: they have none.

    Raises
    ------
    BrokerRefused, ConnectionFailed, LeaderUnknown
        if that cannot be known of a partition, and no other one has a record.
    """

    def ask(node: int, led: Sequence[TopicPartition]) -> Iterable[tuple[TopicPartition, int, int]]:
        return _timestamps(channel.call(offsets_request(led, since_ms), node))

    found = channel.ask_leaders("first writes", partitions, ask)
    times = [at_ms for at_ms in found.values() if at_ms >= 0]
    if not times:
        found.whole()
    return min(times, default=None)


def _timestamps(answer: Any) -> Iterator[tuple[TopicPartition, int, int]]:
    for topic in answer.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry.error_code, entry.timestamp


def idle_groups(cluster: Cluster, groups: Collection[str], placed: Placed) -> dict[str, str]:
    """Return the groups that show nothing of being at work; for people, how so.

    They have no member, and of the partitions where they were put none is further than that; of others it is not known
    when they were read. Or the cluster does not tell of them.
    """
    members = cluster.describe_groups(groups)
    found = {group: f"{cluster.alias} does not describe it: {why}" for group, why in members.problems.items()}
    empty = [group for group, each in members.items() if not each.is_active]
    positions = cluster.positions_of_groups(empty) if empty else Found()
    for group in empty:
        at = {each: known.position for each, known in positions.get(group, Found()).items()}
        if not any(at.get(each, put) > put for each, put in placed.get(group, {}).items()):
            where = f": {positions.problems[group]}" if group in positions.problems else ", and has not read on there"
            found[group] = f"it has no member on {cluster.alias}{where}"
    return found


def gone_on(cluster: Cluster, placed: Placed) -> list[str]:
    """Return, for people, which groups would not read on from where they were put: they would pass records.

    Their positions are further, or they have none any more. One that was set back reads again what it has read, as
    somebody may want it to.
    """
    found = cluster.positions_of_groups(placed)
    messages = [f"group {group}: where it stands is not reported: {why}" for group, why in found.problems.items()]
    for group, positions in found.items():
        for partition, put in placed[group].items():
            now = positions.get(partition)
            if now is None:
                messages.append(f"group {group} was put at {put} of {partition}, and has no position there any more")
            elif now.position > put:
                messages.append(f"group {group} was put at {put} of {partition}, and stands at {now.position}")
    return sorted(messages)
