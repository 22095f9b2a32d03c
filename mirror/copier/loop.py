"""The copy loop of one task: fetch from every source broker, produce to every target broker, commit, until the epoch ends."""

from __future__ import annotations

import os
import selectors
import time
from collections import defaultdict
from collections.abc import Iterable

from mirror.copier.commits import FlowCommits
from mirror.copier.lane import Lane
from mirror.copier.links import Cluster
from mirror.copier.streams import Sender, Stream
from mirror.copier.work import FlowWork
from mirror.kafka import codes, wire
from mirror.kafka.batch import CorruptBatch, UnsupportedMagic
from mirror.kafka.channel import EARLIEST, LATEST, BrokerRefused, Connection, ConnectionFailed, LeaderUnknown
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

_LONG_POLL_MS = 500
_ANSWER_SECONDS = 40.0
_GRACE_SECONDS = 3.0
_REST_SECONDS = 0.2
_TICK_SECONDS = 0.1


class _Fetcher:
    """The fetch connection to one source broker and the lanes it feeds; at most one fetch is under way."""

    def __init__(self, cluster: Cluster, connection: Connection, read_committed: bool) -> None:
        self.cluster = cluster
        self.connection = connection
        self.read_committed = read_committed
        self.lanes: dict[TopicPartition, Lane] = {}
        self.asked_at: float | None = None


