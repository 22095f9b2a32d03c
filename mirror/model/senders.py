"""Names of the producers that keep a ledger: they say on which cluster a record was sent, wherever it is found."""

from __future__ import annotations

from mirror.model.ledger import RecordId


def load_name(cluster: str, phase: str) -> str:
    """Return the name of the producers that send to a cluster in a phase of the run."""
    return f"{cluster}-{phase}"


def was_sent_to(cluster: str, record: RecordId) -> bool:
    """Tell whether a record was sent to a cluster, and not copied there."""
    return record.producer.startswith(load_name(cluster, ""))
