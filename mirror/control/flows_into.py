"""The states of the flows that lead into a flow's source, and those of them that it does not show.

Who has no right to Describe a topic is told the same whether or not it is there. So a state that is hidden counts as
that of a flow which has never run: who has narrow rights, and no such flow, gets checkpoints. What is not known then
is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mirror.control.flow_log import FlowLog
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import Topic
from mirror.model.state_record import state_topic


class FlowsInto:
    """Finds the states of flows into a cluster, on that cluster.

    Attributes
    ----------
    hidden
        the state topics that it did not show when it was asked last, with the reason.
    """

    def __init__(
        self, alias: str, client: Mapping[str, str], topics: Callable[[Sequence[str]], Found[str, Topic]]
    ) -> None:
        """Ask the cluster ``alias`` by ``topics``, and have states read as ``client``."""
        self.hidden: dict[str, str] = {}
        self._alias, self._client, self._topics = alias, client, topics

    def find(self, source: str) -> FlowLog | None:
        """Return the state of the flow from another cluster; None if it never ran, or is not shown."""
        topic = state_topic(source)
        found = self._topics([topic])
        self.hidden.pop(topic, None)
        self.hidden |= found.problems
        return FlowLog(self._client, topic, alias=self._alias) if topic in found else None

    def notes(self) -> tuple[str, ...]:
        """Return, for people, what is not known of groups, and which right would tell."""
        return hidden_notes(self.hidden, self._alias)


def hidden_notes(hidden: Mapping[str, str], alias: str) -> tuple[str, ...]:
    """Return, for people, what is not known of groups on a cluster that hides states, and which right would tell."""
    return tuple(
        f"whether a flow to {alias} has put groups there that have read nothing since is not known, as {topic} is not "
        f"shown there: {why}. If there is such a flow, these groups may be led past what they have not read; to have "
        f"that looked at, allow the flow's user to Describe and Read the topic {topic} on {alias}"
        for topic, why in sorted(hidden.items())
    )
