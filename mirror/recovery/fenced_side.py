"""Who still writes to a cluster whose applications were moved away: the sentinel of a failover, as a look of a second.

It rests on what is on record on the target alone, so that it works wherever nobody runs. What lies behind what was
copied by a planned failover was written after it; of another one that is what bears a time behind the cut. What grows
while it is looked at is being written. Brokers tell producer ids, epochs and transactional ids; of no producer they
tell its client id or address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.control.gaps import iso_time
from mirror.control.tick import now_ms
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import Header
from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.log import LogReader
from mirror.kafka.metadata import metadata_request
from mirror.kafka.problems import KafkaProblem, RequestFailed
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.recovery.late_writers import LateWriter
from mirror.recovery.recent_writers import RecentWriter, find_writers, unread_words
from mirror.recovery.step_facts import named
from mirror.waiting import WaitTimeout, wait_until

_BOOTSTRAP_MS = 2_000
# For so long it is looked whether logs grow: who writes with wrong times is seen by that alone.
_LOOK_SECONDS = 1.0
# Of all partitions together: a status is to be there soon.
_READ_BYTES = 16 << 20
_FETCHED_BYTES = 1 << 20
# Clocks that are less apart are in step.
_CLOCKS_MS = 1_000


@dataclass(frozen=True, slots=True)
class WrittenBehind:
    """What was written to a partition of the old cluster after its flow was cut.

    Attributes
    ----------
    start, end
        the offsets: the first that is known to be of then, and where the log ends.
    is_growing
        whether it grew while it was looked at.
    writers
        who has written there since, as far as brokers and logs tell.
    unread
        how many of the offsets were not read for clients without an id, of whom brokers tell nothing.
    """

    partition: TopicPartition
    start: int
    end: int
    is_growing: bool
    writers: tuple[RecentWriter, ...] = ()
    unread: int = 0

    def late_writers(self, cluster: str) -> tuple[LateWriter, ...]:
        """Return who it was; of whom nothing is known, as one without an id."""
        where = cluster, self.partition, self.start, self.end
        return tuple(
            LateWriter(*where, each.producer_id, each.epoch, each.transactional_id, each.last_ms)
            for each in self.writers
        ) or (LateWriter(*where),)

    def as_json(self, cluster: str) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "from": self.start,
            "to": self.end,
            "growing": self.is_growing,
            "unread": self.unread,
            "producers": [each.as_json() for each in self.late_writers(cluster)] if self.writers else [],
        }

    def __str__(self) -> str:
        """Return it for people."""
        who = named([str(each) for each in self.writers]) or "by whom, brokers do not report"
        who += f"; {unread_words(self.unread)}" if self.unread else ""
        return f"{self.partition} from {self.start} to {self.end - 1}{', growing' if self.is_growing else ''} ({who})"


@dataclass(frozen=True, slots=True)
class FencedSide:
    """The old cluster of a flow that is failed over.

    Attributes
    ----------
    since_ms
        when the flow was cut, in ms since the epoch.
    is_cut
        whether it still is: otherwise it is copied again.
    moved_on
        the later failover of the flow back, by which the applications are there again; None: there is none.
    written
        the partitions that were written to after that.
    unknown
        the partitions of which it is not known, and why.
    problem
        why it could not be looked at; None: it was.
    """

    flow: Flow
    entry: FailoverEntry
    since_ms: int
    written: tuple[WrittenBehind, ...] = ()
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    problem: str | None = None
    is_cut: bool = True
    moved_on: FailoverEntry | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the form of ``mirror status --json``."""
        return {
            "cluster": self.flow.source,
            "failover": self.entry.run,
            "mode": self.entry.mode,
            "since": iso_time(self.since_ms),
            "still_written": [each.as_json(self.flow.source) for each in self.written],
            "unknown": [
                {"topic": each.topic, "partition": each.partition, "reason": why}
                for each, why in sorted(self.unknown.items())
            ],
            "problem": self.problem,
        }

    def reasons(self) -> tuple[str, ...]:
        """Return, for people, who writes where nobody should."""
        copies = ", and nobody copies it" if self.is_cut else ""
        return tuple(
            f"somebody writes to {self.flow.source}, which was failed over ({iso_time(self.since_ms)}){copies}: {each}"
            for each in self.written
        )

    def notes(self) -> tuple[str, ...]:
        """Return what else there is to say."""
        source = self.flow.source
        if self.problem is not None:
            return (f"whether somebody writes to {source}, which was failed over, is not known: {self.problem}",)
        if self.moved_on is not None:
            back, when = Flow(self.flow.target, source), iso_time(self.moved_on.at_ms)
            first = f"fail that back first (mirror failback FILE --flow '{back}'), then this"
            return (f"the applications are on {source} again since {back} was failed over ({when}): {first}",)
        messages: list[str] = []
        if self.unknown:
            which = named([f"{each} ({why})" for each, why in sorted(self.unknown.items())])
            messages.append(f"whether somebody writes to {source}, which was failed over, is not known of {which}")
        if self.written:
            messages.append(
                f"deny it: mirror fence FILE --cluster {source}; the logs of its brokers show the clients' addresses"
            )
        if not messages:
            how = "" if self.is_told_by_offsets else ", by the times of its records"
            when = iso_time(self.since_ms)
            since = "failed over" if self.entry.phase is Phase.DONE else "cut"
            messages.append(f"nobody was seen writing to {source} since it was {since} ({when}){how}")
        return tuple(messages)

    @property
    def is_told_by_offsets(self) -> bool:
        """Whether all that was there at the cut is copied, so that whatever else is there came later."""
        return self.is_cut and self.entry.mode == "planned"


