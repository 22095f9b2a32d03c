"""What a transform sees of a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

__all__ = ["Headers", "SourceRecord"]

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class SourceRecord(NamedTuple):
    """One record on its way, as a transform of one's own gets it; change it with ``_replace``.

    Attributes
    ----------
    topic
        the name on the target, as it is at this place of the chain.
    partition, offset
        where it comes from; the copy goes to the partition of the same number.
    timestamp
        in ms.
    headers
        (name, content) in their order; names may repeat.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Content(Protocol):
    """A record as the data plane holds it: any named tuple with these fields, such as ``mirror.kafka.batch.Record``."""

    @property
    def offset(self) -> int:
        """Offset on the source."""

    @property
    def timestamp(self) -> int:
        """Time in ms."""

    @property
    def key(self) -> bytes | None:
        """Key, None if there is none."""

    @property
    def value(self) -> bytes | None:
        """Value, None for a tombstone."""

    @property
    def headers(self) -> Headers:
        """Headers in their order."""

    @property
    def _replace(self) -> Callable[..., Any]:
        """Return the record with other contents."""


R = TypeVar("R", bound=Content)


def altered(record: R, **changes: Any) -> R:
    """Return the record with other contents."""
    return record._replace(**changes)  # type: ignore[no-any-return]
