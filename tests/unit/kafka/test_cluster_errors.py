"""What a cluster refuses in one process is said as it is in another: in Spark's tasks, in the judges."""

from __future__ import annotations

import pickle

import pytest

from mirror.kafka.problems import AccessDenied, BrokerRefused, ClusterError, ClusterUnreachable


@pytest.mark.parametrize(
    "problem",
    [
        ClusterError("east", "listing topics", "no"),
        ClusterUnreachable("east", "a:1", "nobody there"),
        ClusterUnreachable("east", "a:1", "no such login", is_for_people=True),
        AccessDenied("east", "listing topics", "no"),
        BrokerRefused("east: append", OSError),
    ],
)
def test_a_problem_passes_from_process_to_process(problem: Exception) -> None:
    there = pickle.loads(pickle.dumps(problem))  # its own
    assert type(there) is type(problem)
    assert str(there) == str(problem)
    assert there.__dict__ == problem.__dict__
