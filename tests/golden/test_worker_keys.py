"""The keys that a worker and its clients read are Java's, and there is no other."""

from __future__ import annotations

from mirror.config.definitions import CLIENT_KEYS, WORKER
from mirror.config.worker_keys import CLIENT_ONLY_KEYS, WORKER_KEYS
from tests.golden.facts import facts


def test_the_keys_of_a_worker_and_of_clients_are_those_of_java() -> None:
    theirs = facts("worker_keys.json")
    assert sorted(WORKER_KEYS) == theirs["worker"]
    assert sorted(CLIENT_ONLY_KEYS) == theirs["clients_only"]


def test_what_this_engine_reads_of_a_cluster_is_among_them() -> None:
    assert WORKER.keys() <= WORKER_KEYS
    # Named by Kafka's own configuration of clients alone.
    assert CLIENT_KEYS <= WORKER_KEYS | CLIENT_ONLY_KEYS
