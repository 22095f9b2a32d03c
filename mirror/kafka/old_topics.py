"""Topics that are made anew: closed for writes, deleted, and created as they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from mirror.kafka.answers import ItemResult
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from mirror.kafka.problems import ClusterError
from mirror.model.acl import Operation
from mirror.model.state_values import ClosedCopy

_MOST_BYTES = "max.message.bytes"
# No batch is as small: brokers refuse every one (MESSAGE_TOO_LARGE), whoever sends it.
_CLOSED = "0"
_SET_FOR_TOPIC = "DYNAMIC_TOPIC_CONFIG"
_NEEDED: Final = {Operation.ALTER_CONFIGS: "AlterConfigs", Operation.DELETE: "Delete"}


@dataclass(frozen=True, slots=True)
class OldTopic:
    """What a topic is like; ``configs`` are the settings that are set for it alone."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    @property
    def is_closed(self) -> bool:
        """Whether brokers refuse whatever is produced to it."""
        return closes(_MOST_BYTES, self.configs.get(_MOST_BYTES))

    @property
    def open_configs(self) -> dict[str, str]:
        """Return its settings but for what closes it, which a run whose directory is lost may have left."""
        return {name: value for name, value in self.configs.items() if not closes(name, value)}

    @property
    def as_closed(self) -> ClosedCopy:
        """Return what tells how it is opened again, once it is closed."""
        return ClosedCopy(self.name, self.topic_id, self.open_configs.get(_MOST_BYTES))

    def as_json(self) -> dict[str, Any]:
        """Return the form that `of_json` reads."""
        return {
            "topic": self.name,
            "topic_id": self.topic_id,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
        }

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> OldTopic:
        """Read what `as_json` has written."""
        return cls(row["topic"], row["topic_id"], row["partitions"], row["replication_factor"], row["configs"])


def closes(name: str, value: str | None) -> bool:
    """Tell whether a topic's setting is the one that :func:`close` gives it."""
    return (name, value) == (_MOST_BYTES, _CLOSED)


def look_at(cluster: Cluster, names: Collection[str]) -> dict[str, OldTopic]:
    """Return what those of the topics are like that are there.

    Raises
    ------
    ClusterError
        if the cluster does not tell.
    """
    topics = cluster.topics(names)
    configs = cluster.topic_configs(topics)
    for name, why in (topics.problems | configs.problems).items():
        raise ClusterError(cluster.alias, f"looking at the topic {name}", why)
    return {
        name: OldTopic(
            name,
            topic.topic_id,
            len(topic.partitions),
            len(topic.partitions[0].replicas),
            {each.name: each.value or "" for each in configs[name] if each.source == _SET_FOR_TOPIC},
        )
        for name, topic in topics.items()
    }


def lacking_rights(cluster: Cluster, names: Collection[str]) -> dict[str, str]:
    """Return which rights to make a topic anew are lacking, in words, of those of the topics that are there.

    Raises
    ------
    ClusterError
        if the cluster does not tell.
    """
    if not names:
        return {}
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    # Without an authorizer everything is granted, and brokers say so.
    granted = {each.name: each.authorized_operations for each in cluster.send(request).topics if not each.error_code}
    lacking = {
        name: [right for operation, right in _NEEDED.items() if operation not in operations]
        for name, operations in granted.items()
    }
    found = {name: f"needs {' and '.join(rights)} on the topic" for name, rights in lacking.items() if rights}
    # Of a topic that is there a cluster says that it is, to those who may create it.
    for each in cluster.create_topics([NewTopic(name, 1, 1) for name in granted], only_validate=True):
        if each.problem is not None:
            found[each.item] = "; ".join([*([found[each.item]] if each.item in found else []), each.problem])
    return found


def close(cluster: Cluster, topics: Collection[OldTopic]) -> None:
    """Have brokers refuse whatever is produced to these topics.

    Raises
    ------
    ClusterError
        if that is refused.
    """
    change = ConfigChange(set={_MOST_BYTES: _CLOSED})
    _require(cluster, "closing", cluster.alter_configs({each.name: change for each in topics}))


def open_again(cluster: Cluster, topics: Collection[ClosedCopy]) -> None:
    """Take back what :func:`close` did, of those that are still there.

    Raises
    ------
    ClusterError
        if that is refused.
    """
    there = look_at(cluster, [each.topic for each in topics])
    closed = [
        each
        for each in topics
        if (now := there.get(each.topic)) is not None and now.topic_id == each.topic_id and now.is_closed
    ]
    _require(cluster, "opening", cluster.alter_configs({each.topic: _as_before(each) for each in closed}))


def opening_command(servers: str, topic: ClosedCopy) -> str:
    """Return the command by which people take back what :func:`close` did."""
    before = topic.most_bytes
    change = f"--delete-config {_MOST_BYTES}" if before is None else f"--add-config {_MOST_BYTES}={before}"
    return (
        f"kafka-configs.sh --bootstrap-server {servers} --entity-type topics --entity-name {topic.topic} --alter "
        f"{change}"
    )


def delete(cluster: Cluster, topics: Collection[OldTopic]) -> None:
    """Delete the topics with just these ids; one that is gone is no problem.

    Raises
    ------
    ClusterError
        if that is refused.
    """
    _require(cluster, "deleting", cluster.delete_topics_by_id({each.name: each.topic_id for each in topics}))


def create(cluster: Cluster, topics: Collection[OldTopic], partitions: Mapping[str, int]) -> None:
    """Create the topics as they were, with as many partitions as their copies, if those have more.

    An engine may have created one first: then it gets their settings.

    Raises
    ------
    ClusterError
        if that is refused.
    """
    counts = {each.name: max(each.partitions, partitions.get(each.name, 0)) for each in topics}
    new = [NewTopic(each.name, counts[each.name], each.replication_factor, each.open_configs) for each in topics]
    created = cluster.create_topics(new)
    _require(cluster, "creating", created)
    existed = [each for each, result in zip(topics, created, strict=True) if result.existed]
    if not existed:
        return
    now = look_at(cluster, [each.name for each in existed])
    smaller = {name: counts[name] for name, topic in now.items() if topic.partitions < counts[name]}
    _require(cluster, "adding partitions to", cluster.grow_partitions(smaller))
    changes = {each.name: ConfigChange(set=each.open_configs) for each in existed if each.open_configs}
    _require(cluster, "setting", cluster.alter_configs(changes))


def _as_before(topic: ClosedCopy) -> ConfigChange:
    if topic.most_bytes is not None:
        return ConfigChange(set={_MOST_BYTES: topic.most_bytes})
    return ConfigChange(delete=(_MOST_BYTES,))


def _require(cluster: Cluster, doing: str, results: Sequence[ItemResult]) -> None:
    for each in results:
        if each.problem is not None:
            raise ClusterError(cluster.alias, f"{doing} the topic {each.item}", each.problem)
