"""Has a copy caught up? Asked of the logs themselves, so that it holds for whoever copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.log import LogReader, decoded
from mirror.kafka.problems import KafkaProblem
from mirror.model.ledger import RecordId, record_id
from mirror.model.partition import TopicPartition
from mirror.model.senders import was_sent_to
from mirror.proof.delivery import Place, Route

# Copies that come late may bury the last record that was sent to a cluster that many copy to.
_LOOK_BACK = 4_000
_NEWEST = 20
# Six seconds and a half, as `await_copies` looks.
_PATIENT_LOOKS = 10


@dataclass(slots=True)
class TailWatch:
    """Compares the ends of copies with the ends of what they copy, look by look.

    A partition has caught up when its copy holds the newest record that was sent to the source. Where that record was
    left out (as one that is too large may be) it has once nothing has come for some looks and it holds a record near
    it. Where only what is committed is copied, it has not while a transaction is open on the source: what comes behind
    it is not copied yet.
    """

    clusters: Mapping[str, ClusterSettings]
    routes: Sequence[Route]
    partitions: Mapping[Place, int]
    read_committed: bool = False
    _ends: dict[tuple[Place, int], tuple[int, int]] = field(default_factory=dict)

    def behind(self) -> list[str]:
        """Return, for people, the copies that have not caught up, and clusters that do not answer."""
        with ExitStack() as stack:
            channels: dict[str, Channel] = {}
            for alias in {place.cluster for route in self.routes for place in (route.sent, route.kept)}:
                channel = Channel(alias, self.clusters[alias].client, bootstrap_ms=2_000)
                channels[alias] = stack.enter_context(closing(channel))
            return [
                problem
                for route in self.routes
                for number in range(self.partitions[route.sent])
                if (problem := self._problem(route, number, channels)) is not None
            ]

    def _problem(self, route: Route, number: int, channels: Mapping[str, Channel]) -> str | None:
        where = f"{route.kept.cluster} {route.kept.topic}-{number}"
        try:
            sent_end, seen, tail = self._tail(route.sent, number, channels)
            end, _, copied = self._tail(route.kept, number, channels)
        except KafkaProblem as away:
            return f"{where}: {away}"
        if self.read_committed and seen < sent_end:
            return f"{where}: a transaction is open on {route.sent.cluster} from offset {seen} on"
        newest = [record for record in tail if was_sent_to(route.sent.cluster, record)]
        there = set(copied)
        if not newest or newest[-1] in there:
            return None
        before, looks = self._ends.get((route.kept, number), (-1, 0))
        looks = looks + 1 if before == end else 0
        self._ends[route.kept, number] = (end, looks)
        if looks >= _PATIENT_LOOKS and not there.isdisjoint(newest[-_NEWEST:]):
            return None
        return f"{where}: {newest[-1].producer}:{newest[-1].sequence} is not there"

    def _tail(self, place: Place, number: int, channels: Mapping[str, Channel]) -> tuple[int, int, list[RecordId]]:
        """Return the end of a log, up to where it could be read, and the ids of its last records, in order."""
        channel, partition = channels[place.cluster], TopicPartition(place.topic, number)
        start = channel.offsets([partition], EARLIEST)[partition]
        end = channel.offsets([partition], LATEST)[partition]
        reader = LogReader(channel, partition, max(start, end - _LOOK_BACK))
        found = []
        # An open transaction holds the reader up before the end: what can be read is looked at, now.
        while reader.position < end:
            before = reader.position
            for content, _ in reader.fetch(wait_ms=0, read_committed=self.read_committed):
                found += [
                    identity
                    for record in decoded(channel, partition, content)
                    if (identity := record_id(record.headers))
                ]
            if reader.position == before:
                break
        return end, reader.position, found