@dataclass(frozen=True, slots=True)
class Seen:
    """What two looks at the old cluster tell.

    Attributes
    ----------
    behind
        by partition, the first offset with a time behind the cut that no mirror has written.
    before, ends
        where the logs ended at the first look, and at the last; what only mirrors or markers made grow has not grown.
    unknown
        the partitions of which it is not known, and why.
    unread
        the offsets that were not read for clients without an id.
    """

    behind: Mapping[TopicPartition, int] = field(default_factory=dict)
    before: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    writers: tuple[RecentWriter, ...] = ()
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    unread: Mapping[TopicPartition, tuple[range, ...]] = field(default_factory=dict)


def written_behind(seen: Seen) -> tuple[WrittenBehind, ...]:
    """Return what was written after the cut."""
    found = []
    for each, end in sorted(seen.ends.items()):
        is_growing = end > seen.before.get(each, end)
        start = min(seen.behind.get(each, end), seen.before.get(each, end) if is_growing else end)
        if start < end:
            writers = tuple(one for one in seen.writers if one.partition == each)
            unread = sum(len(range(max(start, one.start), one.stop)) for one in seen.unread.get(each, ()))
            found.append(WrittenBehind(each, start, end, is_growing, writers, unread))
    return tuple(found)


def late_writers(sides: Iterable[FencedSide | None]) -> tuple[LateWriter, ...]:
    """Return who was seen writing to the old clusters of flows that are failed over: exit codes and metrics go by it.

    ``sides`` are those of all flows, None for one that is not failed over.
    """
    return tuple(
        writer
        for side in sides
        if side is not None
        for each in side.written
        for writer in each.late_writers(side.flow.source)
    )


def entry_to_watch(status: FlowStatus) -> tuple[FailoverEntry, int] | None:
    """Return the failover because of which nobody should write to the flow's source, and since when; None: none is."""
    if any(each.phase is Phase.RETURNING for each in status.failovers):
        # In a failback its applications are started there again.
        return None
    cut = status.pauses.cut
    for each in status.failovers:
        if each.phase is Phase.DONE:
            return each, cut.at_ms if cut is not None else each.at_ms
        if cut is not None:
            return each, cut.at_ms
    return None


def moved_on(status: FlowStatus, since_ms: int, others: Mapping[Flow, FlowStatus]) -> FailoverEntry | None:
    """Return the failover of the flow back, later than this one, by which the applications are on the source again."""
    back = others.get(Flow(status.flow.target, status.flow.source))
    later = (each for each in (() if back is None else back.failovers) if each.at_ms > since_ms)
    return next((each for each in later if each.phase is Phase.DONE), None)


