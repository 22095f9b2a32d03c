"""The protocol's error codes, as far as the data plane decides by them."""

from __future__ import annotations

import kafka.errors

OFFSET_OUT_OF_RANGE = 1
DUPLICATE_SEQUENCE = 46

# The broker's and our idea of what was written with a producer id differ: only looking at the log tells.
SEQUENCE_ERRORS = frozenset({45, DUPLICATE_SEQUENCE, 47, 59, 90})


def name(code: int) -> str:
    """Return the protocol's name of an error code, for messages."""
    return str(kafka.errors.for_code(code).__name__).removesuffix("Error")


def is_retriable(code: int) -> bool:
    """Whether the protocol says that the same request may succeed later."""
    return bool(getattr(kafka.errors.for_code(code), "retriable", False))
