"""A value of ``sasl.jaas.config`` means to us what it means to Kafka's own parser."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.kafka.jaas import BadJaas, Login, parse_login
from tests.golden.facts import entries, facts


@pytest.mark.parametrize("entry", entries("jaas.json", lambda entry: "login" if entry["login"] else "refused"))
def test_a_login_module_is_read_as_kafka_reads_it(entry: dict[str, Any]) -> None:
    if entry["login"] is None:
        with pytest.raises(BadJaas):
            parse_login(entry["text"])
    else:
        assert parse_login(entry["text"]) == Login(**entry["login"])


def test_both_kinds_are_there() -> None:
    assert {entry["login"] is None for entry in facts("jaas.json")} == {True, False}
