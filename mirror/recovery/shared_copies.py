"""Which copies others than the flow may write to: records of others are extra in all the rest.

Invariants:

(a) Under unchanged names the copy is the mirror's alone until something says otherwise
    (``recovery/shared_copies.py``): a flow back, another flow into the topic, a failover on record. Who mirrors the
    same source cluster under another alias is none of these: its records are there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.engine.mirrors import Mirrors, WriterLogs, state_topics
from mirror.model.failover import Phase
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic


def shared_copies(
    settings: FlowSettings,
    flows: Sequence[FlowSettings],
    state: FlowState,
    copied: Mapping[TopicPartition, TopicPartition],
    mirrors: Mirrors,
    mirrored: Collection[str],
) -> frozenset[TopicPartition]:
    """Return the copies that something on record, or in the file, lets others write to.

    A topic with the name that the policy gives to copies of the source is the flow's alone. One with another name
    (unchanged names, a router) is shared if

    * the flow was failed over: the applications wrote to the target;
    * its records are, or once were, mirrored to the source: so somebody writes them;
    * other flows copy to it, or other partitions of the same flow; one whose routers send something there has it on
      record.

    Parameters
    ----------
    flows
        all the enabled ones of the file.
    mirrors
        has looked at the source.
    mirrored
        the topics of the target that flows of other files copy to (`mirrored_by_other_flows`).
    """
    flow, policy = settings.flow, settings.policy
    was_failed_over = any(each.phase is not Phase.UNDER_WAY for each in state.failovers.values())
    users = Counter(copied.values())
    others = [each for each in flows if each.flow != flow]

    def is_shared(partition: TopicPartition, copy: TopicPartition) -> bool:
        if policy.can_detect_cycles and copy.topic == policy.format_remote_topic(flow.source, partition.topic):
            return False
        return (
            was_failed_over
            or users[copy] > 1
            or copy.topic in mirrored
            or mirrors.was_mirrored_back(partition.topic)
            or any(each.flow.source == flow.target and each.replicates(copy.topic) for each in others)
            or any(each.flow.target == flow.target and each.keeps_name(copy.topic) for each in others)
        )

    return frozenset(copy for partition, copy in copied.items() if is_shared(partition, copy))


def mirrored_by_other_flows(
    settings: FlowSettings, cluster: ClusterSettings, source_id: str, topics: Collection[str]
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return to which topics of the target other flows have copied, by the state topics that they keep there.

    Whoever mirrors the same source cluster, under another alias, has copied its records twice: he is none of them.

    Parameters
    ----------
    source_id
        the id of the source cluster.
    topics
        of the target.

    Returns
    -------
    the names, and what could not be read of it

    Raises
    ------
    ConnectionFailed
        if the target does not answer.
    """
    target = settings.flow.target
    with closing(WriterLogs(target, cluster.client)) as logs:
        unread = logs.catch_up(state_topics(topics) - {state_topic(settings.flow.source)})
        others = [topic for topic, known in logs.known.items() if known.source_id != source_id]
        names = frozenset(name for topic in others for name in logs.copied(topic))
        return names, tuple(f"who else mirrors into {target} is not known: {each}" for each in unread.values())
