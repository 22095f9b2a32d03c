"""The source's offsets, shown on two practice clusters: their cost, what lies where, and a bookmark that stays valid.

Everything runs as long as the notebook's kernel, and in a folder of its own that goes with it.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from mirror.config.resolving import load
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.plan import plan_flow
from mirror.drill.live import show_waits
from mirror.drill.notebook_display import Sentences, style_outputs
from mirror.drill.same_offsets_plots import Lies, LogPicture, offsets_plot, picture_of
from mirror.evidence.pictures import RunFigure
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import read_batches, read_records
from mirror.lab import bookmarks, clusters, mm2, processes
from mirror.lab.clusters import Lab
from mirror.lab.holes import fill_with_holes
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.waiting import Counted, wait_until

__all__ = [
    "copy",
    "cost",
    "end",
    "lose_source",
    "offsets_table",
    "picture",
    "prepare",
    "read_on",
    "read_some",
    "rights",
    "settings_lines",
]

_SOURCE, _TARGET, _TOPIC = "east", "west", "orders"
_COPY_SECONDS = 300.0


@dataclass
class Shown:
    """Two practice clusters, a topic with holes, and the bookmarks of somebody who reads it.

    Attributes
    ----------
    bookmarks
        of each partition of the source: the offset of the record that is to be read next.
    next_records
        what stood there: offset and value; None: nothing more.
    left
        how many records were still to be read.
    """

    folder: TemporaryDirectory[str]
    lab: Lab
    partitions: int
    bookmarks: dict[TopicPartition, int] = field(default_factory=dict)
    next_records: dict[TopicPartition, tuple[int, bytes] | None] = field(default_factory=dict)
    left: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def pairs(self) -> dict[TopicPartition, TopicPartition]:
        """Each partition of the source, and its copy."""
        copy = self.flow.copy_of(_TOPIC)
        return {TopicPartition(_TOPIC, each): TopicPartition(copy, each) for each in range(self.partitions)}

    @property
    def settings(self) -> MirrorSettings:
        """What the properties file says."""
        return load(self.file)

    @property
    def flow(self) -> FlowSettings:
        """The settings of the flow."""
        (found,) = self.settings.enabled_flows
        return found

    @property
    def file(self) -> Path:
        """The properties file."""
        return Path(self.folder.name) / "mirror.properties"

    def servers(self, alias: str) -> str:
        """Return how to reach a cluster."""
        return self.lab.clusters[alias].bootstrap_servers


def prepare(partitions: int, head: int, tail: int, *, unchanged_names: bool) -> Shown:
    """Start two clusters and write a topic with holes on the first."""
    style_outputs()
    show_waits()
    folder: TemporaryDirectory[str] = TemporaryDirectory(prefix="same-offsets-")
    home = Path(folder.name)
    lab = clusters.up(home / "lab", [_SOURCE, _TARGET], owner_pid=os.getpid())
    shown = Shown(folder, lab, partitions)
    policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    shown.file.write_text(
        f"clusters = {_SOURCE}, {_TARGET}\n{_SOURCE}->{_TARGET}.enabled = true\ntopics = {_TOPIC}\n"
        + "".join(f"{alias}.bootstrap.servers = {shown.servers(alias)}\n" for alias in (_SOURCE, _TARGET))
        + "".join(f"{factor} = 1\n" for factor in mm2.REPLICATION_FACTORS)
        + f"{_SOURCE}.consumer.isolation.level = read_committed\nmirror.offsets = same\n"
        + (policy if unchanged_names else ""),
        "utf-8",
    )
    with Cluster.connect(shown.settings.clusters[_SOURCE]) as cluster:
        cluster.create_topics([NewTopic(_TOPIC, partitions, 1)])
    for number, each in enumerate(shown.pairs):
        fill_with_holes(shown.servers(_SOURCE), each, head * (number + 1), tail)
    return shown


def settings_lines(shown: Shown) -> Sentences:
    """Return what the properties file says beside addresses and replication factors."""
    lines = shown.file.read_text("utf-8").splitlines()
    kept = [each for each in lines if "factor" not in each and "bootstrap" not in each]
    return Sentences("\n".join(kept), "<br>".join(map(escape, kept)))


def cost(shown: Shown) -> pd.DataFrame:
    """Return what `mirror plan` says of each partition: what is to be filled, and what that costs."""
    return pd.DataFrame(plan_flow(shown.flow, shown.settings.clusters).offsets).drop(columns="detail")


def rights(shown: Shown) -> Sentences:
    """Return the rights that `mirror plan` says are needed."""
    notes = plan_flow(shown.flow, shown.settings.clusters).notes
    kept = [note for note in notes if note.startswith("needed on") or "many markers" in note]
    return Sentences("\n".join(kept), "<br>".join(map(escape, kept)))


def read_some(shown: Shown, records: int) -> pd.DataFrame:
    """Read some records of each partition on the source, and keep a bookmark of each: a file's, not a group's."""
    for each in shown.pairs:
        read = bookmarks.read_on(shown.servers(_SOURCE), each, None, records)
        shown.bookmarks[each] = read[-1][0] + 1 if read else 0
        rest = bookmarks.read_on(shown.servers(_SOURCE), each, shown.bookmarks[each], sys.maxsize)
        shown.next_records[each] = rest[0] if rest else None
        shown.left[each] = len(rest)
    return pd.DataFrame(
        [
            {"partition": str(each), "read": records, "bookmark": at, **_next("next", shown.next_records[each])}
            for each, at in shown.bookmarks.items()
        ]
    )


def copy(shown: Shown) -> Sentences:
    """Have an engine copy everything, then stop it."""
    argv = [sys.executable, "-m", "mirror", "run", str(shown.file)]
    engine = processes.start(Path(shown.folder.name) / "logs", "engine", argv, owner_pid=os.getpid())
    with Cluster.connect(shown.settings.clusters[_SOURCE]) as cluster:
        ends = cluster.offsets(list(shown.pairs), "latest")
    total = sum(ends.values())

    def copied() -> Counted:
        with Cluster.connect(shown.settings.clusters[_TARGET]) as cluster:
            return Counted(sum(cluster.offsets(list(shown.pairs.values()), "latest").values()), total)

    try:
        wait_until(copied, "the copy", timeout_seconds=_COPY_SECONDS, until=lambda seen: seen.done >= total)
    finally:
        if not engine.terminate(60.0):
            engine.kill()
    same = sum(_alike(shown, source, target) for source, target in shown.pairs.items())
    return Sentences(
        f"{counted(same, 'record')} of {_SOURCE} and {_TARGET} were compared: each is there once, at the same offset."
    )


def _alike(shown: Shown, source: TopicPartition, target: TopicPartition) -> int:
    """Compare a partition with its copy; return how many records both have at the same offsets.

    Raises
    ------
    AssertionError
        if they differ.
    """
    logs = []
    for alias, each in ((_SOURCE, source), (_TARGET, target)):
        start, end = _bounds(shown, alias, each)
        client = shown.settings.clusters[alias].client
        logs.append([record[:5] for record in read_records(client, each, start, end, alias=alias, read_committed=True)])
    if logs[0] != logs[1]:
        raise AssertionError(f"{source} on {_SOURCE} and {target} on {_TARGET} hold different records")
    return len(logs[0])


def picture(shown: Shown, partition: int) -> RunFigure:
    """Draw what lies at each offset of a partition and of its copy."""
    return offsets_plot(_pictures(shown, partition))


def offsets_table(shown: Shown) -> pd.DataFrame:
    """Return at how many offsets of each log what lies."""
    return pd.DataFrame(
        [
            {"log": log.name, **{str(what): log.count(what) for what in Lies}}
            for partition in range(shown.partitions)
            for log in _pictures(shown, partition)
        ]
    )


def lose_source(shown: Shown) -> Sentences:
    """Kill every broker of the source."""
    shown.lab.clusters[_SOURCE].kill()
    return Sentences(f"Every broker of {_SOURCE} was killed.")


def read_on(shown: Shown) -> pd.DataFrame:
    """Read on by the bookmarks on the target; nothing is translated."""
    rows = []
    for source, target in shown.pairs.items():
        rest = bookmarks.read_on(shown.servers(_TARGET), target, shown.bookmarks[source], sys.maxsize)
        after = rest[0] if rest else None
        rows.append(
            {
                "copy": str(target),
                "bookmark": shown.bookmarks[source],
                **_next(f"next on {_SOURCE}", shown.next_records[source]),
                **_next(f"next on {_TARGET}", after),
                "skipped": max(0, shown.left[source] - len(rest)),
                "read again": max(0, len(rest) - shown.left[source]),
                "same": after == shown.next_records[source] and len(rest) == shown.left[source],
            }
        )
    return pd.DataFrame(rows)


def end(shown: Shown) -> Sentences:
    """End the clusters and remove what they held."""
    clusters.down(Path(shown.folder.name) / "lab", discard_data=True)
    shown.folder.cleanup()
    return Sentences("The practice clusters are gone.")


def _next(where: str, record: tuple[int, bytes] | None) -> dict[str, str]:
    return {where: "-" if record is None else f"{record[1].decode()} at {record[0]}"}


def _bounds(shown: Shown, alias: str, partition: TopicPartition) -> tuple[int, int]:
    with closing(Channel(alias, shown.settings.clusters[alias].client)) as channel:
        starts, ends = (channel.offsets([partition], at, View.WRITTEN) for at in (EARLIEST, LATEST))
    return starts[partition], ends[partition]


def _pictures(shown: Shown, partition: int) -> list[LogPicture]:
    source = TopicPartition(_TOPIC, partition)
    where = ((_SOURCE, source, Lies.REMOVED), (_TARGET, shown.pairs[source], Lies.PADDING))
    return [_picture(shown, alias, each, head) for alias, each, head in where]


def _picture(shown: Shown, alias: str, partition: TopicPartition, head: Lies) -> LogPicture:
    start, behind = _bounds(shown, alias, partition)
    with closing(Channel(alias, shown.settings.clusters[alias].client)) as channel:
        batches, committed = (
            [
                (header.base_offset, header.next_offset)
                for _, header in read_batches(channel, partition, start, behind, read_committed=read_committed)
            ]
            for read_committed in (False, True)
        )
    return picture_of(f"{alias}  {partition}", (start, behind), batches, (first for first, _ in committed), head)
