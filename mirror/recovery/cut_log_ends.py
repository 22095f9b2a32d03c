"""Where the logs of the target end when a flow is cut: what is written behind that was written since.

Times of records do not tell: producers choose them (CreateTime), and clocks differ. Where nothing else is on record
what they show was written since, and of the rest nobody knows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import KafkaProblem
from mirror.kafka.topic_ids import differ
from mirror.model.failover import Phase
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.topics import ReplicationPolicy

#: More than that are not kept: they are part of one record of the state topic, which takes 1 MB (the default of
#: ``max.message.bytes``). The times of records have to do then.
MOST_BYTES: Final = 700_000
_BOOTSTRAP_MS = 5_000


class LogEnds(NamedTuple):
    """Where logs end, and the ids of their topics, as `PauseWish` has them."""

    ends: Mapping[str, Sequence[int | None]]
    ids: Mapping[str, str] | None


def log_ends(target: Cluster, settings: ClusterSettings, policy: ReplicationPolicy) -> LogEnds | None:
    """Return the ends of all topics of the target but for internal ones; None where they have no room in a record.

    A leader that is being elected, or does not take the connection, is asked again for some seconds: where the cut does
    not know an end, no later verdict does. One that is silent keeps no flow from being cut.

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
            ends = channel.offsets_once_led(partitions, LATEST)
    except KafkaProblem:
        return None
    return fitting(
        {name: [ends.get(one) for one in each.topic_partitions] for name, each in topics.items()},
        {name: each.topic_id for name, each in topics.items()},
    )


def fitting(ends: Mapping[str, Sequence[int | None]], ids: Mapping[str, str]) -> LogEnds | None:
    """Return what of it has room in a record, the ends first; None if they have not."""
    room = MOST_BYTES - len(json.dumps(ends, separators=(",", ":")))
    if room < 0:
        return None
    return LogEnds(ends, ids if len(json.dumps(ids, separators=(",", ":"))) <= room else None)


class AtTheCut(NamedTuple):
    """Where logs of the target ended when a flow was cut.

    Attributes
    ----------
    reached
        where each ended, as far as that is known, or where the first record lies that bears a later time; 0 for one
        that ends before that by now, or is of a topic that was created anew since.
    untold
        of those whose end is not on record, the offsets, from one up to, not including, another, of which nobody knows
        whether they were written since.
    """

    reached: Mapping[TopicPartition, int]
    untold: Mapping[TopicPartition, tuple[int, int]]


def ended_at_the_cut(channel: Channel, state: FlowState, partitions: Collection[TopicPartition]) -> AtTheCut:
    """Return where logs of the target ended when the flow was cut; nothing of a flow that is not failed over.

    Not on record is that of a cut that an earlier version has made, or that somebody has ended by hand since (the
    time of the failover counts then), and of logs whose leader was silent.

    Raises
    ------
    KafkaProblem
        if the target does not tell where they end.
    """
    cut = state.pauses.cut
    done = [each.at_ms for each in state.failovers.values() if each.phase is Phase.DONE]
    if cut is None and not done:
        return AtTheCut({}, {})
    there = set(partitions) - channel.absent(partitions)
    ids = (cut.log_ids if cut is not None else None) or {}
    anew = {each for each in there if differ(ids.get(each.topic, ""), channel.topic_id(each.topic))}
    ends = {each: 0 if each in anew else cut.log_end(each) if cut is not None else None for each in there}
    lacking = [each for each, end in ends.items() if end is None]
    by_time = channel.offsets(lacking, cut.at_ms if cut is not None else min(done))
    starts, latest = channel.offsets(lacking, EARLIEST), channel.offsets(ends, LATEST, View.WRITTEN)
    known = {each: at for each, at in (ends | by_time).items() if at is not None and at >= 0}
    until = {each: by_time[each] if by_time[each] >= 0 else latest[each] for each in lacking}
    return AtTheCut(
        {each: at if at <= latest[each] else 0 for each, at in known.items()},
        {each: (starts[each], end) for each, end in until.items() if starts[each] < end},
    )
