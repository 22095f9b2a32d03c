"""What failed, in words for people: clusters and the network in their own, a defect with the name of its class."""

from __future__ import annotations

import kafka.errors

from mirror.kafka.connecting import in_words
from mirror.kafka.problems import KafkaProblem


def error_message(error: BaseException) -> str:
    """Return what an error says."""
    if isinstance(error, KafkaProblem):
        return str(error)
    if isinstance(error, OSError | kafka.errors.KafkaError):
        return in_words(error)
    return f"{type(error).__name__}: {error}"
