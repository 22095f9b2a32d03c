"""Whether anybody but a flow may write to one of its copies; where nobody may, what others have written is extra."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.engine.mirrors import Mirrors, WriterLogs, state_topics
from mirror.model.flow_state import state_topic


@dataclass(frozen=True, slots=True)
class OtherMirrors:
    """The flows of other files into a cluster, by the state topics that they keep there.

    Attributes
    ----------
    copies
        the topics to which they have copied.
    problems
        why some of it is not known.
    """

    copies: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def other_mirrors(
    settings: FlowSettings, clusters: Mapping[str, ClusterSettings], source_id: str, topics: Collection[str]
) -> OtherMirrors:
    """Return who else mirrors into the target of a flow, which has these topics.

    Whoever mirrors the same source cluster, under another alias, has copied its records twice: he is none of them.

    Raises
    ------
    ConnectionFailed
        if the target cannot be reached.
    """
    target = settings.flow.target
    logs = WriterLogs(target, clusters[target].client)
    try:
        problems = logs.catch_up(state_topics(topics) - {state_topic(settings.flow.source)})
        others = [topic for topic, known in logs.known.items() if known.source_id != source_id]
        copies = frozenset[str]().union(*(logs.copied(topic) for topic in others))
        return OtherMirrors(
            copies, tuple(f"who else mirrors into {target} is not known: {each}" for each in problems.values())
        )
    finally:
        logs.close()


@dataclass(frozen=True, slots=True)
class OtherWriters:
    """What is known of who else writes to the copies of a flow.

    Attributes
    ----------
    flows
        all enabled ones of the file.
    back
        who mirrors into the source.
    others
        who mirrors into the target with another file.
    is_failed_over
        whether a failover is on record: then applications write to the copies.
    """

    settings: FlowSettings
    flows: Sequence[FlowSettings]
    back: Mirrors
    others: OtherMirrors
    is_failed_over: bool

    def may_write(self, topic: str, copy: str) -> bool:
        """Tell whether others may write to ``copy``, where the records of ``topic`` are.

        Of a topic with the same name on both sides nobody may unless something on record, or in the file, says so. Of
        one that got another name than the policy's nobody knows.
        """
        policy, flow = self.settings.policy, self.settings.flow
        if policy.can_detect_cycles and copy == policy.format_remote_topic(flow.source, topic):
            return False
        return (
            copy != topic
            or self.is_failed_over
            or self.back.has_way_back(topic)
            or copy in self.others.copies
            or any(self._reaches(each, copy) for each in self.flows)
        )

    def _reaches(self, other: FlowSettings, copy: str) -> bool:
        is_another = other.flow.target == self.settings.flow.target and other.flow != self.settings.flow
        # A router may give this name to any topic.
        return is_another and (other.transforms.has_routers or other.keeps_name(copy))
