"""When the standby serves again: the last links of the RTO, taken from the ledger."""

from __future__ import annotations

import pandas as pd

from mirror.lab.service_times import Service, service_times

SENDS = pd.DataFrame(
    [("east", "acked", 10), ("west", "indeterminate", None), ("west", "acked", 32), ("west", "acked", 31)],
    columns=["cluster", "status", "acked_at_ms"],
)
READS = pd.DataFrame(
    [
        ("east", "audit", "orders", 5),
        ("west", "audit", "east.orders", 33),
        ("west", "billing", "east.orders", 34),
        ("west", "billing", "orders", 41),
        ("west", "billing", "payments", 40),
    ],
    columns=["cluster", "group", "topic", "read_at_ms"],
)


TOPICS, GROUPS = ("orders", "payments"), ("billing", "audit")


def test_the_first_write_and_the_first_read_of_something_new_are_found() -> None:
    """Both groups read the copy; ``billing`` alone reads records that were written on the standby."""
    found = service_times(SENDS, READS, "west", TOPICS, GROUPS, since_ms=0)
    assert found == Service(31, {"billing": 40, "audit": None})
    assert not found.is_complete
    assert service_times(SENDS, READS, "west", TOPICS, ["billing"], since_ms=0).is_complete


def test_what_was_before_does_not_count() -> None:
    assert service_times(SENDS, READS, "west", TOPICS, ["billing"], since_ms=32) == Service(32, {"billing": 40})
    assert service_times(SENDS, READS, "west", TOPICS, ["billing"], since_ms=41) == Service(None, {"billing": 41})


def test_what_has_not_come_about_is_none() -> None:
    assert service_times(SENDS[:2], READS[:3], "west", TOPICS, GROUPS, since_ms=0) == Service(
        None, {"billing": None, "audit": None}
    )
