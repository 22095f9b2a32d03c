"""The copy loop of one task: fetch from every source broker, produce to every target broker, commit, until it is time.

One thread, one selector; nothing in it waits for one broker while others could be served.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from mirror.copier.commits import FlowCommits
from mirror.copier.connections import Connections, End
from mirror.copier.copy_ends import CopyEnds
from mirror.copier.epoch_channel import CopiedNews, EpochChannelListener, Signal
from mirror.copier.fetcher import Fetcher
from mirror.copier.fetching import Fetching
from mirror.copier.holes import Holes
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.copier.resume import Place
from mirror.copier.sender import REQUEST_TIMEOUT_MS, REQUESTS_IN_FLIGHT
from mirror.copier.share import Share
from mirror.copier.silent_sources import SilentSources
from mirror.copier.streams import PATIENCE_SECONDS
from mirror.copier.transactions import Transactions
from mirror.copier.work import FlowWork
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel
from mirror.kafka.problems import ConnectionFailed, KafkaProblem
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

# How long an epoch may go on after its end for answers from the target: as long as it takes when every request in
# flight waits for replicas in vain. One that is not waited for may be carried out when nobody expects it any more.
GRACE_SECONDS = REQUESTS_IN_FLIGHT * REQUEST_TIMEOUT_MS / 1000 + 1.0
# How long into that time what may or may not have arrived is sent again.
_RESEND_SECONDS = 2.0

# How long an epoch lasts in which a partition stops until somebody looks at it.
TROUBLED_SECONDS = 2.0

# An epoch lasts so much longer, at most, for what is looked up: over a slow line it would never be found out.
_LOOK_SECONDS = 30.0

_TICK_SECONDS = 0.1
# How often the driver is told how much is copied, if it asks for that, and of the time no more than a part in so many:
# with thousands of partitions less often.
_REPORT_SECONDS = 1.0
_REPORT_SHARE = 100
# How often it is asked where copies end that others may have written to.
_PASS_BY_SECONDS = 10.0
# More than this in all waiting for targets, and no source is asked for more.
_BACKLOG_BYTES = 128 << 20


class CopyLoop:
    """Copies lanes until the epoch ends; a broker's failure delays the lanes that need it and no others."""

    def __init__(
        self,
        flows: Iterable[FlowWork],
        clusters: dict[tuple[Flow, str], ClusterLinks],
        transactions: Mapping[Flow, Transactions],
    ) -> None:
        """Prepare to copy the given flows; ``clusters`` has each flow's ``"source"`` and ``"target"``.

        Flows that have ``transactions`` are written in them.
        """
        self._flows = {flow.flow: flow for flow in flows}
        self._clusters = clusters
        self._lanes: dict[Flow, list[Lane]] = {flow: [] for flow in self._flows}
        self._transactions = transactions
        self._commits = {
            flow: transactions[flow].commits if flow in transactions else FlowCommits(work)
            for flow, work in self._flows.items()
        }
        # Lanes with something under way or not yet written down; the others cost nothing.
        self._active: dict[Flow, dict[Lane, None]] = {flow: {} for flow in self._flows}
        # Those that the driver has not been told the last of.
        self._untold: dict[Lane, None] = {}
        self._connections = Connections(self._flows, self._may_write)
        self._fetching = Fetching(self._connections, self._touched)
        self._silent_sources = SilentSources(clusters)
        self._sync_at = 0.0
        self._pass_by_at = 0.0
        self._shares: Sequence[Share] = ()
        self._epoch_channel: EpochChannelListener | None = None
        # Since when it is being found out where to begin.
        self._looked_at: dict[Flow, float] = {}
        self._holes = Holes(self._connections.background, self._touched)
        self._copy_ends = CopyEnds(self._connections, self._touched)
        self._parent = os.getppid()

    def run(
        self,
        shares: Sequence[Share],
        seconds: float,
        commit_seconds: float,
        epoch_channel: EpochChannelListener | None = None,
        *,
        reports_copied: bool = False,
    ) -> None:
        """Copy ``shares`` for ``seconds``; return when what was sent is answered and recorded, or some seconds later.

        The epoch ends sooner when the driver says so over ``epoch_channel``, when a partition has to be looked up anew,
        and some seconds after one has stopped. What keeps partitions from being copied for now is sent to the driver
        over the same channel; nothing waits for them. So is every second or so how much is copied, if the loop
        ``reports_copied``.
        While the epoch channel does not say that something may be written nothing is.
        """
        self._shares, self._epoch_channel = shares, epoch_channel
        for share in shares:
            self._begin(share.lanes)
            if share.waiting:
                self._find_leaders(share)
        if epoch_channel is not None:
            self._connections.wake_by(epoch_channel)
        over = False
        began = time.monotonic()
        deadline = began + seconds
        next_commit = began + commit_seconds
        next_report = began + _REPORT_SECONDS
        self._pass_by_at = began + min(_PASS_BY_SECONDS, seconds / 2)
        try:
            while True:
                now = time.monotonic()
                signal = epoch_channel.signal() if epoch_channel is not None else Signal.NOTHING
                if not over and now >= deadline and self._is_looking(now):
                    # Until then the others are copied as before.
                    deadline = now + _TICK_SECONDS
                if not over and (now >= deadline or signal is not Signal.NOTHING):
                    over, deadline = True, now
                    self._wind_down(now)
                if now >= deadline + _RESEND_SECONDS:
                    self._give_up()
                if over and self._is_drained(now) and not self._commit_backoff(now):
                    break
                if now > deadline + GRACE_SECONDS or signal is Signal.SILENCE or os.getppid() != self._parent:
                    # An orphan must not go on writing beside its successor.
                    break
                self._look(now)
                if not over and now >= self._pass_by_at:
                    self._pass_by_foreign()
                    self._pass_by_at = now + _PASS_BY_SECONDS
                if not over and self._may_write():
                    self._copy_ends.look(now, self._shares, self._clusters)
                    self._holes.fill(now, self._shares)
                self._advance(now)
                self._place(now, over=over)
                # What has come in goes out before more is asked for: readers of the copy wait for it.
                self._send(now)
                if not over:
                    self._fetching.ask(now, deadline, has_room=self._has_room)
                if reports_copied and epoch_channel is not None and now >= next_report:
                    reported_at = time.monotonic()
                    epoch_channel.report_copied(self._copied_news())
                    next_report = now + max(_REPORT_SECONDS, _REPORT_SHARE * (time.monotonic() - reported_at))
                if now >= next_commit:
                    self._commit()
                    next_commit = now + commit_seconds
                    if not over:
                        deadline = min(deadline, began + self._longest_seconds())
                        self._silent_sources.look(now, self._lanes, self._connections.fetchers.values())
                    if epoch_channel is not None:
                        epoch_channel.report_troubles(self._all_troubles(), self._going_on())
                if now >= self._sync_at:
                    self._emit_syncs()
                    if self._park(over=over):
                        next_commit = now
                    self._sync_at = now + _TICK_SECONDS
                    # What is to be written down goes out no later than this.
                    self._send(now)
                pause = max(0.0, (next_commit if over else min(deadline, next_commit)) - now)
                pause = min(_TICK_SECONDS, pause, *(each.pause(now) for each in self._transactions.values()))
                self._connections.wait(pause, self._receive)
        finally:
            self._connections.release()
            for transactions in self._transactions.values():
                transactions.release()

    def _begin(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            self._lanes[lane.work.flow].append(lane)
            self._active[lane.work.flow][lane] = None
            if lane.work.is_paused:
                # Only its position is written down.
                continue
            self._connections.want(self._clusters[lane.work.flow, "source"], lane)
            self._connections.want(self._clusters[lane.work.flow, "target"], lane.stream)

    def _find_leaders(self, share: Share) -> None:
        """Find out who leads what will be copied while it is found out where to begin."""
        for side, partitions in (
            ("source", [work.source for work in share.waiting]),
            ("target", [work.target for work in share.waiting]),
        ):
            cluster = self._clusters[share.flow, side]
            # Ids of topics as they are now: those may have been created anew.
            cluster.forget_leaders({each.topic for each in partitions})
            if not self._connections.is_asking(cluster):
                self._connections.ask(cluster, partial(Channel.learn_leaders, partitions=partitions), lambda _: None)

    def _look(self, now: float) -> None:
        """Find out beside the loop where to begin with what cannot just go on."""
        for share in self._shares:
            if share.is_due(now) and share.flow not in self._looked_at:
                self._looked_at[share.flow] = now
                self._connections.background.begin(share.flow, share.look, partial(self._found, share))

    def _found(self, share: Share, places: Mapping[TopicPartition, Place] | KafkaProblem) -> None:
        self._looked_at.pop(share.flow)
        self._begin(share.take_in(places))

    def _may_write(self) -> bool:
        return self._epoch_channel is None or self._epoch_channel.may_write

    def close(self) -> None:
        """Wait for nothing any more that is done beside the loop."""
        self._connections.close()

    def troubles(self) -> dict[Flow, str]:
        """Say for which flows something could not be written down or committed, and why."""
        found = {flow: commits.trouble for flow, commits in self._commits.items() if commits.trouble}
        return found | {flow: each.trouble for flow, each in self._transactions.items() if each.trouble}

    def _all_troubles(self) -> dict[tuple[Flow, TopicPartition], str]:
        """Say of each partition what keeps it from being copied, or from being written down."""
        of_flows = self.troubles()
        found = (
            (flow, lane.work.source, lane.why_troubled or of_flows.get(flow))
            for flow, lanes in self._lanes.items()
            for lane in lanes
        )
        waiting = {(share.flow, source): why for share in self._shares for source, why in share.troubles().items()}
        return waiting | {(flow, source): why for flow, source, why in found if why}

    def _copied_news(self) -> CopiedNews:
        found = {(lane.work.flow, lane.work.source): news for lane in self._untold if (news := lane.news()) is not None}
        self._untold = {lane: None for lane in self._untold if not lane.is_idle}
        return found

    def _going_on(self) -> set[tuple[Flow, TopicPartition]]:
        """Return what was in trouble before the epoch and is read and written now."""
        troubled = [lane for lanes in self._lanes.values() for lane in lanes if lane.work.is_troubled]
        if not troubled:
            return set()
        fetched = {lane for fetcher in self._connections.fetchers.values() for lane in fetcher.lanes.values()}
        return {
            (lane.work.flow, lane.work.source)
            for lane in troubled
            if lane in fetched and lane.stream.sender is not None
        }

    def _longest_seconds(self) -> float:
        """Return how long the epoch should be, as things stand."""
        lanes = [lane for lanes in self._lanes.values() for lane in lanes]
        if any(lane.is_lost for lane in lanes) or not (lanes or any(share.waiting for share in self._shares)):
            return 0.0
        if any(lane.stopped for lane in lanes) or any(share.has_news for share in self._shares):
            return TROUBLED_SECONDS
        return math.inf

    def _wind_down(self, now: float) -> None:
        """Send what can go out at once and drop the rest: the next epoch reads it again."""
        self._send(now)
        for share in self._shares:
            share.end()
        for flow, lanes in self._lanes.items():
            for lane in lanes if flow not in self._transactions else ():
                lane.stream.wind_down()
        for transactions in self._transactions.values():
            transactions.wind_down()
        for commits in self._commits.values():
            commits.wind_down()

    def _give_up(self) -> None:
        """Send no data any more; the next epoch finds out what is in the log."""
        for lanes in self._lanes.values():
            for lane in lanes:
                lane.stream.give_up()
        for transactions in self._transactions.values():
            transactions.give_up()
        for commits in self._commits.values():
            commits.give_up()

    def _is_looking(self, now: float) -> bool:
        """Whether it is being found out where to begin, which an epoch's end would interrupt; not for ever."""
        return any(now < began_at + _LOOK_SECONDS for began_at in self._looked_at.values())

    def _is_drained(self, now: float) -> bool:
        """Whether all is answered that has been asked, but for what gets nowhere: that is not sent again either."""
        # What was sent in a transaction that is lost does not count, whatever becomes of it.
        lost = {flow for flow, transactions in self._transactions.items() if transactions.lost}
        streams = [lane.stream for flow, lanes in self._active.items() if flow not in lost for lane in lanes]
        for stream in streams:
            if stream.is_stuck(now) and stream.transactional_id is None:
                stream.give_up()
        if any(now < began_at + PATIENCE_SECONDS for began_at in (*self._looked_at.values(), *self._holes.begun_at)):
            return False
        return all(
            fetcher.asked_at is None or fetcher.is_stuck(now) for fetcher in self._connections.fetchers.values()
        ) and all(stream.is_quiet or (stream.is_stuck(now) and stream.transactional_id is None) for stream in streams)

    # Placing: which connection serves which lane and stream.

    def _place(self, now: float, *, over: bool) -> None:
        """Find connections for what has none; whatever takes time to find is found beside the loop."""
        for commits in self._commits.values():
            for side, stream in commits.new_streams():
                self._connections.want(self._clusters[commits.work.flow, side], stream)
        if not over:
            self._fetching.find_bounds()
        self._connections.place(now, reads=not over)

    def _has_room(self) -> bool:
        """Whether more may be read: not too much of it waits for targets."""
        return sum(lane.stream.bytes for lanes in self._active.values() for lane in lanes) <= _BACKLOG_BYTES

    def _touched(self, lane: Lane) -> None:
        self._active[lane.work.flow][lane] = self._untold[lane] = None

    # Producing.

    def _send(self, now: float) -> None:
        for sender in list(self._connections.senders.values()):
            try:
                sender.send(now)
            except ConnectionFailed as failure:
                self._connections.lose(sender, str(failure))
            else:
                self._connections.watch(sender)

    # Committing.

    def _commit(self) -> None:
        for flow, lanes in self._active.items():
            for lane in [lane for lane in lanes if lane.is_idle]:
                del lanes[lane]
            dirty = [lane for lane in lanes if lane.is_dirty]
            if dirty and flow in self._transactions:
                self._transactions[flow].call()
            elif dirty:
                self._commits[flow].commit(dirty)

    def _commit_backoff(self, now: float) -> bool:
        """Commit what is left; return whether anything is still under way."""
        self._commit()
        self._emit_syncs()
        return any(not commits.is_done(now) for commits in self._commits.values()) or any(
            not transactions.is_over for transactions in self._transactions.values()
        )

    def _park(self, *, over: bool) -> bool:
        """Write the dead letters there are, before the epoch is over; return whether a lane waits for a commit."""
        active = [(flow, lane) for flow, lanes in self._active.items() for lane in lanes]
        for flow, lane in active if not over else ():
            if lane.is_held:
                self._commits[flow].park(lane)
        return any(lane.awaits_commit for _, lane in active)

    def _pass_by_foreign(self) -> None:
        """Find out, beside the loop, where copies of idle lanes end: what others wrote is not read at a restart.

        In transactions it never is.
        """
        idle: dict[ClusterLinks, list[tuple[Lane, int]]] = {}
        for flow, lanes in self._lanes.items():
            if flow not in self._transactions:
                cluster = self._clusters[flow, "target"]
                idle.setdefault(cluster, []).extend((lane, lane.sequence) for lane in lanes if lane.is_idle)
        for cluster, marked in idle.items():
            if marked and not self._connections.is_asking(cluster):
                targets = [lane.work.target for lane, _ in marked]
                question = partial(Channel.find_offsets, partitions=targets, at=LATEST)
                self._connections.ask(cluster, question, partial(self._passed_by, marked))

    def _passed_by(self, marked: list[tuple[Lane, int]], found: PartitionAnswers[int] | KafkaProblem) -> None:
        """Go on behind what others have written, where nothing of ours was on its way when it was asked."""
        ends = {} if isinstance(found, KafkaProblem) else found
        for lane, sequence in marked:
            if lane.sequence == sequence and lane.is_idle and lane.work.target in ends:
                lane.pass_by_foreign(ends[lane.work.target])
                self._active[lane.work.flow][lane] = None

    def _advance(self, now: float) -> None:
        """Move the transactions on."""
        for transactions in self._transactions.values():
            transactions.advance(now)
            if transactions.wants_connection(now) and not self._connections.is_asking(transactions.cluster):
                self._connections.coordinate(transactions)
            try:
                transactions.ask(now)
            except ConnectionFailed as failure:
                self._connections.lose(transactions, str(failure))
            else:
                self._connections.watch(transactions)

    def _emit_syncs(self) -> None:
        for flow, commits in self._commits.items():
            commits.emit_syncs(self._active[flow])

    # What comes in.

    def _receive(self, end: End) -> None:
        """Take in every answer that is there."""
        while True:
            if isinstance(end, Fetcher):
                if not self._fetching.receive(end):
                    return
            elif isinstance(end, Transactions):
                if not end.receive():
                    return
            else:
                stale = end.receive()
                if stale is None:
                    return
                if stale:
                    for stream in stale:
                        self._connections.want(end.cluster, stream)
                    end.cluster.forget_leaders({stream.partition.topic for stream in stale})
            if end.connection is None or not end.connection.has_buffered_data:
                return
