"""Positions and names in the facts and the details of steps: how they are written down, and read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mirror.evidence.facts import Json
from mirror.model.counts import first_of
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition

Subject = TypeVar("Subject", TopicPartition, str)

_NAMED = 5
#: Of a table of groups' positions, for people.
COLUMNS = ("group", "topic", "partition", "upstream", "before", "after", "exact")


def rows_of(positions: Mapping[TopicPartition, int]) -> list[dict[str, Json]]:
    """Return positions as the facts of a step hold them."""
    return [
        {"topic": each.topic, "partition": each.partition, "offset": offset}
        for each, offset in sorted(positions.items())
    ]


def positions_named(facts: Mapping[str, Json], name: str) -> dict[TopicPartition, int]:
    """Return the positions that the facts of a step hold under a name; none if there are none."""
    return {
        TopicPartition(str(row["topic"]), int(str(row["partition"]))): int(str(row["offset"]))
        for row in mappings_of(facts.get(name))
    }


def mappings_of(rows: Json) -> list[Mapping[str, Json]]:
    """Return the rows that facts hold."""
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []


def positions_in(facts: Mapping[str, Json]) -> Mapping[TopicPartition, int]:
    """Return how far each partition was copied, by what the step that cuts the flow has found."""
    return positions_named(facts, "positions")


def rows_in(facts: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    """Return a row for each position of a group, by what the step that moves them has found.

    In the order of `COLUMNS`: a journal has them in the order of the alphabet.
    """
    return [{name: row[name] for name in COLUMNS if name in row} for row in mappings_of(facts.get("rows"))]


def placed_in(facts: Mapping[str, Json]) -> dict[str, dict[TopicPartition, int]]:
    """Return where the step that moves groups has put them on the target, by what it has found.

    A group that Java MirrorMaker has put nowhere has a row without a partition.
    """
    placed: dict[str, dict[TopicPartition, int]] = {}
    for row in rows_in(facts):
        if isinstance(after := row.get("after"), int) and row["partition"] is not None:
            partition = TopicPartition(str(row["topic"]), int(str(row["partition"])))
            placed.setdefault(str(row["group"]), {})[partition] = after
    return placed


def positions_of(facts: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return where the flow was cut, by what that step has found, as ``mirror failover --json`` shows it."""
    return position_rows(positions_named(facts, "positions"))


def position_rows(positions: Mapping[TopicPartition, int]) -> list[dict[str, Json]]:
    """Return how far partitions are copied, as ``mirror failover --json`` shows it."""
    return [
        {"topic": each.topic, "partition": each.partition, "last_mirrored_upstream": offset - 1}
        for each, offset in sorted(positions.items())
    ]


def named(names: Sequence[str]) -> str:
    """Return the first of many things that are to be named, and how many more there are."""
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return "; ".join(names[:_NAMED]) + more


def by_reason(reasons: Mapping[Subject, str]) -> list[str]:
    """Return, for people, each reason once, behind the partitions, or addresses, that it is of."""
    subjects = grouped((why, str(each)) for each, why in sorted(reasons.items()))
    return [f"{first_of(names, _NAMED)}: {why}" for why, names in subjects.items()]


def stretches_named(stretches: Mapping[TopicPartition, tuple[int, int]]) -> list[str]:
    """Return, for people, a stretch of each partition: its first and its last offset."""
    return [f"{each} from {start} to {end - 1}" for each, (start, end) in sorted(stretches.items())]
