"""Positions of groups as they were before they were moved, kept in a file, and put back from it exactly."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from mirror.atomic_file import write_new
from mirror.config.errors import ConfigError
from mirror.config.settings import ClusterSettings
from mirror.evidence.digests import seal_of_text
from mirror.evidence.facts import FactError, Json, plain_object
from mirror.evidence.run_directory import read_json
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

_KIND, _VERSION = "positions of groups before a move", 1


@dataclass(frozen=True, slots=True)
class SavedPosition:
    """One position of a group on one cluster.

    Attributes
    ----------
    topic_id
        of the topic that the position was in; one that is created anew has another.
    before
        the position that was there, with its text; None if there was none.
    after
        the position that was about to be written.
    """

    group: str
    partition: TopicPartition
    topic_id: str
    before: GroupPosition | None
    after: GroupPosition


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """What a move of groups along a flow was about to change on the flow's target, the cluster of that id."""

    flow: Flow
    cluster_id: str
    positions: tuple[SavedPosition, ...]

    def save(self, path: Path) -> None:
        """Write it to a new file, forced to disk.

        Raises
        ------
        ConfigError
            if it cannot be written, or there is such a file: it may be the only record of how groups stood before.
        """
        content: dict[str, Json] = {
            "kind": _KIND,
            "version": _VERSION,
            **plain_object(_KeptSnapshot(str(self.flow), self.cluster_id, tuple(map(_Kept.of, self.positions)))),
        }
        content["digest"] = _digest_of(content)
        try:
            write_new(path, json.dumps(content, indent=2) + "\n")
        except OSError as error:
            message = f"the positions before cannot be saved here: {error.strerror}"
            raise ConfigError(path, None, None, message) from None

    def of_groups(self, pattern: str) -> GroupSnapshot:
        """Return what it holds of the groups whose whole id matches ``pattern``."""
        chosen = tuple(each for each in self.positions if re.fullmatch(pattern, each.group))
        return replace(self, positions=chosen)

    @classmethod
    def load(cls, path: Path) -> GroupSnapshot:
        """Read a snapshot.

        Raises
        ------
        ConfigError
            if the file cannot be read or is no snapshot of this version; it names the file.
        """
        try:
            content = read_json(path)
        except (OSError, FactError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(path, None, None, f"is no snapshot of groups that can be read: {why}") from None
        kind, version, digest = (content.values.get(key) for key in ("kind", "version", "digest"))
        if kind != _KIND:
            raise ConfigError(path, None, None, "is no snapshot of groups")
        if version != _VERSION:
            message = f"is a snapshot of groups of version {version}, and this program reads version {_VERSION}"
            raise ConfigError(path, None, "version", message)
        # Earlier versions have written none.
        if digest is not None and digest != _digest_of(content.values):
            message = "was changed since it was written; to put back some groups alone, name them by --groups"
            raise ConfigError(path, None, None, message)
        try:
            kept = content.read(_KeptSnapshot)
            found = tuple(each.read() for each in kept.positions)
            twice = [key for key, count in Counter((each.group, each.partition) for each in found).items() if count > 1]
            if twice:
                group, partition = twice[0]
                raise FactError(f"{content.where} has two positions of group {group} in {partition}")
            return cls(Flow.parse(kept.flow), kept.cluster_id, found)
        except ValueError as error:
            raise ConfigError(path, None, None, f"is not as a move of groups has written it: {error}") from None


class RestoreAction(StrEnum):
    """What is done with one saved position."""

    WRITE = "put back"
    DELETE = "delete: there was none"
    KEEP = "already there"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RestoreDecision:
    """What is done with one saved position, and why; ``present`` is the group's position now, None without one."""

    saved: SavedPosition
    present: GroupPosition | None
    action: RestoreAction
    reason: str

    @property
    def is_change(self) -> bool:
        """Whether something is written or deleted."""
        return self.action in (RestoreAction.WRITE, RestoreAction.DELETE)

    def row(self) -> dict[str, Any]:
        """Return the form ``mirror groups --restore --json`` prints."""
        goal = self.saved.before if self.action is not RestoreAction.REFUSED else self.present
        return {
            "group": self.saved.group,
            "topic": self.saved.partition.topic,
            "partition": self.saved.partition.partition,
            "before": self.present.position if self.present else None,
            "after": goal.position if goal else None,
            "action": str(self.action),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ClusterNow:
    """What must be known of the cluster before positions are put back.

    Attributes
    ----------
    states, positions
        of the saved groups.
    topic_ids
        of the topics that are there.
    starts, ends
        where the logs of their saved partitions begin and end.
    """

    states: Found[str, GroupDescription]
    positions: Found[str, Found[TopicPartition, GroupPosition]]
    topic_ids: Mapping[str, str]
    starts: Found[TopicPartition, int]
    ends: Found[TopicPartition, int]


def plan_restore(snapshot: GroupSnapshot, now: ClusterNow) -> tuple[RestoreDecision, ...]:
    """Return for every saved position whether it is put back, and why.

    Only what the move has written is undone: a group that is in use, or has gone on since, is refused, and so is a
    position in a topic that was created anew or that the log does not reach: readers there would start over or pass
    records that they have not read.
    """
    return tuple(_decide(each, now) for each in snapshot.positions)


def look_at(snapshot: GroupSnapshot, flow: Flow, settings: ClusterSettings, path: Path) -> tuple[RestoreDecision, ...]:
    """Return what would be done to put the positions back on the target of a flow; ``path`` is the snapshot's file.

    Raises
    ------
    ConfigError
        if the snapshot is of another flow or another cluster.
    ClusterError
        if the cluster does not answer.
    """
    if snapshot.flow != flow:
        raise ConfigError(path, None, "flow", f"is a snapshot of {snapshot.flow}, not of {flow}")
    with Cluster.connect(settings) as cluster:
        if cluster.cluster_id != snapshot.cluster_id:
            message = f"is of the cluster {snapshot.cluster_id}, and {settings.alias} is {cluster.cluster_id}"
            raise ConfigError(path, None, "cluster_id", message)
        return plan_restore(snapshot, read_now(snapshot, cluster))


def read_now(snapshot: GroupSnapshot, cluster: Cluster) -> ClusterNow:
    """Read what :func:`plan_restore` needs to know."""
    groups = {each.group for each in snapshot.positions}
    topics = cluster.topics({each.partition.topic for each in snapshot.positions})
    there = {each for topic in topics.values() for each in topic.topic_partitions}
    return ClusterNow(
        cluster.describe_groups(groups),
        cluster.positions_of_groups(groups),
        {name: topic.topic_id for name, topic in topics.items()},
        cluster.offsets({each.partition for each in snapshot.positions} & there, "earliest"),
        cluster.offsets({each.partition for each in snapshot.positions} & there, "latest"),
    )


def restore(
    decisions: Sequence[RestoreDecision], settings: ClusterSettings, snapshot: GroupSnapshot
) -> tuple[RestoreDecision, ...]:
    """Put positions back as decided, if all is still as it was decided for; return what became of each.

    What could not be written, or has changed meanwhile, is refused in the answer, with the reason.

    Raises
    ------
    ClusterError
        if the cluster does not answer.
    """
    with Cluster.connect(settings) as cluster:
        now = plan_restore(snapshot, read_now(snapshot, cluster))
        both = zip(decisions, now, strict=True)
        if changed := [new for old, new in both if (new.action, new.present) != (old.action, old.present)]:
            where = ", ".join(f"group {each.saved.group}, {each.saved.partition}" for each in changed)
            why = f"nothing was put back, since the cluster has changed after the plan was made: {where}. Plan again"
            return tuple(_refused(each.saved, each.present, why) if each.is_change else each for each in now)
        problems = _write(decisions, cluster)
    return tuple(
        _refused(each.saved, each.present, f"it could not be put back: {problems[key]}")
        if (key := (each.saved.group, str(each.saved.partition))) in problems
        else each
        for each in decisions
    )


def _write(decisions: Sequence[RestoreDecision], cluster: Cluster) -> dict[tuple[str, str], str]:
    """Put positions back; return the problems by group and partition."""
    writes: dict[str, dict[TopicPartition, GroupPosition]] = defaultdict(dict)
    deletes: dict[str, list[TopicPartition]] = defaultdict(list)
    for each in decisions:
        if each.action is RestoreAction.WRITE and each.saved.before is not None:
            writes[each.saved.group][each.saved.partition] = each.saved.before
        elif each.action is RestoreAction.DELETE:
            deletes[each.saved.group].append(each.saved.partition)
    written, deleted = cluster.write_positions_of_groups(writes), cluster.delete_positions_of_groups(deletes)
    results = ((group, each) for of_groups in (written, deleted) for group, of in of_groups.items() for each in of)
    return {(group, each.item): each.problem for group, each in results if each.problem is not None}


def _decide(saved: SavedPosition, now: ClusterNow) -> RestoreDecision:
    group, partition = saved.group, saved.partition
    if group not in now.states:
        return _refused(saved, None, f"the state of the group is not known: {now.states.problems.get(group)}")
    if group not in now.positions:
        return _refused(saved, None, f"its position is not known: {now.positions.problems.get(group)}")
    positions = now.positions[group]
    if partition in positions.problems:
        return _refused(saved, None, f"its position is not known: {positions.problems[partition]}")
    present = positions.get(partition)
    if present == saved.before:
        return RestoreDecision(saved, present, RestoreAction.KEEP, "it is as it was before")
    state = now.states[group]
    if state.is_active:
        return _refused(saved, present, f"the group is in use ({state.state}, {state.members} members)")
    if present is None or present.position != saved.after.position:
        at = "has none any more" if present is None else f"is at {present.position}"
        return _refused(saved, present, f"the group was put at {saved.after.position}, and {at}: it has changed since")
    if saved.before is None:
        return RestoreDecision(saved, present, RestoreAction.DELETE, "the group had no position here")
    if now.topic_ids.get(partition.topic) != saved.topic_id:
        return _refused(saved, present, "the topic is not the one any more in which the group had its position")
    if partition not in now.ends:
        return _refused(saved, present, f"the end of the log is not known: {now.ends.problems.get(partition)}")
    if partition not in now.starts:
        return _refused(saved, present, f"the start of the log is not known: {now.starts.problems.get(partition)}")
    if saved.before.position < now.starts[partition]:
        why = (
            f"the group was at {saved.before.position}, and the log begins at {now.starts[partition]} by now: a reader "
            "with auto.offset.reset = latest would skip all that is there"
        )
        return _refused(saved, present, why)
    if saved.before.position > now.ends[partition]:
        why = f"the group was at {saved.before.position}, and the log ends at {now.ends[partition]}"
        return _refused(saved, present, why)
    return RestoreDecision(saved, present, RestoreAction.WRITE, f"the group was at {saved.before.position}")


def _refused(saved: SavedPosition, present: GroupPosition | None, reason: str) -> RestoreDecision:
    return RestoreDecision(saved, present, RestoreAction.REFUSED, reason)


def _digest_of(content: Mapping[str, Json]) -> str:
    """Return what stands for all of a snapshot but the digest itself."""
    return seal_of_text(json.dumps({**content, "digest": None}, sort_keys=True))


_Number = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class _KeptPosition:
    """A position in the file; earlier versions have kept no leader epoch."""

    position: _Number
    metadata: str
    leader_epoch: int = -1

    @classmethod
    def of(cls, found: GroupPosition) -> _KeptPosition:
        return cls(found.position, found.metadata, found.leader_epoch)

    def read(self) -> GroupPosition:
        return GroupPosition(self.position, self.metadata, self.leader_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A saved position in the file."""

    group: str
    topic: str
    topic_id: str
    partition: _Number
    before: _KeptPosition | None = None
    after: _KeptPosition

    @classmethod
    def of(cls, saved: SavedPosition) -> _Kept:
        return cls(
            group=saved.group,
            topic=saved.partition.topic,
            topic_id=saved.topic_id,
            partition=saved.partition.partition,
            before=None if saved.before is None else _KeptPosition.of(saved.before),
            after=_KeptPosition.of(saved.after),
        )

    def read(self) -> SavedPosition:
        at = TopicPartition(self.topic, self.partition)
        before = None if self.before is None else self.before.read()
        return SavedPosition(self.group, at, self.topic_id, before, self.after.read())


@dataclass(frozen=True, slots=True)
class _KeptSnapshot:
    """A snapshot in the file, but for what says that it is one."""

    flow: str
    cluster_id: str
    positions: tuple[_Kept, ...]
