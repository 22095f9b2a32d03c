"""Shadow groups on a cluster: made from planned positions, found again by name, deleted. No other group is touched.

Invariants:

(a) Shadow groups begin with two underscores, which MirrorMaker's default filter excludes; a flow of the file that
    would carry them on is refused.
(b) Shadow groups subscribe by pattern: only then kafka-python knows the topics' partitions before it joins a group.
    It forgets a second join that a poll ends in the middle of, and the partitions with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress

from mirror.kafka.answers import ItemResult
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.partition import TopicPartition
from mirror.model.shadow import ShadowPartition, is_shadow, shadow_name
from mirror.waiting import WaitTimeout, wait_until

# Longer than the session of a reader that was killed, after which its group has no member any more.
_LEAVE_SECONDS = 15.0


def create_shadows(target: Cluster, stamp: str, partitions: Iterable[ShadowPartition]) -> dict[str, str]:
    """Give each group that is tried a shadow with the planned positions; return the problems, by group.

    A shadow is there whole or counts as a problem.
    """
    positions: dict[str, dict[TopicPartition, GroupPosition]] = defaultdict(dict)
    for each in partitions:
        if each.is_tried and each.position is not None:
            positions[each.group][each.target] = GroupPosition(each.position)
    problems = {}
    written = target.write_positions_of_groups(
        {shadow_name(stamp, group): wanted for group, wanted in positions.items()}
    )
    for group in positions:
        results = written[shadow_name(stamp, group)]
        refused = [f"{result.item}: {result.problem}" for result in results if result.problem]
        if refused:
            problems[group] = f"the shadow group could not be made on {target.alias}: {'; '.join(refused)}"
    return problems


def find_shadows(cluster: Cluster) -> tuple[str, ...]:
    """Return the shadow groups on a cluster, of whichever rehearsal, in use or left behind."""
    return tuple(listing.group for listing in cluster.groups() if is_shadow(listing.group))


def delete_shadows(cluster: Cluster, names: Collection[str]) -> tuple[ItemResult, ...]:
    """Delete shadow groups and make sure that they are gone; doing it again is no problem.

    One that still has a member is waited for until the session of a killed reader would have ended; if it has one then
    too it belongs to a rehearsal that runs, and is left, as a problem.

    Raises
    ------
    ValueError
        for a group that is none: nothing is deleted then.
    """
    others = [name for name in names if not is_shadow(name)]
    if others:
        raise ValueError(f"not a shadow group, left alone: {', '.join(sorted(others))}")
    results: dict[str, ItemResult] = {}

    def left() -> list[str]:
        again = [name for name in names if name not in results or results[name].problem]
        results.update({result.item: result for result in cluster.delete_groups(again)})
        return [name for name, result in results.items() if result.problem]

    if not names:
        return ()
    with suppress(WaitTimeout):  # the results say of each why
        wait_until(left, "shadow groups to lose members", timeout_seconds=_LEAVE_SECONDS, until=lambda some: not some)
    return tuple(results[name] for name in sorted(results))
