"""What sources answer to fetches: records, refusals, other replicas to read from, offsets that are gone.

Invariants:

(a) What a follower refuses, the leader decides (``client.rack``, KIP-392). One that lags answers "out of range", or
    with a diverging epoch, like a log that was truncated; a damaged batch may be whole on the leader. The leader is
    asked again each epoch which replica is the closest: a follower that has stopped following holds up the copy no
    longer than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from mirror.copier.connections import Connections
from mirror.copier.fetcher import Fetcher
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks, bounds
from mirror.copier.mirrored import Undecided
from mirror.kafka import codes
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import CorruptBatch, UnsupportedMagic
from mirror.kafka.problems import ConnectionFailed, KafkaProblem


class Fetching:
    """Asks every source broker for what its lanes want, and gives them what comes."""

    def __init__(self, connections: Connections, touched: Callable[[Lane], None]) -> None:
        """Ask over these ``connections``; ``touched`` is called of each lane that something became of."""
        self._connections = connections
        self._touched = touched
        # Who has asked the source for an offset that it does not have.
        self._outside: dict[ClusterLinks, list[Lane]] = {}

    def ask(self, now: float, deadline: float, *, has_room: Callable[[], bool]) -> None:
        """Ask each broker that has nothing to answer yet, while targets keep up and there is room for more."""
        for fetcher in list(self._connections.fetchers.values()):
            try:
                fetcher.check(now)
                if fetcher.may_ask(now) and has_room():
                    fetcher.ask(now, deadline - now)
            except ConnectionFailed as failure:
                self._connections.lose(fetcher, str(failure))
            else:
                self._connections.watch(fetcher)

    def _touch(self, fetcher: Fetcher, lane: Lane) -> None:
        """Something has come in for a lane: it is no longer as the broker and the state topic know it."""
        fetcher.touch(lane)
        self._touched(lane)

    def receive(self, fetcher: Fetcher) -> bool:
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
                self._connections.to_replica(fetcher, lane, part.preferred_replica)
                continue
            if part.diverging is not None and lane.replica is not None:
                # A follower that lags says the same of what it has not got yet.
                self._connections.to_leader(fetcher, lane, f"its log parts from what was read at {part.diverging.end}")
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
                at = fetcher.connection.received_at
                lane.take(frame, part, read_committed=fetcher.read_committed, received_at=at)
            except Undecided as problem:
                lane.pause(str(problem))
            except (UnsupportedMagic, CorruptBatch) as problem:
                if lane.replica is not None:
                    self._touched(lane)
                    self._connections.to_leader(fetcher, lane, str(problem))
                    continue
                lane.stop(f"{lane.work.source} on the source cannot be read further: {problem}")
            # Who got something is asked for last, here and in the broker's session: only the first in an answer gets a
            # batch over the size limit, and an answer that is full leaves the last without any.
            self._touch(fetcher, lane)
        if refused:
            self._refused(fetcher, refused)
        return True

    def _refused(self, fetcher: Fetcher, refused: list[tuple[Lane, int]]) -> None:
        fetcher.cluster.forget_leaders({lane.work.source.topic for lane, _ in refused})
        for lane, code in [(lane, code) for lane, code in refused if lane.replica is not None]:
            # It may be behind its leader, or ahead of it with what is removed: the leader says what is there.
            self._connections.to_leader(fetcher, lane, codes.name(code))
        refused = [(lane, code) for lane, code in refused if lane.work.source in fetcher.lanes]
        outside = [lane for lane, code in refused if code == codes.OFFSET_OUT_OF_RANGE]
        for lane, code in refused:
            if code != codes.OFFSET_OUT_OF_RANGE:
                fetcher.drop(lane)
                why = codes.name(code) + codes.hint(code, "Read on the topic")
                trouble = f"the source refuses to read {lane.work.source}: {why}"
                self._connections.leave(fetcher.cluster, lane, trouble)
        for lane in outside:
            fetcher.drop(lane)
        self._outside.setdefault(fetcher.cluster, []).extend(outside)

    def find_bounds(self) -> None:
        """Look, beside the loop, where the logs of those begin and end that were read outside of them."""
        for cluster in [cluster for cluster in self._outside if not self._connections.is_asking(cluster)]:
            lanes = self._outside.pop(cluster)
            sources = [lane.work.source for lane in lanes]
            self._connections.ask(cluster, partial(bounds, partitions=sources), partial(self._bounded, cluster, lanes))

    def _bounded(
        self, cluster: ClusterLinks, lanes: list[Lane], found: PartitionAnswers[tuple[int, int]] | KafkaProblem
    ) -> None:
        """Go on behind what the source has removed; where it never had such an offset, it is not what it was."""
        for lane in lanes:
            source = lane.work.source
            if isinstance(found, KafkaProblem) or source in found.problems:
                trouble = found if isinstance(found, KafkaProblem) else found.problems[source]
                self._connections.leave(cluster, lane, str(trouble))
                continue
            start, end = found[source]
            if lane.fetch_position < start:
                lane.skip_gap(start, int(time.time() * 1000))
            else:
                lane.look_again(
                    f"{source} on the source has the offsets {start} to {end} and does not know the position "
                    f"{lane.fetch_position}: it was truncated, or the topic was created anew"
                )
            self._touched(lane)
            self._connections.want(cluster, lane)
