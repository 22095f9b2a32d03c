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

    def source_consumer(self, role: str) -> dict[str, str]:
        """Return the properties of a consumer on the source."""
        return self._with_client_id(self._consumer("source"), role)

    def target_consumer(self, role: str) -> dict[str, str]:
        """Return the properties of a consumer on the target."""
        return self._with_client_id(self._consumer("target"), role)

    def source_producer(self, role: str) -> dict[str, str]:
        """Return the properties of a producer on the source; not the data producer (CFG-087)."""
        return self._with_client_id(self._merged("source", "producer"), role)

    def target_producer(self, role: str) -> dict[str, str]:
        """Return the properties of a producer on the target; not the data producer (CFG-087)."""
        return self._with_client_id(self._merged("target", "producer"), role)

    def source_admin(self, role: str) -> dict[str, str]:
        """Return the properties of an admin client on the source (CFG-089)."""
        return self._with_client_id(self._merged("source", "admin"), role)

    def target_admin(self, role: str) -> dict[str, str]:
        """Return the properties of an admin client on the target (CFG-089)."""
        return self._with_client_id(self._merged("target", "admin"), role)

    def _consumer(self, end: str) -> dict[str, str]:
        return {
            "auto.offset.reset": "earliest",
            **self._merged(end, "consumer"),
            "enable.auto.commit": "false",
        }

    def _merged(self, end: str, client: str) -> dict[str, str]:
        cluster = with_prefix_taken_off(self.values, f"{end}.cluster.")
        return {
            **{key: value for key, value in cluster.items() if key in CLIENT_KEYS},
            **with_prefix_taken_off(self.values, f"{client}."),
            **with_prefix_taken_off(self.values, f"{end}.{client}."),
        }

    def _with_client_id(self, client: dict[str, str], role: str) -> dict[str, str]:
        given = f"{client['client.id']}|" if "client.id" in client else ""
        return {**client, "client.id": f"{given}{self.aliases}|{self.name}|{role}"}


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
