"""Clusters in containers, where Docker is there: one broker each, of the official image of the same Kafka version.

Where that cannot be pulled, an image is built once of this machine's Java and jars (`mirror.lab.local_image`). A
managed process, the holder (``python -m mirror.lab.containers``), starts the container through testcontainers and
removes it when it is told to end. If it is killed, testcontainers' reaper does, which is an image to be pulled too;
where there is none, whoever takes the lab down. Faults act on the container. Its data last as long as the lab is up.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirror import cache
from mirror.lab import local_image, processes
from mirror.lab.brokers import READY_SECONDS, STOP_SECONDS, ClusterLayout, node_properties
from mirror.lab.errors import BrokerError, ProviderUnavailable
from mirror.lab.jars import KAFKA_VERSION
from mirror.lab.processes import ManagedProcess
from mirror.lab.readiness import wait_for_broker
from mirror.model.progress import Watch, nobody
from mirror.waiting import wait_until

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
_HOLDER = "holder"
#: The first start may pull the image.
_PULL_SECONDS = 600.0


def container_environment(layout: ClusterLayout) -> dict[str, str]:
    """Return the image's environment for the cluster's one broker.

    It listens on the very port it is reached at from outside, so that the advertised address is right on both sides and
    stays so over restarts.
    """
    node = layout.nodes[0]
    properties = node_properties(layout, node, Path("/var/lib/kafka/data"))
    properties["listeners"] = properties["listeners"].replace(
        f"PLAINTEXT://{node.address}", f"PLAINTEXT://:{node.port}"
    )
    return {"CLUSTER_ID": layout.cluster_id, **{environment_name(key): value for key, value in properties.items()}}


def environment_name(key: str) -> str:
    """Return the variable that the image turns into this broker property."""
    return "KAFKA_" + key.replace("_", "___").replace("-", "__").replace(".", "_").upper()


def container_name(layout: ClusterLayout) -> str:
    """Return a name that no other cluster's container has."""
    return f"mirrorbook-{layout.alias}-{layout.cluster_id}"


@contextmanager
def docker() -> Iterator[Any]:
    """Open a Docker client.

    Raises
    ------
    ProviderUnavailable
        if Docker does not answer.
    """
    from docker import from_env
    from docker.errors import DockerException

    try:
        client = from_env()
        client.ping()
    except DockerException as problem:
        raise ProviderUnavailable(
            f"Docker does not answer ({problem}); start it, or use embedded clusters, which need none"
        ) from problem
    try:
        yield client
    finally:
        client.close()


@dataclass(frozen=True, slots=True)
class ContainerBroker:
    """The one broker of a cluster in a container."""

    directory: Path
    layout: ClusterLayout
    owner_pid: int | None

    @property
    def node_id(self) -> int:
        """Return the broker's number."""
        return self.layout.nodes[0].node_id

    @property
    def address(self) -> str:
        """Return ``host:port``."""
        return self.layout.nodes[0].address

    @property
    def holder(self) -> ManagedProcess | None:
        """Return the holder as last started, running or not."""
        return processes.find(self.directory, _HOLDER)

    def is_alive(self) -> bool:
        """Tell whether the container runs."""
        return self._status() == "running"

    def start(self) -> None:
        """Start the container, again or for the first time, and return when the broker serves clients.

        Raises
        ------
        ProviderUnavailable
            if Docker does not answer.
        BrokerError
            if the container ends early or the broker is not ready in time.
        """
        status = self._status()
        holder = self.holder
        if holder is None or not holder.is_alive():
            spec = {
                "name": container_name(self.layout),
                "port": self.layout.nodes[0].port,
                "environment": container_environment(self.layout),
            }
            argv = [sys.executable, "-m", "mirror.lab.containers", json.dumps(spec)]
            holder = processes.start(self.directory, _HOLDER, argv, owner_pid=self.owner_pid)
        elif status != "running":
            with docker() as client:
                client.containers.get(container_name(self.layout)).start()
        name = f"{self.layout.alias}'s container"
        seen = wait_until(
            lambda: self._status() if holder.is_alive() else "its holder ended",
            f"{name} to run",
            timeout_seconds=_PULL_SECONDS,
            until=lambda seen: seen in {"running", "its holder ended"},
        )
        if seen != "running":
            raise BrokerError(f"{name} did not start; it logged last:\n{holder.log_tail()}")
        wait_for_broker(
            name,
            self.address,
            self.node_id,
            self.layout.cluster_id,
            is_alive=self.is_alive,
            log_tail=holder.log_tail,
            timeout_seconds=READY_SECONDS,
        )

    def kill(self) -> None:
        """``kill -9`` the broker; the container keeps its data."""
        if self.is_alive():
            with docker() as client:
                client.containers.get(container_name(self.layout)).kill()

    def remove(self) -> None:
        """Remove a container that its holder, killed perhaps, has left behind."""
        from docker.errors import NotFound

        with docker() as client, suppress(NotFound):
            client.containers.get(container_name(self.layout)).remove(force=True)

    def _status(self) -> str:
        from docker.errors import NotFound

        with docker() as client:
            try:
                return str(client.containers.get(container_name(self.layout)).status)
            except NotFound:
                return "absent"


