"""The copy loop of one task: fetch from every source broker, produce to every target broker, commit, until it is time.

One thread, one selector; nothing in it waits for one broker while others could be served.
"""

from __future__ import annotations

import math
import os
import selectors
import time
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mirror.copier.bell import BellListener, Heard
from mirror.copier.commits import FlowCommits
from mirror.copier.fetcher import Fetcher
from mirror.copier.lane import FIRST_REST_SECONDS, LONGEST_REST_SECONDS, Lane
from mirror.copier.links import Cluster
from mirror.copier.mirrored import Undecided
from mirror.copier.rests import Rest
from mirror.copier.streams import REQUEST_TIMEOUT_MS, REQUESTS_IN_FLIGHT, Sender, Stream
from mirror.copier.transactions import Transactions
from mirror.copier.work import FlowWork
from mirror.kafka import codes, wire
from mirror.kafka.batch import CorruptBatch, UnsupportedMagic
from mirror.kafka.channel import EARLIEST, LATEST, ConnectionFailed, LeaderUnknown
from mirror.kafka.versions import FETCH, PRODUCE
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

# How long an epoch may go on after its end for answers from the target: as long as it takes when every request in
# flight waits for replicas in vain. One that is not waited for may be carried out when nobody expects it any more.
GRACE_SECONDS = REQUESTS_IN_FLIGHT * REQUEST_TIMEOUT_MS / 1000 + 1.0
# How long into that time what may or may not have arrived is sent again.
_RESEND_SECONDS = 2.0

# How long an epoch lasts in which something is wrong: it is seen in the status, and tried anew, after that.
TROUBLED_SECONDS = 2.0

_TICK_SECONDS = 0.1
# More than this in all waiting for targets, and no source is asked for more.
_BACKLOG_BYTES = 128 << 20


