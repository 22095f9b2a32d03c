"""The resolution order of client properties (section 1.7): later wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.clients import ConnectorClients, cluster_admin, data_producer
from mirror.config.definitions import CLIENT_KEYS
from mirror.model.flow import Flow

ROLES = [(end, client) for end in ("source", "target") for client in ("consumer", "producer", "admin")]


def resolved(values: dict[str, str], end: str, client: str) -> dict[str, str]:
    clients = ConnectorClients(values, Flow("A", "B"), "MirrorSourceConnector")
    return clients.of(end, client, "role")


@pytest.mark.parametrize(("end", "client"), ROLES)
@given(layers=st.sets(st.sampled_from([0, 1, 2]), min_size=1), key=st.sampled_from(sorted(CLIENT_KEYS)))
def test_the_most_specific_layer_wins(end: str, client: str, layers: set[int], key: str) -> None:
    prefixes = (f"{end}.cluster.", f"{client}.", f"{end}.{client}.")
    values = {f"{prefixes[layer]}{key}": str(layer) for layer in layers}
    assert resolved(values, end, client)[key] == str(max(layers))


@pytest.mark.parametrize(("end", "client"), ROLES)
def test_only_connection_and_security_come_from_the_cluster(end: str, client: str) -> None:
    properties = resolved({f"{end}.cluster.bootstrap.servers": "h:1", f"{end}.cluster.retries": "3"}, end, client)
    assert properties["bootstrap.servers"] == "h:1"
    assert "retries" not in properties


@pytest.mark.parametrize(("end", "client"), ROLES)
def test_the_other_end_and_other_clients_have_no_say(end: str, client: str) -> None:
    others = {f"{other_end}.{other}.x": "no" for other_end, other in ROLES if (other_end, other) != (end, client)}
    assert "x" not in resolved(others, end, client)


def test_a_client_id_is_appended_to_the_one_given() -> None:
    assert resolved({}, "source", "admin")["client.id"] == "A->B|MirrorSourceConnector|role"
    mine = resolved({"admin.client.id": "me"}, "source", "admin")
    assert mine["client.id"] == "me|A->B|MirrorSourceConnector|role"


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_consumer_never_commits_by_itself_and_starts_at_the_earliest_unless_told_otherwise(end: str) -> None:
    values = {f"{end}.consumer.enable.auto.commit": "true"}
    assert resolved(values, end, "consumer")["enable.auto.commit"] == "false"
    assert resolved(values, end, "consumer")["auto.offset.reset"] == "earliest"
    assert resolved({"consumer.auto.offset.reset": "latest"}, end, "consumer")["auto.offset.reset"] == "latest"


def test_the_data_producer_follows_the_worker_and_the_flow_s_override() -> None:
    """CFG-082, CFG-087, CFG-088."""
    worker = {"bootstrap.servers": "b:1", "producer.acks": "1", "producer.linger.ms": "5", "group.id": "A-mm2"}
    connector = {"producer.override.acks": "0", "producer.linger.ms": "9", "target.producer.linger.ms": "8"}
    properties = data_producer(worker, connector, exactly_once=False)
    assert properties["bootstrap.servers"] == "b:1"
    assert properties["acks"] == "0"
    assert properties["linger.ms"] == "5"
    assert properties["enable.idempotence"] == "false"


def test_exactly_once_forces_idempotence_and_a_transactional_id() -> None:
    """EOS-04, EOS-08."""
    worker = {"group.id": "A-mm2", "producer.enable.idempotence": "false"}
    properties = data_producer(worker, {"name": "MirrorSourceConnector"}, exactly_once=True)
    assert properties["enable.idempotence"] == "true"
    assert properties["transactional.id"] == "A-mm2-MirrorSourceConnector-0"


def test_an_admin_client_of_a_cluster_takes_its_connection_and_its_admin_settings() -> None:
    """CFG-080, CFG-084."""
    cluster = {"bootstrap.servers": "h:1", "admin.bootstrap.servers": "h:2", "admin.retries": "3", "group.id": "x"}
    assert cluster_admin(cluster) == {"bootstrap.servers": "h:2", "retries": "3"}
