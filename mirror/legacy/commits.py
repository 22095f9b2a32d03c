"""What an answer to a commit means (MM1-25).

Invariants:

(a) Positions of partitions that were given away are never committed: Java's MirrorMaker 1 keeps them for its next
    commit, which takes the new reader back.
"""

from __future__ import annotations

import enum

from confluent_kafka import KafkaError

_TRY_AGAIN = {
    *(KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError._WAIT_COORD, KafkaError._TRANSPORT),
    *(KafkaError._ALL_BROKERS_DOWN, KafkaError.NETWORK_EXCEPTION, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    *(KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.UNKNOWN_TOPIC_OR_PART),
}
_REBALANCED = {
    *(KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS),
    KafkaError._ASSIGNMENT_LOST,
}


class Answer(enum.Enum):
    """What is to be done after a commit."""

    DONE = "it is committed"
    TRY_AGAIN = "it is tried again, for as long as it takes"
    REBALANCED = "the group gives the partitions out anew: this round is given up, nothing is lost"
    REFUSED = "no try will succeed"


def answer(code: int | None) -> Answer:
    """Return what the code of an answer means; None is none."""
    if code is None:
        return Answer.DONE
    if code in _TRY_AGAIN:
        return Answer.TRY_AGAIN
    return Answer.REBALANCED if code in _REBALANCED else Answer.REFUSED
