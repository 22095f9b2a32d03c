"""Values are read by their types as Java reads them."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.config.connector_keys import CONNECTORS, Connector
from mirror.config.definition import BadValue, Definition, Importance, Type
from mirror.config.engine_keys import ENGINE


def definition(kind: Type) -> Definition:
    return Definition("key", kind, None, Importance.LOW)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Type.BOOLEAN, " TRUE ", True),
        (Type.BOOLEAN, "false", False),
        (Type.INT, " +7\t", 7),
        (Type.INT, "-2147483648", -(2**31)),
        (Type.SHORT, "-1", -1),
        (Type.LONG, "9223372036854775807", 2**63 - 1),
        (Type.LONG, "٣", 3),
        (Type.DOUBLE, " .5f ", 0.5),
        (Type.DOUBLE, "1e-3", 0.001),
        (Type.STRING, " a b ", "a b"),
        (Type.LIST, " a , b ", ("a", "b")),
        (Type.LIST, " ", ()),
        (Type.CLASS, " org.x.Y$Z ", "org.x.Y$Z"),
        (Type.PASSWORD, " secret ", "secret"),
    ],
)
def test_a_value_is_trimmed_and_read_by_its_type(kind: Type, text: str, value: Any) -> None:
    assert definition(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Type.BOOLEAN, "yes"),
        (Type.BOOLEAN, ""),
        (Type.INT, "2147483648"),
        (Type.INT, "1_000"),
        (Type.INT, "1.0"),
        (Type.SHORT, "32768"),
        (Type.LONG, "soon"),
        (Type.LONG, "9223372036854775808"),
        (Type.DOUBLE, "half"),
        (Type.DOUBLE, ""),
        (Type.LIST, "a,,b"),
        (Type.CLASS, "no class"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Type, text: str) -> None:
    with pytest.raises(BadValue):
        definition(kind).parse(text)


@pytest.mark.parametrize(
    ("connector", "key", "text"),
    [
        (Connector.SOURCE, "offset-syncs.topic.location", "middle"),
        (Connector.SOURCE, "tasks.max", "0"),
        (Connector.SOURCE, "errors.tolerance", "some"),
        (Connector.SOURCE, "security.protocol", "TLS"),
        (Connector.SOURCE, "topic.filter.class", "org.example.MyFilter"),
        (Connector.SOURCE, "replication.policy.class", "org.example.MyPolicy"),
        (Connector.CHECKPOINT, "metric.names.formats", "legacy, newer"),
        (Connector.CHECKPOINT, "transforms", "a, a"),
        (Connector.HEARTBEAT, "sasl.login.refresh.window.factor", "0.4"),
        (Connector.HEARTBEAT, "name", "a\tb"),
    ],
)
def test_what_java_does_not_allow_is_refused(connector: Connector, key: str, text: str) -> None:
    with pytest.raises(BadValue, match="not allowed"):
        CONNECTORS[connector][key].parse(text)


def test_the_security_protocol_is_read_in_any_case() -> None:
    assert CONNECTORS[Connector.SOURCE]["security.protocol"].parse("sasl_ssl") == "sasl_ssl"


def test_a_required_key_must_be_given() -> None:
    with pytest.raises(BadValue, match="missing"):
        CONNECTORS[Connector.SOURCE]["source.cluster.alias"].value({})


def test_every_key_of_the_engine_s_own_has_a_field() -> None:
    # These two tell together whether, and of which topics, copies have the source's offsets.
    together = {"mirror.offsets", "mirror.offsets.topics"}
    assert {name for name, key in ENGINE.items() if not key.field} == together


def test_the_engine_s_defaults_are_allowed_values() -> None:
    for key in ENGINE.values():
        written = ", ".join(key.default) if key.type is Type.LIST else str(key.default)
        assert key.parse(written) == key.default