class CopyLoop:
    """Copies lanes until the epoch ends; a broker's failure rests the lanes that need it and no others."""

    def __init__(self, flows: Iterable[FlowWork], clusters: dict[tuple[Flow, str], Cluster]) -> None:
        """Prepare to copy the given flows; ``clusters`` has each flow's ``"source"`` and ``"target"``."""
        self._flows = {flow.flow: flow for flow in flows}
        self._clusters = clusters
        self._lanes: list[Lane] = []
        self._commits = {flow.flow: FlowCommits(flow) for flow in flows}
        self._fetchers: dict[tuple[Flow, int], _Fetcher] = {}
        self._senders: dict[tuple[str, int], Sender] = {}
        self._sync_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._unplaced_lanes: list[Lane] = []
        self._unplaced_streams: list[tuple[Cluster, Stream]] = []
        self._parent = os.getppid()

    def run(self, lanes: list[Lane], seconds: float, commit_seconds: float) -> None:
        """Copy ``lanes`` for ``seconds``; return when all that was fetched is acknowledged, or soon after."""
        self._lanes = lanes
        self._unplaced_lanes = list(lanes)
        for lane in lanes:
            self._unplaced_streams.append((self._target(lane), lane.stream))
        deadline = time.monotonic() + seconds
        next_commit = time.monotonic() + commit_seconds
        try:
            while True:
                now = time.monotonic()
                over = now >= deadline
                if over and self._is_drained() and not self._commit_rest():
                    break
                if now > deadline + _GRACE_SECONDS or os.getppid() != self._parent:
                    # An orphan must not go on writing beside its successor.
                    break
                self._place(now)
                if not over:
                    self._fetch(now, deadline)
                if now >= next_commit:
                    self._commit()
                    next_commit = now + commit_seconds
                if now >= self._sync_at:
                    self._emit_syncs()
                    self._sync_at = now + _TICK_SECONDS
                self._send(now)
                self._wait(min(_TICK_SECONDS, max(0.0, (next_commit if over else min(deadline, next_commit)) - now)))
        finally:
            self._release()

    def troubles(self) -> dict[Flow, str]:
        """Say for which flows something could not be written down, and why."""
        return {flow: commits.trouble for flow, commits in self._commits.items() if commits.trouble}

    def _source(self, lane: Lane) -> Cluster:
        return self._clusters[lane.work.flow, "source"]

    def _target(self, lane: Lane) -> Cluster:
        return self._clusters[lane.work.flow, "target"]

    def _is_drained(self) -> bool:
        return all(fetcher.asked_at is None for fetcher in self._fetchers.values()) and all(
            lane.stream.is_idle or lane.stream.closed for lane in self._lanes
        )

    # Placing: which connection serves which lane and stream.

    def _place(self, now: float) -> None:
        self._unplaced_lanes = [lane for lane in self._unplaced_lanes if not self._place_lane(lane, now)]
        for commits in self._commits.values():
            for side, stream in commits.new_streams():
                self._unplaced_streams.append((self._clusters[commits.work.flow, side], stream))
        self._unplaced_streams = [
            (cluster, stream) for cluster, stream in self._unplaced_streams if not self._place_stream(cluster, stream)
        ]

    def _place_lane(self, lane: Lane, now: float) -> bool:
        cluster = self._source(lane)
        if now < lane.rest_until:
            return False
        try:
            node = cluster.channel().leader(lane.work.source)
            key = (lane.work.flow, node)
            if key not in self._fetchers:
                read_committed = self._flows[lane.work.flow].read_committed
                fetcher = _Fetcher(cluster, cluster.lease(node, _fetch_role(lane.work.flow)), read_committed)
                self._selector.register(fetcher.connection, selectors.EVENT_READ, fetcher)
                self._fetchers[key] = fetcher
        except (LeaderUnknown, BrokerRefused) as problem:
            self._rest(lane, now, str(problem))
            return False
        except ConnectionFailed as problem:
            cluster.failed(problem)
            self._rest(lane, now, str(problem))
            return False
        self._fetchers[key].lanes[lane.work.source] = lane
        return True

    def _place_stream(self, cluster: Cluster, stream: Stream) -> bool:
        try:
            node = cluster.channel().leader(stream.partition)
            key = (cluster.alias, node)
            if key not in self._senders:
                sender = Sender(cluster, cluster.lease(node, "produce"))
                self._selector.register(sender.connection, selectors.EVENT_READ, sender)
                self._senders[key] = sender
        except (LeaderUnknown, BrokerRefused):
            return False
        except ConnectionFailed as problem:
            cluster.failed(problem)
            return False
        self._senders[key].streams.append(stream)
        return True

    # Fetching.

    def _fetch(self, now: float, deadline: float) -> None:
        for fetcher in list(self._fetchers.values()):
            if fetcher.asked_at is not None:
                if now - fetcher.asked_at > _ANSWER_SECONDS:
                    self._lose_fetcher(fetcher, f"{fetcher.connection.name}: no answer for {_ANSWER_SECONDS:.0f} s")
                continue
            hungry = [lane for lane in fetcher.lanes.values() if lane.wants_data(now)]
            if not hungry:
                continue
            everybody = len(hungry) == len(fetcher.lanes)
            wait_ms = min(_LONG_POLL_MS if everybody else 20, max(0, int((deadline - now) * 1000)))
            request = wire.fetch_request(
                fetcher.connection.next_correlation(),
                {lane.work.source: lane.fetch_position for lane in hungry},
                wait_ms=wait_ms,
                read_committed=fetcher.read_committed,
            )
            try:
                fetcher.connection.send([request])
                fetcher.asked_at = now
            except ConnectionFailed as failure:
                self._lose_fetcher(fetcher, str(failure))

    def _fetched(self, fetcher: _Fetcher) -> None:
        frame = fetcher.connection.receive()
        fetcher.asked_at = None
        for part in wire.parse_fetch(frame):
            lane = fetcher.lanes[part.partition]
            if part.error:
                self._fetch_refused(fetcher, lane, part.error)
                continue
            lane.trouble = None
            try:
                lane.take(frame, part, read_committed=fetcher.read_committed)
            except (UnsupportedMagic, CorruptBatch) as problem:
                lane.stop(str(problem))

    def _fetch_refused(self, fetcher: _Fetcher, lane: Lane, code: int) -> None:
        now = time.monotonic()
        if code != codes.OFFSET_OUT_OF_RANGE:
            self._rest(lane, now, f"the source refuses to read {lane.work.source}: {codes.name(code)}")
            self._unplace(fetcher, lane)
            fetcher.cluster.channel().refresh([lane.work.source.topic])
            return
        channel = fetcher.cluster.channel()
        start = channel.offsets([lane.work.source], EARLIEST)[lane.work.source]
        end = channel.offsets([lane.work.source], LATEST)[lane.work.source]
        if lane.fetch_position < start:
            lane.skip_gap(start, int(time.time() * 1000))
        elif lane.fetch_position > end:
            lane.stop(
                f"the source's log ends at {end}, before the position {lane.fetch_position} already copied: "
                "it was truncated or the topic was created anew"
            )

    def _rest(self, lane: Lane, now: float, trouble: str) -> None:
        lane.trouble = trouble
        lane.rest_until = now + _REST_SECONDS

    def _unplace(self, fetcher: _Fetcher, lane: Lane) -> None:
        fetcher.lanes.pop(lane.work.source)
        self._unplaced_lanes.append(lane)

    def _lose_fetcher(self, fetcher: _Fetcher, reason: str) -> None:
        self._selector.unregister(fetcher.connection)
        fetcher.connection.close()
        self._fetchers = {key: one for key, one in self._fetchers.items() if one is not fetcher}
        fetcher.cluster.forget_leaders()
        for lane in fetcher.lanes.values():
            self._rest(lane, time.monotonic(), reason)
            self._unplaced_lanes.append(lane)

    # Producing.

    def _send(self, now: float) -> None:
        for key, sender in list(self._senders.items()):
            try:
                sender.send(now)
            except ConnectionFailed as failure:
                self._lose_sender(key, sender, failure)

    def _lose_sender(self, key: tuple[str, int], sender: Sender, failure: ConnectionFailed) -> None:
        self._selector.unregister(sender.connection)
        sender.abandon()
        del self._senders[key]
        sender.cluster.forget_leaders()
        self._unplaced_streams += [(sender.cluster, stream) for stream in sender.streams if not stream.closed]
        lost = set(map(id, sender.streams))
        for lane in self._lanes:
            if id(lane.stream) in lost:
                lane.trouble = str(failure)

    # Committing.

    def _commit(self) -> None:
        by_flow: dict[Flow, list[Lane]] = defaultdict(list)
        for lane in self._lanes:
            if lane.is_dirty:
                by_flow[lane.work.flow].append(lane)
        for flow, lanes in by_flow.items():
            self._commits[flow].commit(lanes)

    def _commit_rest(self) -> bool:
        """Commit what is left; return whether anything is still under way."""
        self._commit()
        self._emit_syncs()
        return any(not commits.is_idle for commits in self._commits.values())

    def _emit_syncs(self) -> None:
        for commits in self._commits.values():
            commits.emit_syncs(self._lanes)

    # Waiting.

    def _wait(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            self._receive(key.data)

    def _receive(self, one: _Fetcher | Sender) -> None:
        try:
            while True:
                if isinstance(one, _Fetcher):
                    self._fetched(one)
                else:
                    one.receive()
                if not one.connection.has_buffered_data:
                    return
        except (ConnectionFailed, BrokerRefused, LeaderUnknown, wire.FetchFailed) as failure:
            if isinstance(one, _Fetcher):
                self._lose_fetcher(one, str(failure))
            else:
                key = next(key for key, sender in self._senders.items() if sender is one)
                self._lose_sender(key, one, ConnectionFailed(str(failure)))

    def _release(self) -> None:
        """Keep idle connections for the next epoch, close the others."""
        for (flow, node), fetcher in self._fetchers.items():
            if fetcher.asked_at is None:
                fetcher.cluster.give_back(node, _fetch_role(flow), fetcher.connection)
            else:
                fetcher.connection.close()
        for (_, node), sender in self._senders.items():
            if sender.is_idle:
                sender.cluster.give_back(node, "produce", sender.connection)
            else:
                sender.connection.close()
        self._selector.close()


def _fetch_role(flow: Flow) -> str:
    """Each flow fetches over connections of its own: two flows may read the same partition from different positions."""
    return f"fetch {flow}"