_End: TypeAlias = Fetcher | Sender | Transactions


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
        # By flow, broker, and the rack it is told of: none where the leader is to be read and nobody else.
        self._fetchers: dict[tuple[Flow, int, str], Fetcher] = {}
        self._senders: dict[tuple[Cluster, int, str | None], Sender] = {}
        self._sync_at = 0.0
        self._place_streams_at = 0.0
        self._stream_rest = Rest(FIRST_REST_SECONDS, LONGEST_REST_SECONDS)
        self._selector = selectors.DefaultSelector()
        self._unplaced_lanes: list[Lane] = []
        self._unplaced_streams: list[tuple[Cluster, Stream]] = []
        self._parent = os.getppid()

    def run(self, lanes: list[Lane], seconds: float, commit_seconds: float, bell: BellListener | None = None) -> None:
        """Copy ``lanes`` for ``seconds``; return when what was sent is answered and recorded, or some seconds later.

        The epoch ends sooner when ``bell`` rings, when a partition has to be looked up anew, and when something has
        been wrong for some seconds: the driver says what is wrong only after it.
        """
        for lane in lanes:
            self._lanes[lane.work.flow].append(lane)
            self._active[lane.work.flow][lane] = None
            self._unplaced_lanes.append(lane)
            self._unplaced_streams.append((self._clusters[lane.work.flow, "target"], lane.stream))
        if bell is not None:
            self._selector.register(bell, selectors.EVENT_READ, bell)
        over = False
        began = time.monotonic()
        deadline = began + seconds
        next_commit = began + commit_seconds
        try:
            while True:
                now = time.monotonic()
                heard = bell.heard() if bell is not None else Heard.NOTHING
                if not over and (now >= deadline or heard is not Heard.NOTHING):
                    over, deadline = True, now
                    self._wind_down(now)
                if now >= deadline + _RESEND_SECONDS:
                    self._give_up()
                if over and self._is_drained() and not self._commit_rest():
                    break
                if now > deadline + GRACE_SECONDS or heard is Heard.SILENCE or os.getppid() != self._parent:
                    # An orphan must not go on writing beside its successor.
                    break
                self._advance(now)
                self._place(now, over=over)
                # What has come in goes out before more is asked for: readers of the copy wait for it.
                self._send(now)
                if not over:
                    self._fetch(now, deadline)
                if now >= next_commit:
                    self._commit()
                    next_commit = now + commit_seconds
                    if not over:
                        deadline = min(deadline, began + self._longest_seconds())
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

    def troubles(self) -> dict[Flow, str]:
        """Say for which flows something could not be written down or committed, and why."""
        said = {flow: commits.trouble for flow, commits in self._commits.items() if commits.trouble}
        return said | {flow: each.trouble for flow, each in self._transactions.items() if each.trouble}

    def _longest_seconds(self) -> float:
        """Return how long the epoch should be, as things stand."""
        lanes = [lane for lanes in self._lanes.values() for lane in lanes]
        if any(lane.is_lost for lane in lanes):
            return 0.0
        if self.troubles() or any(lane.is_troubled for lane in lanes):
            return TROUBLED_SECONDS
        return math.inf

    def _wind_down(self, now: float) -> None:
        """Send what can go out at once and drop the rest: the next epoch reads it again."""
        self._send(now)
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

    def _is_drained(self) -> bool:
        return all(fetcher.asked_at is None for fetcher in self._fetchers.values()) and all(
            lane.stream.is_quiet for lanes in self._active.values() for lane in lanes
        )

    # Placing: which connection serves which lane and stream.

    def _place(self, now: float, *, over: bool) -> None:
        for commits in self._commits.values():
            for side, stream in commits.new_streams():
                self._unplaced_streams.append((self._clusters[commits.work.flow, side], stream))
        if self._unplaced_streams and now >= self._place_streams_at:
            self._place_streams()
            if self._unplaced_streams:
                self._place_streams_at = now + self._stream_rest.next_seconds()
            else:
                self._place_streams_at = 0.0
                self._stream_rest.end()
        if self._unplaced_lanes and not over:
            self._place_lanes(now)

    def _place_lanes(self, now: float) -> None:
        ready = [lane for lane in self._unplaced_lanes if now >= lane.rest_until]
        self._unplaced_lanes = [lane for lane in self._unplaced_lanes if now < lane.rest_until]
        by_cluster: dict[Cluster, list[Lane]] = {}
        for lane in ready:
            by_cluster.setdefault(self._clusters[lane.work.flow, "source"], []).append(lane)
        for cluster, lanes in by_cluster.items():
            problem = self._learn(cluster, [lane.work.source for lane in lanes])
            for lane in lanes:
                trouble = problem or self._place_lane(cluster, lane)
                if trouble:
                    self._rest(lane, now, trouble)
                    self._unplaced_lanes.append(lane)

    def _place_lane(self, cluster: Cluster, lane: Lane) -> str | None:
        """Give the lane to the fetcher of its leader, or of the follower that it named; return why not, if not."""
        source = lane.work.source
        try:
            node = cluster.ask(lambda channel: channel.leader(source))
            lane.leader_epoch = cluster.ask(lambda channel: channel.leader_epoch(source))
            lane.check_topic(cluster.ask(lambda channel: channel.topic_id(source.topic)))
            if lane.replica is not None:
                try:
                    self._fetcher(cluster, lane, lane.replica).add(lane)
                except ConnectionFailed as problem:
                    lane.replica = None
                    cluster.read_leader(source, str(problem))
                else:
                    return None
            self._fetcher(cluster, lane, node).add(lane)
        except (LeaderUnknown, ConnectionFailed) as problem:
            return str(problem)
        return None

    def _fetcher(self, cluster: Cluster, lane: Lane, node: int) -> Fetcher:
        """Return the fetcher of a broker for a lane.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached.
        """
        flow = lane.work.flow
        work = self._flows[flow]
        rack = "" if cluster.leader_alone(lane.work.source) else work.fetch_limits.rack
        if (flow, node, rack) not in self._fetchers:
            connection = cluster.lease(node, _fetch_role(flow, rack), (FETCH,))
            limits, read_committed = work.fetch_limits, work.read_committed
            fetcher = Fetcher(cluster, connection, limits, read_committed=read_committed, rack=rack)
            self._selector.register(connection, selectors.EVENT_READ, fetcher)
            self._fetchers[flow, node, rack] = fetcher
        return self._fetchers[flow, node, rack]

    def _place_streams(self) -> None:
        unplaced, self._unplaced_streams = self._unplaced_streams, []
        by_cluster: dict[Cluster, list[Stream]] = {}
        for cluster, stream in unplaced:
            by_cluster.setdefault(cluster, []).append(stream)
        for cluster, streams in by_cluster.items():
            problem = self._learn(cluster, [stream.partition for stream in streams])
            for stream in streams:
                trouble = problem or self._place_stream(cluster, stream)
                if trouble:
                    stream.trouble = trouble
                    self._unplaced_streams.append((cluster, stream))

    def _place_stream(self, cluster: Cluster, stream: Stream) -> str | None:
        """Give the stream to the sender of its leader; return why not, if not."""
        try:
            node = cluster.ask(lambda channel: channel.leader(stream.partition))
            place = cluster, node, stream.transactional_id
            if place not in self._senders:
                largest = cluster.largest_request(node)
                connection = cluster.lease(node, _produce_role(stream.transactional_id), (PRODUCE,))
                connection.discard_unsent()
                sender = Sender(cluster, connection, largest, stream.transactional_id)
                self._selector.register(sender.connection, selectors.EVENT_READ, sender)
                self._senders[place] = sender
        except (LeaderUnknown, ConnectionFailed) as problem:
            return str(problem)
        self._senders[place].add(stream)
        if stream.is_idle:
            stream.trouble = None
        return None

    @staticmethod
    def _learn(cluster: Cluster, partitions: list[TopicPartition]) -> str | None:
        """Find out with one request who leads ``partitions``; return why not, if not."""
        try:
            cluster.ask(lambda channel: channel.learn_leaders(partitions))
        except ConnectionFailed as problem:
            return str(problem)
        return None

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
        self._active[lane.work.flow][lane] = None

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
            lane.rest.end()
            try:
                heard_at = fetcher.connection.heard_at
                lane.take(frame, part, read_committed=fetcher.read_committed, received_at=heard_at)
            except Undecided as problem:
                self._rest(lane, time.monotonic(), str(problem))
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
        now = time.monotonic()
        fetcher.cluster.forget_leaders({lane.work.source.topic for lane, _ in refused})
        for lane, code in [(lane, code) for lane, code in refused if lane.replica is not None]:
            # It may be behind its leader, or ahead of it with what is removed: the leader says what is there.
            self._to_leader(fetcher, lane, codes.name(code))
        refused = [(lane, code) for lane, code in refused if lane.work.source in fetcher.lanes]
        outside = [lane for lane, code in refused if code == codes.OFFSET_OUT_OF_RANGE]
        for lane, code in refused:
            if code != codes.OFFSET_OUT_OF_RANGE:
                self._rest(lane, now, f"the source refuses to read {lane.work.source}: {codes.name(code)}")
                fetcher.drop(lane)
                self._unplaced_lanes.append(lane)
        if outside:
            self._find_place(fetcher.cluster, outside)
            for lane in outside:
                self._touch(fetcher, lane)

    def _find_place(self, cluster: Cluster, outside: list[Lane]) -> None:
        """Go on behind what the source has removed; where it never had such an offset, it is not what it was."""
        sources = [lane.work.source for lane in outside]
        starts, problems = cluster.ask(lambda channel: channel.find_offsets(sources, EARLIEST))
        ends, more_problems = cluster.ask(lambda channel: channel.find_offsets(starts, LATEST))
        problems |= more_problems
        for lane in outside:
            source = lane.work.source
            if source in problems:
                self._rest(lane, time.monotonic(), str(problems[source]))
            elif lane.fetch_position < starts[source]:
                lane.skip_gap(starts[source], int(time.time() * 1000))
            else:
                lane.look_again(
                    f"{source} on the source has the offsets {starts[source]} to {ends[source]} and does not know the "
                    f"position {lane.fetch_position}: it was truncated, or the topic was created anew"
                )

    def _move(self, fetcher: Fetcher, lane: Lane, replica: int) -> None:
        """Read a lane from the follower that its leader named, until the epoch ends or the follower fails."""
        lane.replica = replica
        fetcher.drop(lane)
        self._unplaced_lanes.append(lane)

    def _to_leader(self, fetcher: Fetcher, lane: Lane, reason: str) -> None:
        """Read a lane from its leader again, soon: what a follower refuses says nothing of the log."""
        fetcher.cluster.read_leader(lane.work.source, f"{fetcher.connection.name}: {reason}")
        lane.replica = None
        lane.rest_until = time.monotonic() + lane.rest.next_seconds()
        fetcher.drop(lane)
        self._unplaced_lanes.append(lane)

    def _rest(self, lane: Lane, now: float, trouble: str) -> None:
        lane.trouble = trouble
        lane.rest_until = now + lane.rest.next_seconds()

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
            for lane in [lane for lane in lanes if lane.is_at_rest]:
                del lanes[lane]
            dirty = [lane for lane in lanes if lane.is_dirty]
            if dirty and flow in self._transactions:
                self._transactions[flow].call()
            elif dirty:
                self._commits[flow].commit(dirty)

    def _commit_rest(self) -> bool:
        """Commit what is left; return whether anything is still under way."""
        self._commit()
        self._emit_syncs()
        return any(not (commits.is_over and commits.is_quiet) for commits in self._commits.values()) or any(
            not transactions.is_over for transactions in self._transactions.values()
        )

    def _park(self, *, over: bool) -> bool:
        """Write the letters there are, before the epoch is over; return whether a lane waits for a commit."""
        held = [(flow, lane) for flow, lanes in self._active.items() for lane in lanes if lane.is_held]
        for flow, lane in () if over else held:
            self._commits[flow].park(lane)
        return any(lane.awaits_commit for _, lane in held)

    def _advance(self, now: float) -> None:
        """Move the transactions on."""
        for transactions in self._transactions.values():
            transactions.advance(now)
            if transactions.connect(now) and transactions.connection is not None:
                self._selector.register(transactions.connection, selectors.EVENT_READ, transactions)
            try:
                transactions.ask(now)
            except ConnectionFailed as failure:
                self._lose(transactions, str(failure))
            else:
                self._watch(transactions)

    def _emit_syncs(self) -> None:
        for flow, commits in self._commits.items():
            commits.emit_syncs(self._active[flow])

    # Waiting, and what comes in.

    def _wait(self, seconds: float) -> None:
        for key, events in self._selector.select(seconds):
            if isinstance(key.data, BellListener):
                continue
            try:
                if events & selectors.EVENT_WRITE:
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
                    self._unplaced_streams += [(end.cluster, stream) for stream in stale]
                    end.cluster.forget_leaders({stream.partition.topic for stream in stale})
            if end.connection is None or not end.connection.has_buffered_data:
                return

    def _watch(self, end: _End) -> None:
        """Wait for answers, and for room too if the socket did not take everything."""
        if end.connection is None:
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if end.connection.has_unsent else 0)
        if self._selector.get_key(end.connection).events != wanted:
            self._selector.modify(end.connection, wanted, end)

    def _lose(self, end: _End, reason: str) -> None:
        """Close a broken connection; who used it is placed anew, with the leaders as they are then."""
        if end.connection is not None:
            self._selector.unregister(end.connection)
        end.cluster.forget_leaders()
        if isinstance(end, Fetcher):
            end.connection.close()
            self._fetchers = {key: one for key, one in self._fetchers.items() if one is not end}
            for lane in tuple(end.lanes.values()):
                if lane.replica is not None:
                    self._to_leader(end, lane, reason.removeprefix(f"{end.connection.name}: "))
                    continue
                self._rest(lane, time.monotonic(), reason)
                self._unplaced_lanes.append(lane)
        elif isinstance(end, Transactions):
            end.abandon(reason)
        else:
            end.abandon(reason)
            self._senders = {key: one for key, one in self._senders.items() if one is not end}
            self._unplaced_streams += [(end.cluster, stream) for stream in end.streams if not stream.closed]

    def _release(self) -> None:
        """Keep idle connections for the next epoch, close the others."""
        for (flow, node, rack), fetcher in self._fetchers.items():
            if fetcher.asked_at is None:
                fetcher.cluster.give_back(node, _fetch_role(flow, rack), fetcher.connection)
            else:
                fetcher.connection.close()
        for (cluster, node, transactional_id), sender in self._senders.items():
            if sender.is_idle:
                cluster.give_back(node, _produce_role(transactional_id), sender.connection)
            else:
                sender.connection.close()
        for transactions in self._transactions.values():
            transactions.release()
        self._selector.close()


def _fetch_role(flow: Flow, rack: str) -> str:
    """Each flow fetches over connections of its own: two flows may read the same partition from different positions.

    A fetch names the rack for all its partitions, so that those that are read from leaders alone have others.
    """
    return f"fetch {flow} {rack}"


def _produce_role(transactional_id: str | None) -> str:
    """A request carries batches of one transactional id, or of none: each has connections of its own."""
    return "produce" if transactional_id is None else f"produce {transactional_id}"
