"""The connections of the copy loop: which serves which lane and stream, and what becomes of those if it breaks.

One selector waits at all of them. Whatever takes time, such as opening one, is done beside the loop.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from mirror.copier.background import BackgroundCalls
from mirror.copier.epoch_channel import EpochChannelListener
from mirror.copier.fetcher import Fetcher
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.copier.sender import Sender
from mirror.copier.streams import Stream
from mirror.copier.transactions import Transactions
from mirror.copier.work import FlowWork
from mirror.kafka import wire
from mirror.kafka.channel import Channel
from mirror.kafka.connection import Connection
from mirror.kafka.problems import ConnectionFailed, KafkaProblem
from mirror.kafka.versions import FETCH, PRODUCE, TRANSACTIONS, Versions
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

T = TypeVar("T")

#: What uses a connection.
End: TypeAlias = Fetcher | Sender | Transactions
# What needs a connection to the leader of its partition: a lane to read over, a stream to write over.
_Unplaced: TypeAlias = Lane | Stream
# A connection by cluster, broker, and what it is for.
_Place: TypeAlias = tuple[ClusterLinks, int, str]


class Connections:
    """Gives each lane and each stream the connection to its leader; one that breaks concerns only its users."""

    def __init__(self, flows: Mapping[Flow, FlowWork], may_write: Callable[[], bool]) -> None:
        """Open nothing yet; nothing goes out to a target while ``may_write`` says no."""
        self.background = BackgroundCalls()
        self.fetchers: dict[_Place, Fetcher] = {}
        self.senders: dict[_Place, Sender] = {}
        self._flows = flows
        self._may_write = may_write
        self._unplaced: list[tuple[ClusterLinks, _Unplaced]] = []
        # Who waits for a connection that is being opened.
        self._waiting: dict[_Place, list[_Unplaced]] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.background, selectors.EVENT_READ, self.background)

    def wake_by(self, epoch_channel: EpochChannelListener) -> None:
        """Have :meth:`wait` return when the driver says something, too."""
        self._selector.register(epoch_channel, selectors.EVENT_READ, epoch_channel)

    # Placing: which connection serves which lane and stream.

    def want(self, cluster: ClusterLinks, one: _Unplaced) -> None:
        """Have a lane or a stream be placed with the next :meth:`place`."""
        self._unplaced.append((cluster, one))

    def leave(self, cluster: ClusterLinks, one: _Unplaced, trouble: str) -> None:
        """Look for a connection again later."""
        one.pause(trouble)
        self.want(cluster, one)

    def place(self, now: float, *, reads: bool) -> None:
        """Find connections for what has none, for lanes only if it ``reads`` still."""
        known: dict[ClusterLinks, list[_Unplaced]] = {}
        unknown: dict[ClusterLinks, list[_Unplaced]] = {}
        left: list[tuple[ClusterLinks, _Unplaced]] = []
        for cluster, one in self._unplaced:
            if isinstance(one, Lane) and not reads:
                continue
            is_known = cluster.known_leader(_partition(one)) is not None
            if now < one.backoff_until or (not is_known and self.is_asking(cluster)):
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
            self.ask(cluster, question, partial(self._led, cluster, ones))

    def is_asking(self, cluster: ClusterLinks) -> bool:
        """Whether a cluster is being asked something."""
        return self.background.is_under_way(cluster)

    def ask(self, cluster: ClusterLinks, ask: Callable[[Channel], T], then: Callable[[T | KafkaProblem], None]) -> None:
        """Ask a cluster something beside the loop; nothing else may be asked of it meanwhile."""
        self.background.begin(cluster, lambda: cluster.ask(ask), then)

    def _led(self, cluster: ClusterLinks, ones: list[_Unplaced], problem: KafkaProblem | None) -> None:
        """Give each to the connection to its leader, as far as that is known now."""
        for one in ones:
            node = cluster.known_leader(_partition(one))
            if node is None:
                trouble = str(problem or f"{cluster.alias}: {_partition(one)} has no leader")
                self.leave(cluster, one, trouble)
                continue
            if isinstance(one, Lane) and one.replica is not None:
                node = one.replica
            self._join((cluster, node, self._role(cluster, node, one)), one)

    def _role(self, cluster: ClusterLinks, node: int, one: _Unplaced) -> str:
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
        if place in self.fetchers or place in self.senders:
            self._add(place, one)
            return
        self._waiting.setdefault(place, []).append(one)
        cluster, node, role = place
        if self.background.is_under_way(place):
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
        self.background.begin(place, connect, then, partial(cluster.give_back, node, role))

    def _connected(self, place: _Place, connection: Connection | KafkaProblem) -> None:
        cluster, node, role = place
        waiting = self._waiting.pop(place)
        if not isinstance(connection, Connection):
            for one in waiting:
                if isinstance(one, Lane) and one.replica is not None:
                    one.replica = None
                    cluster.read_leader(one.work.source, str(connection))
                self.leave(cluster, one, str(connection))
            return
        first = waiting[0]
        if isinstance(first, Lane):
            work = self._flows[first.work.flow]
            limits, rack = work.fetch_limits, role.removeprefix(_fetch_role(work.flow)).strip()
            fetcher = Fetcher(cluster, connection, limits, read_committed=work.read_committed, rack=rack)
            self.fetchers[place] = fetcher
            self._selector.register(connection, selectors.EVENT_READ, fetcher)
        else:
            connection.discard_unsent()
            limit = cluster.largest_request(node)
            sender = Sender(cluster, connection, limit, first.transactional_id, self._may_write)
            self.senders[place] = sender
            self._selector.register(connection, selectors.EVENT_READ, sender)
        for one in waiting:
            self._add(place, one)

    def _add(self, place: _Place, one: _Unplaced) -> None:
        if isinstance(one, Stream):
            cluster, topic = place[0], one.partition.topic
            if not one.check_topic(cluster.known_topic_id(topic)):
                cluster.forget_leaders({topic})
                self.want(cluster, one)
                return
            self.senders[place].add(one)
            if one.is_idle:
                one.trouble = None
            return
        cluster, _, _ = place
        one.leader_epoch = cluster.known_leader_epoch(one.work.source)
        one.check_topic(cluster.known_topic_id(one.work.source.topic))
        self.fetchers[place].add(one)

    def to_replica(self, fetcher: Fetcher, lane: Lane, replica: int) -> None:
        """Read a lane from the follower that its leader named, until the epoch ends or the follower fails."""
        lane.replica = replica
        fetcher.drop(lane)
        self.want(fetcher.cluster, lane)

    def to_leader(self, fetcher: Fetcher, lane: Lane, reason: str) -> None:
        """Read a lane from its leader again, soon: what a follower refuses says nothing of the log."""
        fetcher.cluster.read_leader(lane.work.source, f"{fetcher.connection.name}: {reason}")
        lane.replica = None
        lane.backoff_until = time.monotonic() + lane.backoff.next_seconds()
        fetcher.drop(lane)
        self.want(fetcher.cluster, lane)

    def coordinate(self, transactions: Transactions) -> None:
        """Connect, beside the loop, to the broker that coordinates transactions."""
        transactions.is_connecting = True
        self.ask(transactions.cluster, transactions.find_coordinator, partial(self._coordinated, transactions))

    def _coordinated(self, transactions: Transactions, node: int | KafkaProblem) -> None:
        if not isinstance(node, int):
            transactions.take_connection(node)
            return

        def reached(connection: Connection | KafkaProblem) -> None:
            transactions.take_connection(connection, node)
            if isinstance(connection, Connection):
                self._selector.register(connection, selectors.EVENT_READ, transactions)

        self._connect((transactions.cluster, node, transactions.role), TRANSACTIONS, reached)

    # Waiting, and what breaks.

    def wait(self, seconds: float, receive: Callable[[End], None]) -> None:
        """Wait for something to come in, so long at most; ``receive`` is called of each connection that has it."""
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
                    receive(key.data)
            except (ConnectionFailed, wire.FetchFailed) as failure:
                self.lose(key.data, str(failure))
            else:
                self.watch(key.data)

    def _may_flush(self, end: End) -> bool:
        return isinstance(end, Fetcher) or self._may_write()

    def watch(self, end: End) -> None:
        """Wait for answers, and for room too if the socket did not take everything."""
        if end.connection is None:
            return
        is_waiting = end.connection.has_unsent and self._may_flush(end)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_waiting else 0)
        if self._selector.get_key(end.connection).events != wanted:
            self._selector.modify(end.connection, wanted, end)

    def lose(self, end: End, reason: str) -> None:
        """Close a broken connection; who used it is placed anew, with the leaders as they are then."""
        if end.connection is not None:
            self._selector.unregister(end.connection)
        if isinstance(end, Fetcher):
            end.cluster.forget_leaders({lane.work.source.topic for lane in end.lanes.values()})
            end.connection.close()
            self.fetchers = {key: one for key, one in self.fetchers.items() if one is not end}
            for lane in tuple(end.lanes.values()):
                if lane.replica is not None:
                    self.to_leader(end, lane, reason.removeprefix(f"{end.connection.name}: "))
                else:
                    self.leave(end.cluster, lane, reason)
        elif isinstance(end, Transactions):
            end.abandon(reason)
        else:
            end.cluster.forget_leaders({stream.partition.topic for stream in end.streams})
            end.abandon(reason)
            self.senders = {key: one for key, one in self.senders.items() if one is not end}
            self._unplaced += [(end.cluster, stream) for stream in end.streams if not stream.closed]

    def release(self) -> None:
        """Keep idle connections for the next epoch, close the others."""
        for (cluster, node, role), fetcher in self.fetchers.items():
            if fetcher.asked_at is None:
                cluster.give_back(node, role, fetcher.connection)
            else:
                fetcher.connection.close()
        for (cluster, node, role), sender in self.senders.items():
            if sender.is_idle:
                cluster.give_back(node, role, sender.connection)
            else:
                sender.connection.close()

    def close(self) -> None:
        """Wait for nothing any more that is done beside the loop."""
        self.background.close()
        self._selector.close()


def _fetch_role(flow: Flow) -> str:
    return f"fetch {flow}"


def _partition(one: _Unplaced) -> TopicPartition:
    return one.work.source if isinstance(one, Lane) else one.partition
