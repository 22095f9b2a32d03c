"""Where the logs of the target end when a flow is cut: what is written behind that was written since.

Times of records do not tell: producers choose them (CreateTime), and clocks differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.kafka.cluster import Cluster
from mirror.model.topics import ReplicationPolicy

#: Above that many partitions the ends are not kept: they are one record of the state topic, of up to 1 MB (the
#: default of ``max.message.bytes``), and an end has up to 20 digits. The times of records have to do then.
MOST_PARTITIONS = 40_000


def log_ends(target: Cluster, policy: ReplicationPolicy) -> Mapping[str, Sequence[int | None]] | None:
    """Return the ends of all topics of the target but for internal ones, as `PauseWish.log_ends` has them.

    Raises
    ------
    KafkaProblem
        if no broker of the target answers.
    """
    topics = {name: each for name, each in target.topics().items() if not policy.is_internal_topic(name)}
    partitions = [one for each in topics.values() for one in each.topic_partitions]
    if len(partitions) > MOST_PARTITIONS:
        return None
    ends = target.offsets(partitions, "written")
    return {name: [ends.get(one) for one in each.topic_partitions] for name, each in topics.items()}
