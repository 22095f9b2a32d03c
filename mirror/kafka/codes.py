"""The protocol's error codes, as far as something is decided by them.

Invariants:

(a) NOT_ENOUGH_REPLICAS comes before a broker appends, NOT_LEADER_OR_FOLLOWER may come after (while it waits for
    replicas): what was refused by the first is certainly not in the log, is dropped at the end of an epoch, and leaves
    the partition clean.
"""

from __future__ import annotations

import kafka.errors

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5
MESSAGE_TOO_LARGE = 10
COORDINATOR_NOT_AVAILABLE = 15
INVALID_TIMESTAMP = 32
UNSUPPORTED_VERSION = 35
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
SECURITY_DISABLED = 54
GROUP_ID_NOT_FOUND = 69
UNKNOWN_TOPIC_ID = 100

# The broker has lost a fetch session, or takes the request for another than the next: the list is sent whole again.
FETCH_SESSION_ERRORS = frozenset({70, 71, 106})
OUT_OF_ORDER_SEQUENCE = 45
DUPLICATE_SEQUENCE = 46
INVALID_PRODUCER_EPOCH = 47
TRANSACTION_COORDINATOR_FENCED = 52
PRODUCER_FENCED = 90

# A batch over the topic's max.message.bytes, and one over its segment.bytes: a smaller one may be taken.
TOO_LARGE = frozenset({MESSAGE_TOO_LARGE, 18})

# The broker's and our idea of what was written with a producer id differ: only looking at the log tells.
SEQUENCE_ERRORS = frozenset({OUT_OF_ORDER_SEQUENCE, DUPLICATE_SEQUENCE, INVALID_PRODUCER_EPOCH, 59, PRODUCER_FENCED})

# The transaction can no longer be committed: another has taken its transactional id over, or it was aborted meanwhile
# (it took too long), or its id is not known any more.
TRANSACTION_ERRORS = frozenset({INVALID_PRODUCER_EPOCH, 48, 49, 53, PRODUCER_FENCED, 120})

# A broker gives these before it appends anything: a batch damaged on its way, too few replicas in sync, rights that are
# lacking. Others that pass (NOT_LEADER_OR_FOLLOWER among them) may come while it waits for replicas: after appending.
NOT_APPENDED = frozenset({2, 19, 29, 31})

OPERATION_NOT_ATTEMPTED = 55
CONCURRENT_TRANSACTIONS = 51
TRANSACTIONAL_ID_NOT_FOUND = 105
# Rights are lacking: to a topic, a group, the cluster, a transactional id.
DENIED = frozenset({29, 30, 31, 53})

# A leader has just been elected, or started: the broker that metadata names does not lead yet, or does not know the end
# of the log yet.
OFFSET_NOT_AVAILABLE = 78
ELECTION = frozenset({LEADER_NOT_AVAILABLE, 6, 9, 74, 75, OFFSET_NOT_AVAILABLE})

# Another broker coordinates the transactional id.
COORDINATOR_MOVED = frozenset({15, 16})
# The coordinator cannot do now what it will be able to do later, whatever partition it is about.
COORDINATOR_BUSY = frozenset({-1, 7, 14, 15, 16, CONCURRENT_TRANSACTIONS})

# Of requests about many things: an election, a coordinator that loads or moves, throttling. By number, because the
# library's own notion of "retriable" includes a topic that does not exist.
TRANSIENT = frozenset((LEADER_NOT_AVAILABLE, 6, 7, 8, 13, 14, *COORDINATOR_MOVED, 41, 74, 75, 78, 88, 89))

# Unknown trouble in the broker, a batch damaged on its way, rights that somebody can still grant: nothing of the batch
# itself stands against it.
_MAY_PASS = frozenset({-1, 2, 29, 31})


def name(code: int) -> str:
    """Return the protocol's name of an error code, for messages."""
    return str(kafka.errors.for_code(code).__name__).removesuffix("Error")


def hint(code: int, right: str) -> str:
    """Return what is said behind an error's name: the ``right`` that is lacking, if one is, or what it waits for."""
    if code == OFFSET_NOT_AVAILABLE:
        return " (a leader that was elected lately tells the end once its replicas are in sync: min.insync.replicas)"
    return f" (needs {right})" if right and code in DENIED else ""


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed later."""
    return code in _MAY_PASS or bool(getattr(kafka.errors.for_code(code), "retriable", False))
