"""As whom the records of a copy with the source's offsets are written, so that each is appended once, in its place.

A broker takes a batch of an idempotent producer only if its sequence is the next one. All engines of a flow write a
partition as one producer, in one epoch, with sequences that count the records of the copy. What an engine that was
killed had sent, and what its successor sends, then are the same appends: the broker takes the one that comes first and
refuses, or knows again, the other. No fence is needed, which would take an offset.
"""

from __future__ import annotations

import hashlib

from mirror.kafka.batch import Producer
from mirror.model.flow import Flow

# Brokers give producer ids out from 0 upwards, in blocks: none will ever be as large.
_OURS = 1 << 62


def markers_transactional_id(flow: Flow) -> str:
    """Return the transactional id of the empty transactions whose markers fill holes."""
    return f"mm2-offsets.{flow.source}.internal.{flow.target}"


def producer_of(flow: Flow) -> Producer:
    """Return the producer that a flow writes copies with the source's offsets as.

    Its id follows from the flow's name, so that all engines of the flow have the same without asking.
    """
    digest = hashlib.sha256(f"{flow.source}->{flow.target}".encode()).digest()
    return Producer(_OURS | int.from_bytes(digest[:8], "big") >> 2, 0)
