"""Connect's transforms do to MirrorMaker's byte arrays what they do in Java, or are refused where Java fails on them."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from mirror.config.errors import ConfigError
from mirror.config.transforms import read_chain
from mirror.kafka.batch import Record
from mirror.model.transforms.chain import Chain
from tests.golden.facts import facts

GOLDEN = facts("transforms.json")
CASES = [
    pytest.param(case, id=f"{number}-{case['properties'].get('transforms.t.type', '').rpartition('.')[2]}")
    for number, case in enumerate(GOLDEN["cases"])
]


def test_every_part_of_the_data_is_looked_at() -> None:
    assert GOLDEN.keys() == {"records", "cases"}
    kinds = ({"results"}, {"config_error"}, {"inserted_by", "content"})
    assert all(case.keys() - {"properties"} in kinds for case in GOLDEN["cases"])
    assert all(sum(case.keys() >= kind for case in GOLDEN["cases"]) > 20 for kind in kinds)


@pytest.mark.parametrize("case", CASES)
def test_a_chain_does_what_it_does_in_java(case: dict[str, Any]) -> None:
    if "content" in case:
        _inserts(case)
    elif "config_error" in case or _is_refused(case):
        with pytest.raises(ConfigError):
            _chain(case)
    else:
        chain = _chain(case)
        for record, result in zip(GOLDEN["records"], case["results"], strict=True):
            if isinstance(result, dict):  # the one failure that is none here
                assert result["error"] == "DataException: Invalid schema type for ByteArrayConverter: STRING"
            else:
                assert _outcome(chain, record) == _as_java_says(result)


def _chain(case: dict[str, Any]) -> Chain:
    return read_chain(
        case["properties"], "east->west", lambda key, message: ConfigError(None, None, key, f"{key}: {message}")
    )


def _is_refused(case: dict[str, Any]) -> bool:
    """Whether Java finds out only at the first record what is found out here when the file is read.

    Refused, too: routers by time, as a partition has one copy here; and a switch with a blank behind it, which Java's
    check takes for true and its chain for false.
    """
    kind = case["properties"].get("transforms.t.type", "")
    if kind.endswith("TimestampRouter") or case["properties"].get("transforms.t.negate") == "TRUE ":
        return True
    return any(isinstance(result, dict) and not kind.endswith("InsertHeader") for result in case["results"])


def _inserts(case: dict[str, Any]) -> None:
    """The text of a literal is what ``SimpleHeaderConverter`` writes; the ``ByteArrayConverter`` writes ``null`` only."""
    (step,) = _chain(case).stages
    assert step.transform.content == _bytes(case["content"])  # type: ignore[union-attr]


def _outcome(chain: Chain, record: list[Any]) -> Any:
    topic, partition, key, value, headers, timestamp = record
    remote = f"east.{topic}"
    given = Record(5, timestamp, _bytes(key), _bytes(value), tuple((name, _bytes(one)) for name, one in headers), -1)
    transform = chain.of_topic(remote)
    made = transform.apply([given], partition) if transform else None
    assert made is None or (made.skipped, made.failed) == ((), None)
    kept = [given] if made is None else made.records
    return [(chain.route(remote), *each[1:5]) for each in kept]


def _as_java_says(result: Any) -> Any:
    if result is None:
        return []
    topic, key, value, headers, timestamp = result
    return [(topic, timestamp, _bytes(key), _bytes(value), tuple((name, _bytes(one)) for name, one in headers))]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