def look_at_fenced_side(
    settings: MirrorSettings,
    chosen: FlowSettings,
    status: FlowStatus,
    others: Mapping[Flow, FlowStatus],
    *,
    seconds: float = _LOOK_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> FencedSide | None:
    """Look who writes to the source of a flow that is failed over; None if it is not.

    Parameters
    ----------
    others
        what is known of the other flows, the one back among them.
    seconds
        for how long logs are watched; a cluster that does not answer is given up soon.
    """
    watched = entry_to_watch(status)
    if watched is None:
        return None
    entry, since_ms = watched
    flow = chosen.flow
    side = FencedSide(flow, entry, since_ms, is_cut=status.pauses.is_cut, moved_on=moved_on(status, since_ms, others))
    if side.moved_on is not None:
        return side
    ahead_ms = since_ms - now_ms()
    copied = {
        TopicPartition(each.topic, each.partition): each.upstream_next if side.is_cut and not _is_anew(each) else 0
        for each in status.partitions
        if not chosen.policy.is_heartbeats_topic(each.topic)
    }
    try:
        client = settings.clusters[flow.source].client
        with closing(Channel(flow.source, client, bootstrap_ms=_BOOTSTRAP_MS)) as channel:
            # Asked once the cluster answers, since that takes longer to give up.
            own = partial(mirrors_of, settings, flow.source)
            since = _not_on_record(channel, chosen, copied)
            seen = look_at_logs(
                *(channel, copied | dict.fromkeys(since, 0), since_ms, own),
                by_offsets=side.is_told_by_offsets,
                by_times=since,
                seconds=seconds,
                monotonic=monotonic,
            )
    except KafkaProblem as problem:
        return replace(side, problem=str(problem))
    # What was written meanwhile bears no later time.
    is_ahead = ahead_ms >= _CLOCKS_MS and not side.is_told_by_offsets
    ahead = f"that moment is {ahead_ms / 1000:.0f} s ahead of this machine's clock" if is_ahead else None
    return replace(side, written=written_behind(seen), unknown=seen.unknown, problem=ahead)


def _not_on_record(
    channel: Channel, chosen: FlowSettings, known: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Return the partitions that the flow selects and has nothing of: topics created since, and partitions added.

    A producer that was forgotten may have its broker create them.
    """
    found = (
        TopicPartition(topic.name, each.partition_index)
        for topic in channel.call(metadata_request(None)).topics
        if chosen.replicates(topic.name) and not chosen.policy.is_heartbeats_topic(topic.name)
        for each in topic.partitions
    )
    return frozenset(found) - set(known)


def _is_anew(partition: PartitionStatus) -> bool:
    """Whether its topic was created anew since: where it ends is known, and not what of it is to be copied."""
    return partition.lag_records is None and partition.source_end is not None


def with_fenced_side(status: FlowStatus, side: FencedSide | None) -> FlowStatus:
    """Return where a flow stands with what was seen of its old cluster; whoever writes there makes it DEGRADED."""
    if side is None:
        return status
    reasons = (*side.reasons(), *status.reasons)
    is_well = status.state in ("RUNNING", "PAUSED", "STARTING")
    return replace(
        status,
        state="DEGRADED" if side.written and is_well else status.state,
        reasons=reasons,
        notes=(*side.notes(), *status.notes),
    )


def look_at_logs(
    channel: Channel,
    copied: Mapping[TopicPartition, int],
    since_ms: int,
    own_writers: Callable[[], Collection[int]],
    *,
    by_offsets: bool = False,
    by_times: Collection[TopicPartition] = (),
    seconds: float,
    monotonic: Callable[[], float],
) -> Seen:
    """Look what was written behind the cut to partitions, of which so much was copied.

    ``by_offsets``: whether that is all there was, so that what lies behind it came later, whatever its times say; but
    for the partitions ``by_times``.

    Read are the headers of what bears a later time or came while it was looked at: markers are no records, and under
    unchanged names the flow back writes there too (``own_writers`` are the producer ids of mirrors).

    Raises
    ------
    BrokerRefused, ConnectionFailed, LeaderUnknown
        if the cluster does not answer.
    """
    partitions = list(copied)
    before = channel.find_offsets(partitions, LATEST)
    timed = frozenset(by_times if by_offsets else partitions)
    behind = channel.find_offsets([each for each in partitions if each in timed], since_ms)
    if by_offsets:
        whole = channel.find_offsets([each for each in partitions if each not in timed], EARLIEST)
        behind = PartitionAnswers({**behind, **whole}, {**behind.problems, **whole.problems})
    began = monotonic()
    with suppress(WaitTimeout):
        wait_until(
            lambda: monotonic() - began >= seconds, f"a log to grow, for {seconds:g} s", timeout_seconds=2 * seconds + 1
        )
    ends = channel.find_offsets(partitions, LATEST)
    unknown = {each: str(why) for each, why in (before.problems | behind.problems | ends.problems).items()}
    # A time may be ahead of the clock: what was copied was written before the cut.
    starts = {each: max(offset, copied[each]) for each, offset in behind.items() if offset >= 0}
    ranges = {}
    for each, end in sorted(ends.items()):
        was = before.get(each, end)
        start = min(starts.get(each, was), was)
        if start < end:
            ranges[each] = (start, was, end)
    if not ranges:
        return Seen({}, ends, ends, unknown=unknown)
    own = own_writers()
    active = find_writers(channel, list(ranges), own=own, since_ms=since_ms)
    writers, unread = list(active.recent), dict(active.cut_short)
    found: dict[TopicPartition, int] = {}
    grown: dict[TopicPartition, int] = {}
    reading = _Reading(channel, own)
    for each, (start, was, end) in ranges.items():
        who = {one.producer_id for one in writers if one.partition == each}
        try:
            late, growth = (
                reading.first(each, start, was, since_ms if each in timed else None),
                reading.first(each, was, end),
            )
        except RequestFailed as problem:
            if not who:
                unknown[each] = str(problem)
                continue
            # Its leader tells of somebody, though not from where on.
            found[each] = start
            continue
        for into, header in ((found, late), (grown, growth)):
            if header is None:
                continue
            into[each] = max(header.base_offset, start if into is found else was)
            if header.producer_id not in who:
                who.add(header.producer_id)
                writers.append(RecentWriter(each, header.producer_id, header.producer_epoch, header.max_timestamp))
        if growth is not None and each not in starts and growth.next_offset < end:
            # Their times are not of now, so the last of that time are not theirs.
            unread[each] = (range(growth.next_offset, end),)
    return Seen(found, {**ends, **grown}, ends, tuple(writers), unknown, unread)


class _NotReadWhole(RequestFailed):
    """There is more than a look may read; the message says of what."""


@dataclass(slots=True)
class _Reading:
    """Reads headers of logs, in all so many bytes of batches, to find what is not a mirror's."""

    channel: Channel
    own: Collection[int]
    left: int = _READ_BYTES

    def first(self, partition: TopicPartition, start: int, end: int, since_ms: int | None = None) -> Header | None:
        """Return the header of the first batch that no mirror has written, not older than ``since_ms``; None: none is.

        Raises
        ------
        _NotReadWhole
            if none was found in what could be read.
        BrokerRefused, ConnectionFailed, LeaderUnknown
            if it cannot be read.
        """
        reader = LogReader(self.channel, partition, start)
        while reader.position < end:
            before = reader.position
            if self.left > 0:
                for content, header in reader.fetch(wait_ms=0, most_bytes=_FETCHED_BYTES):
                    self.left -= len(content)
                    is_late = since_ms is None or header.max_timestamp >= since_ms
                    if header.base_offset < end and header.producer_id not in self.own and is_late:
                        return header
            if reader.position == before:
                raise _NotReadWhole(f"what lies there from {before} to {end - 1} was not read")
        return None


def mirrors_of(settings: MirrorSettings, cluster: str) -> dict[int, str]:
    """Return the producer ids with which enabled flows write to a cluster, and the names of the flows.

    Raises
    ------
    ClusterError, ConnectionFailed
        if the cluster does not answer.
    """
    own: dict[int, str] = {}
    for each in settings.enabled_flows:
        if each.flow.target != cluster:
            continue
        log = FlowLog(settings.clusters[cluster].client, state_topic(each.flow.source), alias=cluster)
        with closing(log), suppress(NeverRun):
            own |= dict.fromkeys(log.observe().writers, str(each.flow))
    return own
