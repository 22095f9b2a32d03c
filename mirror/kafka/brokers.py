"""What the brokers of a cluster are: their settings, what they offer clients, the transactions they coordinate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kafka.protocol.admin import DescribeConfigsRequest, ListTransactionsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from mirror.kafka import topic_ids
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigEntry, config_entries
from mirror.kafka.metadata import metadata_request
from mirror.kafka.problems import ClusterError

#: Requests by which clients take part in groups of the newer kinds, and by which transactions are listed.
CONSUMER_GROUP_HEARTBEAT: Final = 68
SHARE_GROUP_HEARTBEAT: Final = 76
STREAMS_GROUP_HEARTBEAT: Final = 88
LIST_TRANSACTIONS: Final = 66

_BROKER_RESOURCE = 4
# The first that tells features, and wants to know who asks.
_WITH_FEATURES = 3

# What a broker says of one item: error code, message, value.
_Reply: TypeAlias = tuple[int, str | None, Any]


@dataclass(frozen=True, slots=True)
class Offered:
    """What every broker of a cluster offers.

    Attributes
    ----------
    requests
        by key, the newest version of each request that all of them know.
    features
        the level of each feature that the cluster has been set to (KIP-584); none before Kafka 2.7.
    """

    requests: Mapping[int, int] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)


def broker_configs(cluster: Cluster) -> Found[int, tuple[ConfigEntry, ...]]:
    """Return every setting of each broker that is up; each is asked itself, for nobody else knows."""

    def ask(asked: Sequence[int]) -> dict[int, _Reply]:
        return {broker: _configs(cluster, broker) for broker in asked}

    return cluster.ask_each("reading the settings of brokers", cluster.broker_ids(), ask)


def offered(cluster: Cluster) -> Offered:
    """Return what all brokers that are up offer.

    Raises
    ------
    ClusterError
        if one of them does not answer.
    """
    common: dict[int, int] = {}
    features: dict[str, int] = {}
    for place, broker in enumerate(cluster.broker_ids()):
        request = ApiVersionsRequest(
            client_software_name="mirror", client_software_version="0", min_version=0, max_version=_WITH_FEATURES
        )
        response = cluster.send(request, broker)
        newest = {each.api_key: each.max_version for each in response.api_keys}
        common = newest if place == 0 else {key: min(at, newest[key]) for key, at in common.items() if key in newest}
        features = {each.name: each.max_version_level for each in getattr(response, "finalized_features", None) or ()}
    return Offered(common, features)


def transactional_ids(cluster: Cluster) -> dict[str, str]:
    """Return the transactional ids that the cluster knows and lets us know, each with its state, such as ``Ongoing``.

    Raises
    ------
    ClusterError
        if one of the brokers does not tell.
    """

    def ask(asked: Sequence[int]) -> dict[int, _Reply]:
        return {broker: _transactions(cluster, broker) for broker in asked}

    doing = "listing transactions"
    found: Found[int, dict[str, str]] = cluster.ask_each(doing, cluster.broker_ids(), ask)
    for problem in found.problems.values():
        raise ClusterError(cluster.alias, doing, problem)
    return {name: state for listed in found.values() for name, state in listed.items()}


def known_topic_ids(cluster: Cluster, names: Collection[str]) -> dict[str, frozenset[str]]:
    """Return under which ids each topic is known to the brokers that are up: more than one if some have not heard yet.

    Of a topic that a broker does not know, or does not let us see, it knows the empty id.

    Raises
    ------
    ClusterError
        if one of them does not answer.
    """
    known: dict[str, set[str]] = {name: set() for name in names}
    for broker in cluster.broker_ids():
        for name, topic_id in _topic_ids(cluster, broker, names).items():
            known[name].add(topic_id)
    return {name: frozenset(ids) for name, ids in known.items()}


def brokers_without(cluster: Cluster, topic: str) -> tuple[int, ...]:
    """Return the ids of the brokers that say that they do not know a topic; one that does not answer says nothing."""
    lacking = []
    for broker in cluster.broker_ids():
        with suppress(ClusterError):
            if not _topic_ids(cluster, broker, [topic])[topic]:
                lacking.append(broker)
    return tuple(lacking)


def _topic_ids(cluster: Cluster, broker: int, names: Collection[str]) -> dict[str, str]:
    """Return the id of each topic as one broker knows it, empty if it does not."""
    described = {each.name: each for each in cluster.send(metadata_request(names), broker).topics}
    found = {name: described.get(name) for name in names}
    return {
        name: topic_ids.spell(topic.topic_id) if topic is not None and not topic.error_code else ""
        for name, topic in found.items()
    }


def values_of(configs: Mapping[int, Sequence[ConfigEntry]]) -> dict[str, frozenset[str]]:
    """Return the values of each setting on all brokers, as far as they are reported."""
    values: dict[str, set[str]] = defaultdict(set)
    for entries in configs.values():
        for entry in entries:
            if entry.value is not None:
                values[entry.name].add(entry.value)
    return {name: frozenset(found) for name, found in values.items()}


def _configs(cluster: Cluster, broker: int) -> _Reply:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker), configuration_keys=None
    )
    (result,) = cluster.send(DescribeConfigsRequest(resources=[resource]), broker).results
    return result.error_code, result.error_message, config_entries(result)


def _transactions(cluster: Cluster, broker: int) -> _Reply:
    response = cluster.send(ListTransactionsRequest(state_filters=[], producer_id_filters=[], max_version=0), broker)
    listed = {each.transactional_id: each.transaction_state for each in response.transaction_states}
    return response.error_code, None, listed
