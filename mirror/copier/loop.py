"""The copy loop of one task: fetch from every source broker, produce to every target broker, commit, until it is time.

One thread, one selector; nothing in it waits for one broker while others could be served.
"""

from __future__ import annotations

import math
import os
import selectors
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from mirror.copier.background import BackgroundCalls
from mirror.copier.commits import FlowCommits
from mirror.copier.epoch_channel import CopiedNews, EpochChannelListener, Signal
from mirror.copier.fetcher import Fetcher
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.holes import Holes
from mirror.copier.lane import Lane
from mirror.copier.links import Bounds, Cluster, bounds
from mirror.copier.mirrored import Undecided
from mirror.copier.resume import Place
from mirror.copier.streams import PATIENCE_SECONDS, REQUEST_TIMEOUT_MS, REQUESTS_IN_FLIGHT, Sender, Stream
from mirror.copier.transactions import Transactions
from mirror.copier.work import FlowWork, PartitionWork
from mirror.kafka import codes, wire
from mirror.kafka.batch import CorruptBatch, UnsupportedMagic
from mirror.kafka.channel import LATEST, Channel
from mirror.kafka.connection import Connection
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem, LeaderUnknown
from mirror.kafka.versions import FETCH, PRODUCE, TRANSACTIONS, Versions
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
_TELL_SECONDS = 1.0
_TELL_SHARE = 100
# How often it is asked where copies end that others may have written to.
_PASS_BY_SECONDS = 10.0
# More than this in all waiting for targets, and no source is asked for more.
_BACKLOG_BYTES = 128 << 20


T = TypeVar("T")

_End: TypeAlias = Fetcher | Sender | Transactions
# What needs a connection to the leader of its partition: a lane to read over, a stream to write over.
_Unplaced: TypeAlias = Lane | Stream
# A connection by cluster, broker, and what it is for.
_Place: TypeAlias = tuple[Cluster, int, str]
# Offsets of partitions, and of which they cannot be told.
_Offsets: TypeAlias = tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, LeaderUnknown | BrokerRefused]]


class Share(Protocol):
    """What is copied of one flow; what cannot just go on is looked at beside the loop."""

    flow: Flow
    lanes: list[Lane]
    waiting: list[PartitionWork]
    has_news: bool
    filler: HoleFiller | None

    def is_due(self, now: float) -> bool:
        """Whether something is to be looked at now."""
        ...

    def look(self) -> Mapping[TopicPartition, Place]:
        """Find out where to begin, in another thread."""
        ...

    def take_in(self, places: Mapping[TopicPartition, Place] | Exception) -> list[Lane]:
        """Take in what was found; return the lanes that begin."""
        ...

    def troubles(self) -> Mapping[TopicPartition, str]:
        """Return why those are not copied that are still looked at."""
        ...

    def end(self) -> None:
        """Look at nothing more."""
        ...


