"""Transforms of one's own, as a user would write them, for the tests."""

from __future__ import annotations

from typing import Any

from mirror.model.transforms.record import SourceRecord

NOT_A_FUNCTION = 7


def shout(record: SourceRecord) -> SourceRecord:
    """Alter key, value, headers and timestamp."""
    return record._replace(
        key=(record.key or b"") + b"!",
        value=None if record.value is None else record.value.upper(),
        headers=(*record.headers, ("by", b"shout")),
        timestamp=record.timestamp + 1,
    )


def unchanged(record: SourceRecord) -> SourceRecord:
    """Do nothing."""
    return record


def drop_odd(record: SourceRecord) -> SourceRecord | None:
    """Drop every record with an odd offset."""
    return None if record.offset % 2 else record


def drop_marked(record: SourceRecord) -> SourceRecord | None:
    """Drop every record that says it is marked."""
    return None if record.value == b"marked" else record


def fail_on_poison(record: SourceRecord) -> SourceRecord:
    """Fail on a value that says poison."""
    if record.value is not None and b"poison" in record.value:
        raise ValueError(f"cannot read {record.value!r}")
    return record


def reroute(record: SourceRecord) -> SourceRecord:
    """Try what is not allowed."""
    return record._replace(topic="elsewhere")


def text(record: SourceRecord) -> Any:
    """Return what cannot be sent."""
    return record._replace(value="text")  # type: ignore[arg-type]


def nonsense(_: SourceRecord) -> Any:
    """Return what is no record."""
    return b"value"
