"""Whose records are whose, where clusters copy to one another under one name."""

from __future__ import annotations

from mirror.model.ledger import RecordId
from mirror.model.senders import load_name, was_sent_to


def test_a_record_says_to_which_cluster_it_was_sent() -> None:
    record = RecordId(f"{load_name('east', 'main')}-0", 7)
    assert was_sent_to("east", record)
    assert not was_sent_to("west", record)
