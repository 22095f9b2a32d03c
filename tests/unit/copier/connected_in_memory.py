"""What connects the product to clusters in memory: as much of kafka-python as a channel uses."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import kafka.errors

from mirror.kafka.channel import Channel
from mirror.kafka.problems import ConnectionFailed
from tests.unit.copier.clusters_in_memory import MemoryCluster, Wire


class _Library:
    """As much of kafka-python as a channel uses, of one cluster."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._wires: list[Wire] = []
        self.cluster = SimpleNamespace(update_metadata=lambda _: None)

    def run(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        steps = begin()
        try:
            steps.send(None)
        except StopIteration as result:
            return result.value
        raise AssertionError("it waits for something that is not in memory")

    async def send(self, request: Any, node_id: int | None) -> Any:
        return self._cluster.call(request, node_id)

    def get_connection(self, node: int) -> _Reached:
        self._cluster.reach(node)
        self._cluster.world.wait(self._cluster.reaching_seconds)
        self._wires.append(Wire(self._cluster, node))
        return _Reached(self._wires[-1])

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        self._wires.clear()


class _Reached:
    """A connection of the library's, whose socket is taken."""

    def __init__(self, wire: Wire) -> None:
        self.transport = SimpleNamespace(pause_reading=lambda: None, _sock=wire)
        self._reauth = SimpleNamespace(session_lifetime_ms=0)

    def __await__(self) -> Iterator[Any]:
        return iter(())


def connected_with(clusters: Mapping[str, MemoryCluster]) -> Callable[[Channel], tuple[_Library, _Library]]:
    """Return what connects a channel to the cluster of its alias."""

    def bootstrap(channel: Channel) -> tuple[_Library, _Library]:
        cluster = clusters[channel.alias]
        try:
            cluster.world.wait(cluster.reaching_seconds)
            cluster.reach(None)
        except kafka.errors.KafkaError as error:
            raise ConnectionFailed(f"{channel.alias}: {error}", channel.alias) from error
        library = _Library(cluster)
        return library, library

    return bootstrap
