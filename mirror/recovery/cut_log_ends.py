"""Where the logs of the target end when a flow is cut: what is written behind that was written since.

Times of records do not tell: producers choose them (CreateTime), and clocks differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import LATEST, Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import KafkaProblem
from mirror.model.topics import ReplicationPolicy

#: More than that are not kept: they are part of one record of the state topic, which takes 1 MB (the default of
#: ``max.message.bytes``). The times of records have to do then.
MOST_BYTES: Final = 700_000
_BOOTSTRAP_MS = 5_000


def log_ends(
    target: Cluster, settings: ClusterSettings, policy: ReplicationPolicy
) -> Mapping[str, Sequence[int | None]] | None:
    """Return the ends of all topics of the target but for internal ones, as `PauseWish.log_ends` has them.

    Each leader is asked once, and none that is silent keeps a flow from being cut.

    Raises
    ------
    KafkaProblem
        if no broker of the target answers.
    """
    topics = {name: each for name, each in target.topics().items() if not policy.is_internal_topic(name)}
    partitions = [one for each in topics.values() for one in each.topic_partitions]
    try:
        with closing(Channel(target.alias, settings.client, bootstrap_ms=_BOOTSTRAP_MS)) as channel:
            # What is not replicated yet may be gone with its leader, and other records stand there then.
            ends = channel.find_offsets(partitions, LATEST)
    except KafkaProblem:
        return None
    return fitting({name: [ends.get(one) for one in each.topic_partitions] for name, each in topics.items()})


def fitting(ends: Mapping[str, Sequence[int | None]]) -> Mapping[str, Sequence[int | None]] | None:
    """Return ends that have room in a record; None if they have not."""
    return ends if len(json.dumps(ends, separators=(",", ":"))) <= MOST_BYTES else None
