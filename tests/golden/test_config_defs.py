"""Every key of the three connectors has Java's type, default and importance, and there is no other key."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.config.connector_keys import CONNECTORS, Connector
from mirror.config.definition import Definition
from tests.golden.facts import facts


@pytest.mark.parametrize("connector", sorted(facts("config_defs.json")))
def test_the_keys_of_a_connector_are_those_of_java(connector: str) -> None:
    ours = [_as_fact(definition) for definition in CONNECTORS[Connector(connector)].values()]
    theirs = facts("config_defs.json")[connector]
    assert _by_name(ours) == _by_name(theirs)


def test_there_are_no_other_connectors() -> None:
    assert sorted(facts("config_defs.json")) == sorted(CONNECTORS)


def _as_fact(definition: Definition) -> dict[str, Any]:
    default = list(definition.default) if isinstance(definition.default, tuple) else definition.default
    return {
        "name": definition.name,
        "type": definition.type,
        "default": default,
        "importance": definition.importance,
    }


def _by_name(facts_of_keys: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(facts_of_keys, key=lambda fact: fact["name"])