@dataclass(frozen=True, slots=True)
class ContainerCluster:
    """A cluster of one broker in a container; see ``mirror.lab.clusters.LabCluster``."""

    broker: ContainerBroker

    provider = "containers"
    """What this kind of cluster is called."""

    @property
    def alias(self) -> str:
        """Return the cluster's short name."""
        return self.broker.layout.alias

    @property
    def bootstrap_servers(self) -> str:
        """Return the broker's address."""
        return self.broker.layout.bootstrap_servers

    @property
    def brokers(self) -> tuple[ContainerBroker, ...]:
        """Return the one broker."""
        return (self.broker,)

    def is_alive(self) -> bool:
        """Tell whether the container runs."""
        return self.broker.is_alive()

    def start(self, watch: Watch = nobody) -> None:
        """Start the broker; see ``ContainerBroker.start``."""
        watch(f"cluster {self.alias}", 0, 1)
        self.broker.start()
        watch(f"cluster {self.alias}", 1, 1)

    def kill(self) -> None:
        """``kill -9`` the broker."""
        self.broker.kill()

    def shut_down(self) -> tuple[str, ...]:
        """End the holder, and with it the container; return what did not go as it should."""
        holder = self.broker.holder
        if holder is None or not holder.is_alive() or holder.terminate(2 * STOP_SECONDS):
            problems: tuple[str, ...] = ()
        else:
            holder.kill()
            problems = (f"{self.alias}: the container's holder had to be killed",)
        self.broker.remove()
        return problems

    def discard(self) -> None:
        """Nothing is left to remove: the container's data went with it."""


def available_image(client: Any) -> str:
    """Return the official image if it is here or can be pulled, else the one built of this machine's Java and jars."""
    from docker.errors import DockerException, ImageNotFound

    def is_here(image: str) -> bool:
        with suppress(ImageNotFound):
            client.images.get(image)
            return True
        return False

    for image in (IMAGE, local_image.IMAGE):
        if is_here(image):
            return image
    try:
        client.images.pull(IMAGE)
    except DockerException as problem:
        print(f"{IMAGE} cannot be pulled ({problem}): building {local_image.IMAGE} from this machine", flush=True)
        with cache.exclusive(cache.directory() / "image.lock"):
            if not is_here(local_image.IMAGE):  # another cluster of the lab may have built it meanwhile
                local_image.build(client)
        return local_image.IMAGE
    return IMAGE


def hold(name: str, port: int, environment: dict[str, str]) -> None:
    """Run the container until this process is asked to end (SIGTERM), then stop and remove it."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    with docker() as client:
        image = available_image(client)
    testcontainers_config.ryuk_disabled = image != IMAGE
    container = DockerContainer(image, name=name, env=environment).with_bind_ports(port, port)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with container:
        print(f"{image} runs as {name}", flush=True)
        signal.sigwait({signal.SIGTERM})
        wrapped = container.get_wrapped_container()
        wrapped.stop(timeout=int(STOP_SECONDS))
        sys.stdout.write(wrapped.logs(tail=200).decode(errors="replace"))


def main(arguments: Sequence[str]) -> None:
    """Hold the container that the first argument describes as JSON."""
    hold(**json.loads(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
