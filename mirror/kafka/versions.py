"""Which versions of Kafka's requests are spoken here: a broker that does not know one hangs up without a word.

Frames written here are of one version; the others are agreed on by kafka-python between the bounds. A broker can be too
old for them, and one to come can have dropped them (KIP-896).

Invariants:

(a) A broker hangs up on a version that it does not know, without a word. What is needed stands in
    ``kafka/versions.py``; each connection for frames of our own asks first, and a cluster is asked before anything
    begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Versions(NamedTuple):
    """The versions of one request that are spoken here; ``since``: the first Kafka release that knows the oldest."""

    key: int
    name: str
    oldest: int
    newest: int
    since: str


PRODUCE = Versions(0, "Produce", 8, 8, "2.4")
FETCH = Versions(1, "Fetch", 12, 12, "2.7")
# Isolation levels.
LIST_OFFSETS = Versions(2, "ListOffsets", 2, 11, "0.11")
# A topic that is asked for is not created.
METADATA = Versions(3, "Metadata", 4, 13, "0.11")
# From version 9 on of the one and 10 of the other groups can be of the new protocol, and topics are named by their ids.
OFFSET_COMMIT = Versions(8, "OffsetCommit", 2, 8, "0.9")
OFFSET_FETCH = Versions(9, "OffsetFetch", 2, 8, "0.10.2")
# For one group or transactional id, and for many groups at once.
FIND_COORDINATOR = Versions(10, "FindCoordinator", 1, 3, "0.11")
FIND_COORDINATORS = Versions(10, "FindCoordinator", 4, 6, "3.0")
INIT_PRODUCER_ID = Versions(22, "InitProducerId", 0, 4, "0.11")
OFFSET_FOR_LEADER_EPOCH = Versions(23, "OffsetForLeaderEpoch", 3, 4, "2.3")
# The oldest that tell a fenced producer from other trouble; from version 5 on, ending a transaction would change the
# producer's epoch.
ADD_PARTITIONS_TO_TXN = Versions(24, "AddPartitionsToTxn", 2, 2, "2.7")
END_TXN = Versions(26, "EndTxn", 2, 2, "2.7")

#: What no flow can do without, on either of its clusters.
ALWAYS = (PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH)
#: What a coordinator of transactions is asked.
TRANSACTIONS = (ADD_PARTITIONS_TO_TXN, END_TXN)


def misfit(offered: Mapping[int, tuple[int, int]], needed: Iterable[Versions]) -> str | None:
    """Say what is needed that a broker does not offer (oldest and newest version by the request's key), or None."""
    wrong = [problem for each in needed if (problem := _misfit(offered.get(each.key), each))]
    return "; ".join(wrong) or None


def _misfit(offered: tuple[int, int] | None, needed: Versions) -> str | None:
    if offered is None:
        return f"it does not offer {needed.name} at all, of which {_spelled(needed.oldest, needed.newest)} is needed"
    oldest, newest = offered
    offer = f"it offers {needed.name} {_spelled(oldest, newest)}"
    if newest < needed.oldest:
        return f"{offer}, and version {needed.oldest} is needed: it must be of Kafka {needed.since} or later"
    if oldest > needed.newest:
        return f"{offer}, and version {needed.newest} is needed: it is too new for this release of the engine"
    return None


def _spelled(oldest: int, newest: int) -> str:
    return f"version {oldest}" if oldest == newest else f"versions {oldest} to {newest}"
