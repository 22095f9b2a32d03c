"""Which properties each Kafka client of a flow gets: the resolution order (CFG-080 to CFG-089), in which later wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror.config.connector_keys import Connector
from mirror.config.definitions import CLIENT_KEYS
from mirror.model.flow import Flow

_BYTE_ARRAY_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_LONGEST = 2**63 - 1
_LONGEST_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConnectorClients:
    """The clients of one connector, from the connector's settings with placeholders replaced.

    Parameters
    ----------
    values
        the connector's settings
    aliases
        of source and target, as these settings give them
    name
        the connector's name, part of every client id
    """

    values: Mapping[str, str]
    aliases: Flow
    name: str

    def of(self, end: str, client: str, role: str) -> dict[str, str]:
        """Return the properties of a consumer, producer or admin client (CFG-089) on the source or the target.

        The data producer is another one (CFG-087).
        """
        found = self._merged(end, client)
        if client == "consumer":
            found = {"auto.offset.reset": "earliest", **found, "enable.auto.commit": "false"}
        given = f"{found['client.id']}|" if "client.id" in found else ""
        return {**found, "client.id": f"{given}{self.aliases}|{self.name}|{role}"}

    def _merged(self, end: str, client: str) -> dict[str, str]:
        cluster = with_prefix_taken_off(self.values, f"{end}.cluster.")
        return {
            **{key: value for key, value in cluster.items() if key in CLIENT_KEYS},
            **with_prefix_taken_off(self.values, f"{client}."),
            **with_prefix_taken_off(self.values, f"{end}.{client}."),
        }


def data_producer(worker: Mapping[str, str], connector: Mapping[str, str], *, exactly_once: bool) -> dict[str, str]:
    """Return the properties of the producer of records: the worker's (CFG-082), overridden by the flow (CFG-088).

    Parameters
    ----------
    worker, connector
        settings with placeholders replaced
    """
    name = connector.get("name", Connector.SOURCE.value)
    properties = {
        "bootstrap.servers": worker.get("bootstrap.servers", ""),
        "key.serializer": _BYTE_ARRAY_SERIALIZER,
        "value.serializer": _BYTE_ARRAY_SERIALIZER,
        "max.block.ms": str(_LONGEST),
        "enable.idempotence": "false",
        "acks": "all",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": str(_LONGEST_INT),
        "client.id": f"connector-producer-{name}-0",
        **with_prefix_taken_off(worker, "producer."),
        **with_prefix_taken_off(connector, "producer.override."),
    }
    if exactly_once:
        transactional_id = f"{transactional_ids(worker.get('group.id', ''), name)}0"
        properties |= {"enable.idempotence": "true", "transactional.id": transactional_id}
    return properties


def transactional_ids(group_id: str, connector: str) -> str:
    """Return what the transactional ids of a connector's tasks begin with; the task's number follows (EOS-04)."""
    return f"{group_id}-{connector}-"


def cluster_admin(cluster: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of an admin client that belongs to a cluster and to no flow (CFG-080, CFG-084)."""
    return {
        **{key: value for key, value in cluster.items() if key in CLIENT_KEYS},
        **with_prefix_taken_off(cluster, "admin."),
    }


def with_prefix_taken_off(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the entries below ``prefix``, without it."""
    return {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix) and key != prefix}
