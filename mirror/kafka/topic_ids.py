"""Topic ids as Kafka's own tools print them: another id is another topic, also of the same name (KIP-516)."""

from __future__ import annotations

import base64
from uuid import UUID


def spell(topic_id: UUID | None) -> str:
    """Return an id in 22 characters of URL-safe base64; all A for none, as of a cluster that knows no topic ids."""
    raw = topic_id.bytes if topic_id is not None else bytes(16)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def parse(spelt: str) -> UUID:
    """Return the id that :func:`spell` has spelt."""
    return UUID(bytes=base64.urlsafe_b64decode(spelt + "=="))


NONE = spell(None)


def differ(known: str, now: str) -> bool:
    """Tell whether two topic ids are of different topics; an unknown one is of any."""
    return known != now and not {known, now} & {"", NONE}