class CopyLoop:
    """Copies lanes until the epoch ends; a broker's failure rests the lanes that need it and no others."""

    def __init__(
        self,
        flows: Iterable[FlowWork],
        clusters: dict[tuple[Flow, str], Cluster],
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
        self._fetchers: dict[_Place, Fetcher] = {}
        self._senders: dict[_Place, Sender] = {}
        self._sync_at = 0.0
        self._pass_by_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._background = BackgroundCalls()
        self._unplaced: list[tuple[Cluster, _Unplaced]] = []
        # Who waits for a connection that is being opened.
        self._waiting: dict[_Place, list[_Unplaced]] = {}
        # Who has asked the source for an offset that it does not have.
        self._outside: dict[Cluster, list[Lane]] = {}
        self._shares: Sequence[Share] = ()
        self._epoch_channel: EpochChannelListener | None = None
        # Since when it is being found out where to begin.
        self._looked_at: dict[Flow, float] = {}
        self._holes = Holes(self._background, self._touched)
        self._parent = os.getppid()

    def run(
        self,
        shares: Sequence[Share],
        seconds: float,
        commit_seconds: float,
        epoch_channel: EpochChannelListener | None = None,
        *,
        tells_copied: bool = False,
    ) -> None:
        """Copy ``shares`` for ``seconds``; return when what was sent is answered and recorded, or some seconds later.

        The epoch ends sooner when the driver says so over ``epoch_channel``, when a partition has to be looked up anew,
        and some seconds after one has stopped. What keeps partitions from being copied for now is sent to the driver
        over the same channel; nothing waits for them. So is every second or so how much is copied, if the loop
        ``tells_copied``.
        While the epoch channel does not say that something may be written nothing is.
        """
        self._shares, self._epoch_channel = shares, epoch_channel
        self._selector.register(self._background, selectors.EVENT_READ, self._background)
        for share in shares:
            self._begin(share.lanes)
            if share.waiting:
                self._find_leaders(share)
        if epoch_channel is not None:
            self._selector.register(epoch_channel, selectors.EVENT_READ, epoch_channel)
        over = False
        began = time.monotonic()
        deadline = began + seconds
        next_commit = began + commit_seconds
        next_told = began + _TELL_SECONDS
        self._pass_by_at = began + min(_PASS_BY_SECONDS, seconds / 2)
        try:
            while True:
                now = time.monotonic()
                heard = epoch_channel.signal() if epoch_channel is not None else Signal.NOTHING
                if not over and now >= deadline and self._is_looking(now):
                    # Until then the others are copied as before.
                    deadline = now + _TICK_SECONDS
                if not over and (now >= deadline or heard is not Signal.NOTHING):
                    over, deadline = True, now
                    self._wind_down(now)
                if now >= deadline + _RESEND_SECONDS:
                    self._give_up()
                if over and self._is_drained(now) and not self._commit_backoff(now):
                    break
                if now > deadline + GRACE_SECONDS or heard is Signal.SILENCE or os.getppid() != self._parent:
                    # An orphan must not go on writing beside its successor.
                    break
                self._look(now)
                if not over and now >= self._pass_by_at:
                    self._pass_by_others()
                    self._pass_by_at = now + _PASS_BY_SECONDS
                if not over and self._may_write():
                    self._holes.fill(now, self._shares)
                self._advance(now)
                self._place(now, over=over)
                # What has come in goes out before more is asked for: readers of the copy wait for it.
                self._send(now)
                if not over:
                    self._fetch(now, deadline)
                if tells_copied and epoch_channel is not None and now >= next_told:
                    telling = time.monotonic()
                    epoch_channel.tell_copied(self._copied_news())
                    next_told = now + max(_TELL_SECONDS, _TELL_SHARE * (time.monotonic() - telling))
                if now >= next_commit:
                    self._commit()
                    next_commit = now + commit_seconds
                    if not over:
                        deadline = min(deadline, began + self._longest_seconds())
                    if epoch_channel is not None:
                        epoch_channel.tell(self._all_troubles(), self._going_on())
                if now >= self._sync_at:
                    self._emit_syncs()
                    if self._park(over=over):
                        next_commit = now
                    self._sync_at = now + _TICK_SECONDS
                    # What is to be written down goes out no later than this.
                    self._send(now)
                pause = max(0.0, (next_commit if over else min(deadline, next_commit)) - now)
                self._wait(min(_TICK_SECONDS, pause, *(each.pause(now) for each in self._transactions.values())))
        finally:
            self._release()

    def _begin(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            self._lanes[lane.work.flow].append(lane)
            self._active[lane.work.flow][lane] = None
            if lane.work.is_paused:
                # Only its position is written down.
                continue
            self._unplaced.append((self._clusters[lane.work.flow, "source"], lane))
            self._unplaced.append((self._clusters[lane.work.flow, "target"], lane.stream))

    def _find_leaders(self, share: Share) -> None:
        """Find out who leads what will be copied while it is found out where to begin."""
        for side, partitions in (
            ("source", [work.source for work in share.waiting]),
            ("target", [work.target for work in share.waiting]),
        ):
            cluster = self._clusters[share.flow, side]
            # Ids of topics as they are now: those may have been created anew.
            cluster.forget_leaders({each.topic for each in partitions})
            if not self._background.is_under_way(cluster):
                self._ask(cluster, partial(Channel.learn_leaders, partitions=partitions), lambda _: None)

    def _look(self, now: float) -> None:
        """Find out beside the loop where to begin with what cannot just go on."""
        for share in self._shares:
            if share.is_due(now) and share.flow not in self._looked_at:
                self._looked_at[share.flow] = now
                self._background.begin(share.flow, share.look, partial(self._found, share))

    def _found(self, share: Share, places: Mapping[TopicPartition, Place] | KafkaProblem) -> None:
        self._looked_at.pop(share.flow)
        self._begin(share.take_in(places))

    def _may_write(self) -> bool:
        return self._epoch_channel is None or self._epoch_channel.may_write

    def _may_flush(self, end: _End) -> bool:
        return isinstance(end, Fetcher) or self._may_write()

    def close(self) -> None:
        """Wait for nothing any more that is done beside the loop."""
        self._background.close()
        self._selector.close()

    def troubles(self) -> dict[Flow, str]:
        """Say for which flows something could not be written down or committed, and why."""
        said = {flow: commits.trouble for flow, commits in self._commits.items() if commits.trouble}
        return said | {flow: each.trouble for flow, each in self._transactions.items() if each.trouble}

    def _all_troubles(self) -> dict[tuple[Flow, TopicPartition], str]:
        """Say of each partition what keeps it from being copied, or from being written down."""
        of_flows = self.troubles()
        said = (
            (flow, lane.work.source, lane.why_troubled or of_flows.get(flow))
            for flow, lanes in self._lanes.items()
            for lane in lanes
        )
        waiting = {(share.flow, source): why for share in self._shares for source, why in share.troubles().items()}
        return waiting | {(flow, source): why for flow, source, why in said if why}

    def _copied_news(self) -> CopiedNews:
        found = {(lane.work.flow, lane.work.source): news for lane in self._untold if (news := lane.news()) is not None}
        self._untold = {lane: None for lane in self._untold if not lane.is_idle}
        return found

    def _going_on(self) -> set[tuple[Flow, TopicPartition]]:
        """Return what was in trouble before the epoch and is read and written now."""
        troubled = [lane for lanes in self._lanes.values() for lane in lanes if lane.work.is_troubled]
        if not troubled:
            return set()
        fetched = {lane for fetcher in self._fetchers.values() for lane in fetcher.lanes.values()}
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
        return all(fetcher.asked_at is None or fetcher.is_stuck(now) for fetcher in self._fetchers.values()) and all(
            stream.is_quiet or (stream.is_stuck(now) and stream.transactional_id is None) for stream in streams
        )

    # Placing: which connection serves which lane and stream.

    def _place(self, now: float, *, over: bool) -> None:
        """Find connections for what has none; whatever takes time to find is found beside the loop."""
        for commits in self._commits.values():
            for side, stream in commits.new_streams():
                self._unplaced.append((self._clusters[commits.work.flow, side], stream))
        if not over:
            self._find_places()
        known: dict[Cluster, list[_Unplaced]] = {}
        unknown: dict[Cluster, list[_Unplaced]] = {}
        left: list[tuple[Cluster, _Unplaced]] = []
        for cluster, one in self._unplaced:
            if isinstance(one, Lane) and over:
                continue
            is_known = cluster.known_leader(_partition(one)) is not None
            if now < one.backoff_until or (not is_known and self._background.is_under_way(cluster)):
                left.append((cluster, one))
            elif is_known:
                known.setdefault(cluster, []).append(one)
            else:
                unknown.setdefault(cluster, []).append(one)
        self._unplaced = left
        # Who is known does not wait for an answer about others.
        for cluster, ones in known.items():
            self._led(cluster, ones, None)
        for cluster, ones in unknown.items():
            question = partial(Channel.learn_leaders, partitions=[_partition(one) for one in ones])
            self._ask(cluster, question, partial(self._led, cluster, ones))

    def _ask(self, cluster: Cluster, ask: Callable[[Channel], T], then: Callable[[T | KafkaProblem], None]) -> None:
        """Ask a cluster something beside the loop; nothing else may be asked of it meanwhile."""
        self._background.begin(cluster, lambda: cluster.ask(ask), then)

    def _led(self, cluster: Cluster, ones: list[_Unplaced], problem: KafkaProblem | None) -> None:
        """Give each to the connection to its leader, as far as that is known now."""
        for one in ones:
            node = cluster.known_leader(_partition(one))
            if node is None:
                trouble = str(problem or f"{cluster.alias}: {_partition(one)} has no leader")
                self._leave_unplaced(cluster, one, trouble)
                continue
            if isinstance(one, Lane) and one.replica is not None:
                node = one.replica
            self._join((cluster, node, self._role(cluster, node, one)), one)

    def _role(self, cluster: Cluster, node: int, one: _Unplaced) -> str:
        """Return what a connection is for.

        Each flow fetches over connections of its own: two flows may read the same partition from different positions.
        A fetch names the rack for all its partitions, so that those that are read from leaders alone have others. A
        produce request carries batches of one transactional id, or of none. A broker answers one request of a
        connection after the other, so what may make it wait for other replicas goes over another connection, and so
        does what has made it wait.
        """
        if isinstance(one, Lane):
            flow, is_alone = one.work.flow, cluster.leader_alone(one.work.source)
            return f"{_fetch_role(flow)} {'' if is_alone else self._flows[flow].fetch_limits.rack}".rstrip()
        line = cluster.line(node, one.partition)
        return f"{'produce apart' if one.is_apart else 'produce'} {line} {one.transactional_id or ''}".rstrip()

    def _join(self, place: _Place, one: _Unplaced) -> None:
        """Let one use the connection at ``place``, which is opened beside the loop if there is none."""
        if place in self._fetchers or place in self._senders:
            self._add(place, one)
            return
        self._waiting.setdefault(place, []).append(one)
        cluster, node, role = place
        if self._background.is_under_way(place):
            return
        idle = cluster.take_idle(node, role)
        if idle is not None:
            self._connected(place, idle)
        else:
            self._connect(place, (FETCH,) if isinstance(one, Lane) else (PRODUCE,), partial(self._connected, place))

    def _connect(
        self, place: _Place, needed: Sequence[Versions], then: Callable[[Connection | KafkaProblem], None]
    ) -> None:
        """Open a connection beside the loop; one that comes too late is for the next epoch."""
        cluster, node, role = place
        connect = partial(cluster.connection, node, role, needed)
        self._background.begin(place, connect, then, partial(cluster.give_back, node, role))

    def _connected(self, place: _Place, connection: Connection | KafkaProblem) -> None:
        cluster, node, role = place
        waiting = self._waiting.pop(place)
        if not isinstance(connection, Connection):
            for one in waiting:
                if isinstance(one, Lane) and one.replica is not None:
                    one.replica = None
                    cluster.read_leader(one.work.source, str(connection))
                self._leave_unplaced(cluster, one, str(connection))
            return
        first = waiting[0]
        if isinstance(first, Lane):
            work = self._flows[first.work.flow]
            limits, rack = work.fetch_limits, role.removeprefix(_fetch_role(work.flow)).strip()
            fetcher = Fetcher(cluster, connection, limits, read_committed=work.read_committed, rack=rack)
            self._fetchers[place] = fetcher
            self._selector.register(connection, selectors.EVENT_READ, fetcher)
        else:
            connection.discard_unsent()
            limit = cluster.largest_request(node)
            sender = Sender(cluster, connection, limit, first.transactional_id, self._may_write)
            self._senders[place] = sender
            self._selector.register(connection, selectors.EVENT_READ, sender)
        for one in waiting:
            self._add(place, one)

    def _add(self, place: _Place, one: _Unplaced) -> None:
        if isinstance(one, Stream):
            self._senders[place].add(one)
            if one.is_idle:
                one.trouble = None
            return
        cluster, _, _ = place
        one.leader_epoch = cluster.known_leader_epoch(one.work.source)
        one.check_topic(cluster.known_topic_id(one.work.source.topic))
        self._fetchers[place].add(one)

    def _leave_unplaced(self, cluster: Cluster, one: _Unplaced, trouble: str) -> None:
        """Look for a connection again later."""
        one.pause(trouble)
        self._unplaced.append((cluster, one))

    # Fetching.

    def _fetch(self, now: float, deadline: float) -> None:
        for fetcher in list(self._fetchers.values()):
            try:
                fetcher.check(now)
                if fetcher.may_ask(now) and self._backlog() <= _BACKLOG_BYTES:
                    fetcher.ask(now, deadline - now)
            except ConnectionFailed as failure:
                self._lose(fetcher, str(failure))
            else:
                self._watch(fetcher)

    def _backlog(self) -> int:
        return sum(lane.stream.bytes for lanes in self._active.values() for lane in lanes)

    def _touch(self, fetcher: Fetcher, lane: Lane) -> None:
        """Something has come in for a lane: it is no longer as the broker and the state topic know it."""
        fetcher.touch(lane)
        self._touched(lane)

    def _touched(self, lane: Lane) -> None:
        self._active[lane.work.flow][lane] = self._untold[lane] = None

    def _fetched(self, fetcher: Fetcher) -> bool:
        """Take in one answer; return whether there was one."""
        answer = fetcher.receive()
        if answer is None:
            return False
        frame, parts = answer
        refused: list[tuple[Lane, int]] = []
        for part in parts:
            lane = fetcher.lanes.get(part.partition)
            if lane is None:
                continue
            if lane.is_over:
                # The target gave it up while the answer was on its way.
                fetcher.drop(lane)
                continue
            if part.error:
                refused.append((lane, part.error))
                continue
            if part.preferred_replica >= 0:
                self._move(fetcher, lane, part.preferred_replica)
                continue
            if part.diverging is not None and lane.replica is not None:
                # A follower that lags says the same of what it has not got yet.
                self._to_leader(fetcher, lane, f"its log parts from what was read at {part.diverging.end}")
                continue
            if part.diverging is not None:
                lane.look_again(
                    f"{lane.work.source} on the source is no longer the log that was read: it parts from it at the end "
                    f"of leader epoch {part.diverging.epoch}, at offset {part.diverging.end} at the latest"
                )
                self._touch(fetcher, lane)
                continue
            lane.trouble = None
            lane.backoff.end()
            try:
                heard_at = fetcher.connection.heard_at
                lane.take(frame, part, read_committed=fetcher.read_committed, received_at=heard_at)
            except Undecided as problem:
                lane.pause(str(problem))
            except (UnsupportedMagic, CorruptBatch) as problem:
                if lane.replica is not None:
                    self._active[lane.work.flow][lane] = None
                    self._to_leader(fetcher, lane, str(problem))
                    continue
                lane.stop(f"{lane.work.source} on the source cannot be read further: {problem}")
            # Who got something is asked for last, here and in the broker's session: only the first in an answer gets a
            # batch over the size limit, and an answer that is full leaves the last without any.
            self._touch(fetcher, lane)
        if refused:
            self._fetch_refused(fetcher, refused)
        return True

    def _fetch_refused(self, fetcher: Fetcher, refused: list[tuple[Lane, int]]) -> None:
        fetcher.cluster.forget_leaders({lane.work.source.topic for lane, _ in refused})
        for lane, code in [(lane, code) for lane, code in refused if lane.replica is not None]:
            # It may be behind its leader, or ahead of it with what is removed: the leader says what is there.
            self._to_leader(fetcher, lane, codes.name(code))
        refused = [(lane, code) for lane, code in refused if lane.work.source in fetcher.lanes]
        outside = [lane for lane, code in refused if code == codes.OFFSET_OUT_OF_RANGE]
        for lane, code in refused:
            if code != codes.OFFSET_OUT_OF_RANGE:
                fetcher.drop(lane)
                trouble = f"the source refuses to read {lane.work.source}: {codes.name(code)}"
                self._leave_unplaced(fetcher.cluster, lane, trouble)
        for lane in outside:
            fetcher.drop(lane)
        self._outside.setdefault(fetcher.cluster, []).extend(outside)

    def _find_places(self) -> None:
        """Look, beside the loop, where the logs of those begin and end that were read outside of them."""
        for cluster in [cluster for cluster in self._outside if not self._background.is_under_way(cluster)]:
            lanes = self._outside.pop(cluster)
            sources = [lane.work.source for lane in lanes]
            self._ask(cluster, partial(bounds, partitions=sources), partial(self._bounded, cluster, lanes))

    def _bounded(self, cluster: Cluster, lanes: list[Lane], found: Bounds | KafkaProblem) -> None:
        """Go on behind what the source has removed; where it never had such an offset, it is not what it was."""
        for lane in lanes:
            source = lane.work.source
            if not isinstance(found, tuple):
                self._leave_unplaced(cluster, lane, str(found))
                continue
            starts, ends, problems = found
            if source in problems:
                self._leave_unplaced(cluster, lane, str(problems[source]))
                continue
            if lane.fetch_position < starts[source]:
                lane.skip_gap(starts[source], int(time.time() * 1000))
            else:
                lane.look_again(
                    f"{source} on the source has the offsets {starts[source]} to {ends[source]} and does not know the "
                    f"position {lane.fetch_position}: it was truncated, or the topic was created anew"
                )
            self._active[lane.work.flow][lane] = None
            self._unplaced.append((cluster, lane))

    def _move(self, fetcher: Fetcher, lane: Lane, replica: int) -> None:
        """Read a lane from the follower that its leader named, until the epoch ends or the follower fails."""
        lane.replica = replica
        fetcher.drop(lane)
        self._unplaced.append((fetcher.cluster, lane))

    def _to_leader(self, fetcher: Fetcher, lane: Lane, reason: str) -> None:
        """Read a lane from its leader again, soon: what a follower refuses says nothing of the log."""
        fetcher.cluster.read_leader(lane.work.source, f"{fetcher.connection.name}: {reason}")
        lane.replica = None
        lane.backoff_until = time.monotonic() + lane.backoff.next_seconds()
        fetcher.drop(lane)
        self._unplaced.append((fetcher.cluster, lane))

    # Producing.

    def _send(self, now: float) -> None:
        for sender in list(self._senders.values()):
            try:
                sender.send(now)
            except ConnectionFailed as failure:
                self._lose(sender, str(failure))
            else:
                self._watch(sender)

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
        held = [(flow, lane) for flow, lanes in self._active.items() for lane in lanes if lane.is_held]
        for flow, lane in () if over else held:
            self._commits[flow].park(lane)
        return any(lane.awaits_commit for _, lane in held)

    def _pass_by_others(self) -> None:
        """Find out, beside the loop, where the copies end that rest: what others have written is not read at a restart.

        In transactions it never is.
        """
        resting: dict[Cluster, list[tuple[Lane, int]]] = {}
        for flow, lanes in self._lanes.items():
            if flow not in self._transactions:
                cluster = self._clusters[flow, "target"]
                resting.setdefault(cluster, []).extend((lane, lane.sequence) for lane in lanes if lane.is_idle)
        for cluster, marked in resting.items():
            if marked and not self._background.is_under_way(cluster):
                targets = [lane.work.target for lane, _ in marked]
                question = partial(Channel.find_offsets, partitions=targets, at=LATEST)
                self._ask(cluster, question, partial(self._passed_by, marked))

    def _passed_by(self, marked: list[tuple[Lane, int]], found: _Offsets | KafkaProblem) -> None:
        """Go on behind what others have written, where nothing of ours was on its way when it was asked."""
        ends = found[0] if isinstance(found, tuple) else {}
        for lane, sequence in marked:
            if lane.sequence == sequence and lane.is_idle and lane.work.target in ends:
                lane.pass_by_others(ends[lane.work.target])
                self._active[lane.work.flow][lane] = None

    def _advance(self, now: float) -> None:
        """Move the transactions on."""
        for transactions in self._transactions.values():
            transactions.advance(now)
            if transactions.wants_connection(now) and not self._background.is_under_way(transactions.cluster):
                transactions.is_connecting = True
                found = partial(self._coordinated, transactions)
                self._ask(transactions.cluster, transactions.find_coordinator, found)
            try:
                transactions.ask(now)
            except ConnectionFailed as failure:
                self._lose(transactions, str(failure))
            else:
                self._watch(transactions)

    def _coordinated(self, transactions: Transactions, node: int | KafkaProblem) -> None:
        """Connect, beside the loop, to the broker that coordinates transactions."""
        if not isinstance(node, int):
            transactions.take_connection(node)
            return

        def reached(connection: Connection | KafkaProblem) -> None:
            transactions.take_connection(connection, node)
            if isinstance(connection, Connection):
                self._selector.register(connection, selectors.EVENT_READ, transactions)

        self._connect((transactions.cluster, node, transactions.role), TRANSACTIONS, reached)

    def _emit_syncs(self) -> None:
        for flow, commits in self._commits.items():
            commits.emit_syncs(self._active[flow])

    # Waiting, and what comes in.

    def _wait(self, seconds: float) -> None:
        for key, events in self._selector.select(seconds):
            if isinstance(key.data, EpochChannelListener):
                continue
            if isinstance(key.data, BackgroundCalls):
                key.data.take_in()
                continue
            try:
                if events & selectors.EVENT_WRITE and self._may_flush(key.data):
                    key.data.connection.flush()
                if events & selectors.EVENT_READ:
                    self._receive(key.data)
            except (ConnectionFailed, wire.FetchFailed) as failure:
                self._lose(key.data, str(failure))
            else:
                self._watch(key.data)

    def _receive(self, end: _End) -> None:
        """Take in every answer that is there."""
        while True:
            if isinstance(end, Fetcher):
                if not self._fetched(end):
                    return
            elif isinstance(end, Transactions):
                if not end.receive():
                    return
            else:
                stale = end.receive()
                if stale is None:
                    return
                if stale:
                    self._unplaced += [(end.cluster, stream) for stream in stale]
                    end.cluster.forget_leaders({stream.partition.topic for stream in stale})
            if end.connection is None or not end.connection.has_buffered_data:
                return

    def _watch(self, end: _End) -> None:
        """Wait for answers, and for room too if the socket did not take everything."""
        if end.connection is None:
            return
        is_waiting = end.connection.has_unsent and self._may_flush(end)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_waiting else 0)
        if self._selector.get_key(end.connection).events != wanted:
            self._selector.modify(end.connection, wanted, end)

    def _lose(self, end: _End, reason: str) -> None:
        """Close a broken connection; who used it is placed anew, with the leaders as they are then."""
        if end.connection is not None:
            self._selector.unregister(end.connection)
        if isinstance(end, Fetcher):
            end.cluster.forget_leaders({lane.work.source.topic for lane in end.lanes.values()})
            end.connection.close()
            self._fetchers = {key: one for key, one in self._fetchers.items() if one is not end}
            for lane in tuple(end.lanes.values()):
                if lane.replica is not None:
                    self._to_leader(end, lane, reason.removeprefix(f"{end.connection.name}: "))
                else:
                    self._leave_unplaced(end.cluster, lane, reason)
        elif isinstance(end, Transactions):
            end.abandon(reason)
        else:
            end.cluster.forget_leaders({stream.partition.topic for stream in end.streams})
            end.abandon(reason)
            self._senders = {key: one for key, one in self._senders.items() if one is not end}
            self._unplaced += [(end.cluster, stream) for stream in end.streams if not stream.closed]

    def _release(self) -> None:
        """Keep idle connections for the next epoch, close the others."""
        for (cluster, node, role), fetcher in self._fetchers.items():
            if fetcher.asked_at is None:
                cluster.give_back(node, role, fetcher.connection)
            else:
                fetcher.connection.close()
        for (cluster, node, role), sender in self._senders.items():
            if sender.is_idle:
                cluster.give_back(node, role, sender.connection)
            else:
                sender.connection.close()
        for transactions in self._transactions.values():
            transactions.release()


def _fetch_role(flow: Flow) -> str:
    return f"fetch {flow}"


def _partition(one: _Unplaced) -> TopicPartition:
    return one.work.source if isinstance(one, Lane) else one.partition
