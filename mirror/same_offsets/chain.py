"""As whom the records of a copy with the source's offsets are written, so that each is appended once, in its place.

A broker takes a batch of an idempotent producer only if its sequence is the next one. All engines of a flow write a
partition as one producer, in one epoch, with sequences that count the records of the copy. What an engine that was
killed had sent, and what its successor sends, then are the same appends: the broker takes the one that comes first and
refuses, or knows again, the other. No fence is needed, which would take an offset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container

from mirror.kafka import topic_ids
from mirror.kafka.batch import Producer
from mirror.model.flow import Flow

# Brokers give producer ids out from 0 upwards, in blocks: none will ever be as large.
_OURS = 1 << 62
# The last one that there is stays free.
_EPOCHS = 0x7FFF


def markers_transactional_id(flow: Flow) -> str:
    """Return the transactional id of the empty transactions whose markers fill holes."""
    return f"mm2-offsets.{flow.source}.internal.{flow.target}"


def is_markers_transactional_id(name: str) -> bool:
    """Tell whether a transactional id is that of some flow's markers: it writes markers, and no record."""
    return name.startswith("mm2-offsets.") and ".internal." in name


def producer_of(flow: Flow, copy_id: str = "") -> Producer:
    """Return the producer that a flow writes copies with the source's offsets as.

    Its id follows from the flow's name, so that all engines of the flow have the same without asking. Its epoch follows
    from the id of the copy's topic, if the cluster gives one: requests name topics by their names, and one that was
    sent to a copy that is deleted by now is not to be taken for the same append to the one that was made anew.
    """
    epoch = 0 if copy_id in ("", topic_ids.NONE) else _number(copy_id) % _EPOCHS
    return Producer(_OURS | _number(f"{flow.source}->{flow.target}") >> 2, epoch)


def has_written(flow: Flow, writers: Container[int]) -> bool:
    """Whether a flow has ever written copies with the source's offsets, by the producer ids on record of it."""
    return producer_of(flow).producer_id in writers


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
