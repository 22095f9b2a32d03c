"""Kafka's own ``RemoteClusterUtils``, called over py4j: a Java without a compiler will do."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]

from mirror.client import GroupPosition, PositionsByPartition, TopicPartition
from mirror.lab import runtime as kafka_runtime

_PACKAGE = "org.apache.kafka.connect.mirror"


class JavaRemoteClusterUtils:
    """A Java process with Kafka's jars; its answers as Python's values. To be used as a context manager."""

    def __init__(self) -> None:
        runtime = kafka_runtime.prepare()
        (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        # The command line of the brokers, but for what is run and how py4j wants to be started.
        command = runtime.command("", [], heap_megabytes=256, temporary_files=Path(tempfile.gettempdir()))
        options = [option for option in command[1:] if option.startswith("-")]
        port, token, self._process = launch_gateway(
            jarpath=str(jar),
            classpath=f"{runtime.jars}/*",
            javaopts=[option for option in options if option != "-cp"],
            java_path=str(runtime.java.path),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            redirect_stdout=subprocess.DEVNULL,
            redirect_stderr=subprocess.DEVNULL,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        self._utils = getattr(self._gateway.jvm, _PACKAGE).RemoteClusterUtils

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the Java process."""
        self._gateway.shutdown()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def replication_hops(self, properties: Mapping[str, str], upstream: str) -> int:
        """Ask what the method of that name asks; -1 for no way."""
        return int(self._utils.replicationHops(dict(properties), upstream))

    def heartbeat_topics(self, properties: Mapping[str, str]) -> set[str]:
        """Ask what the method of that name asks."""
        return set(self._utils.heartbeatTopics(dict(properties)))

    def checkpoint_topics(self, properties: Mapping[str, str]) -> set[str]:
        """Ask what the method of that name asks."""
        return set(self._utils.checkpointTopics(dict(properties)))

    def upstream_clusters(self, properties: Mapping[str, str]) -> set[str]:
        """Ask what the method of that name asks."""
        return set(self._utils.upstreamClusters(dict(properties)))

    def remote_topics(self, properties: Mapping[str, str], source: str | None = None) -> set[str]:
        """Ask Java's ``MirrorClient``, which alone has this."""
        client = getattr(self._gateway.jvm, _PACKAGE).MirrorClient(dict(properties))
        try:
            return set(client.remoteTopics() if source is None else client.remoteTopics(source))
        finally:
            client.close()

    def translate_offsets(self, properties: Mapping[str, str], remote_alias: str, group: str) -> PositionsByPartition:
        """Ask what the method of that name asks of one group."""
        return _positions(self._utils.translateOffsets(dict(properties), remote_alias, group, self._patience()))

    def translate_offsets_of_groups(
        self, properties: Mapping[str, str], remote_alias: str, pattern: str
    ) -> dict[str, PositionsByPartition]:
        """Ask what the method of that name asks of all groups that match."""
        compiled = self._gateway.jvm.java.util.regex.Pattern.compile(pattern)
        found = self._utils.translateOffsets(dict(properties), remote_alias, compiled, self._patience())
        return {group: _positions(found[group]) for group in found}

    def _patience(self) -> Any:
        return self._gateway.jvm.java.time.Duration.ofSeconds(20)


def _positions(found: Any) -> PositionsByPartition:
    return {
        TopicPartition(each.topic(), each.partition()): GroupPosition(found[each].offset(), found[each].metadata())
        for each in found
    }
