"""What a flow's state topic says of who has written its copies, as far as other flows want to know it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from mirror.model.flow_state import FlowState
from mirror.model.leader_epochs import NOT_KNOWN
from mirror.model.partition import TopicPartition
from mirror.model.position import Position

# The beginnings of the records of interest: a state topic holds thousands of others for each of them.
_KEYS = (b'["writer",', b'["source"]')
_POSITION = b'["position",'
_SAME_OFFSETS = b'"same_offsets"'


@dataclass(frozen=True, slots=True)
class KnownWriters:
    """The producer ids recorded in one state topic, read up to ``position``.

    Attributes
    ----------
    source_id
        the id of the cluster whose records they have copied; empty when it is not recorded.
    topic_id
        the id of the topic it was read from: of another one nothing is known.
    read_epoch
        the leader epoch under which what was read last was written: a leader with less of it has another log.
    """

    writers: frozenset[int] = frozenset()
    position: int = 0
    source_id: str = ""
    topic_id: str = ""
    read_epoch: int = NOT_KNOWN


WrittenBy = Mapping[str, KnownWriters]
"""What is known of the writers of several flows, by state topic."""


def take_in(state: FlowState, key: bytes | None, value: bytes | None) -> None:
    """Apply a record of a state topic if it says who writes, or where from."""
    if key is not None and key.startswith(_KEYS):
        state.apply(key, value)


class CopiedTopics:
    """The topics that a flow has copied to, by the positions in its state topic.

    Attributes
    ----------
    names
        of the copies.
    """

    def __init__(self) -> None:
        """Know of none."""
        self.names: set[str] = set()
        self._partitions: set[bytes] = set()
        self._state = FlowState()

    @property
    def same_offsets(self) -> Mapping[TopicPartition, Position]:
        """Return the positions of copies with the source's offsets, by source partition."""
        return self._state.positions

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Learn from a record of the state topic; a partition's topic stays the same, so its first position tells."""
        if key is not None and key.startswith(_POSITION) and (value is None or _SAME_OFFSETS in value):
            self._state.apply(key, value)
        if key is not None and value is not None and key.startswith(_POSITION) and key not in self._partitions:
            self._partitions.add(key)
            with suppress(AttributeError, KeyError, ValueError):
                # A position that this version does not understand says nothing about it.
                self.names.add(json.loads(value)["target"])
