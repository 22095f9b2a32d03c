"""Records of the state topic: its name, keys and values in JSON, terms and epochs in headers.

Invariants:

(a) Records of the state topic have versions (``model/flow_state.py``): a field may be added if who does not know it
    can do without; anything else is a higher version. What is not understood stays in the topic, is counted in the
    status, and stops the partition that depends on it; nothing of it, nor of what stood there before, is used.
(b) What is committed in a transaction counts whoever leads by then, so only records outside of one bear the term of
    their engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

_TERM, _EPOCH = "term", "epoch"


# What the leader alone says, the last time it says so. All else is added to what was known, by whomever.
POSITION_KEY = b'["position",'


_TRANSACTIONAL_ID = b'["transactional_id",'


PLACEMENT_KEY = b'["placement",'


GAP_KEY = b'["gap",'


OF_THE_LEADER = (
    POSITION_KEY,
    b'["runs",',
    GAP_KEY,
    b'["takeover",',
    b'["producer"]',
    b'["run"]',
    b'["paused"]',
    PLACEMENT_KEY,
    _TRANSACTIONAL_ID,
)


# What no engine and no command writes in a transaction: it counts as soon as it is written, whatever is open before it.
OUTSIDE_TRANSACTIONS = (
    b'["claim"]',
    b'["standby",',
    b'["run"]',
    b'["pause"',
    b'["paused"]',
    b'["failover",',
    b'["writer",',
)


# Of these the first record counts, whoever wrote it.
FIRST_COUNTS = (POSITION_KEY, _TRANSACTIONAL_ID, PLACEMENT_KEY, GAP_KEY)


Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


# (key, value) of one record of the state topic; without a value it says that the record of that key is gone.
StateRecord: TypeAlias = tuple[bytes, bytes | None]


def term_header(term: int) -> Headers:
    """Return the headers of what an engine writes into the state topic while it leads the flow in ``term``."""
    return ((_TERM, b"%d" % term),)


def stamped(
    records: Iterable[StateRecord], term: int | None, at_ms: int, epoch: int | None = None
) -> list[tuple[bytes, bytes | None, Headers, int]]:
    """Return records as an engine appends them while it leads the flow in ``term``; None: of no term.

    ``epoch``: of tasks, the number of the epoch that the engine runs them in.
    """
    headers = () if term is None else term_header(term)
    if headers and epoch is not None:
        headers += ((_EPOCH, b"%d" % epoch),)
    return [(key, value, headers, at_ms) for key, value in records]


def term_of(headers: Headers) -> int | None:
    """Return the term in which an engine wrote a record with these headers, None if it was no engine."""
    return _number(headers, _TERM)


def epoch_of(headers: Headers) -> int | None:
    """Return in which epoch of its engine a task wrote a record with these headers.

    None if it was no task, or one of a version that does not say.
    """
    return _number(headers, _EPOCH)


def _number(headers: Headers, wanted: str) -> int | None:
    return next((int(value) for name, value in headers if name == wanted and value is not None), None)


def state_topic(source_alias: str) -> str:
    """Return the name of the state topic on the target; like MM2's own names it always uses dots (DED-05)."""
    return f"mm2-state.{source_alias}.internal"


def data_transactional_id(state_topic: str, target_alias: str) -> str:
    """Return the transactional id with which the producer id of a flow without transactions is obtained (ADR 8)."""
    return f"{state_topic}.{target_alias}"


def unknown_fields(fields: str) -> dict[str, Any]:
    """Return the fields of a value that an earlier version kept without knowing them."""
    found: dict[str, Any] = json.loads(fields or "{}")
    return found


def json_record(key: list[Any], value: dict[str, Any]) -> StateRecord:
    """Return a record of this key and value."""
    return compact_json(key), compact_json(value)


def compact_json(content: Any) -> bytes:
    """Return JSON without spaces, in UTF-8: keys are compared as bytes."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
