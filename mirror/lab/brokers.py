"""Embedded clusters: real Kafka brokers in KRaft mode as managed processes on this machine.

A cluster is a directory: ``broker-N/`` holds a broker's properties and data, ``broker-N.log`` what it said. Ports,
cluster id and data survive restarts; ``kill`` is ``kill -9``.

Invariants:

(a) Several voters of a quorum are stopped together; the last one of a row stopped one by one waits for a quorum that
    no longer exists.
(b) Broker ports lie below the kernel's outgoing range. A client that retries against a dead broker's port can
    otherwise be given that very port, connect to itself, and keep the broker from coming back.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mirror.lab import ports, processes
from mirror.lab.errors import BrokerError
from mirror.lab.link import Link
from mirror.lab.processes import ManagedProcess
from mirror.lab.readiness import wait_for_broker
from mirror.lab.runtime import KafkaRuntime
from mirror.model.progress import Watch, nobody

#: Enough for 450,000 records/s of 1 KB; five clusters then take about 1.8 GB, for a heap grows only when it must. With
#: 384 a broker that had served a hundred tests with their topics collected garbage alone, or ended (OutOfMemoryError).
HEAP_MEGABYTES = 1024
READY_SECONDS = 300.0
STOP_SECONDS = 60.0
_VOTERS_OF_A_QUORUM = 3
_PORTS_OF_A_BROKER = 2
_PORTS_OF_A_LINK = 3
_LINK_LISTENER = "LINK"
_SECURED_LISTENER = "SECURED"
# Who comes without a name is a super user: brokers, controllers, and whoever sets the scene.
_AUTHORIZING = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
    f"listener.name.{_SECURED_LISTENER.lower()}.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    # Tokens are taken unsigned, from whoever makes them.
    f"listener.name.{_SECURED_LISTENER.lower()}.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    ),
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LinkPorts:
    """Of a broker that can also be reached through a link: where the link listens, takes orders, and leads to."""

    port: int
    control_port: int
    listener_port: int


@dataclass(frozen=True, slots=True)
class Node:
    """One broker's number and ports.

    ``controller_port`` is None for one that has no vote, ``secured_port`` for one that lets everybody do everything.
    """

    node_id: int
    port: int
    controller_port: int | None
    link: LinkPorts | None = None
    secured_port: int | None = None

    @property
    def address(self) -> str:
        """Return ``host:port`` for clients."""
        return f"{ports.LOOPBACK}:{self.port}"

    @property
    def controller_address(self) -> str:
        """Return ``host:port`` for the other controllers."""
        return f"{ports.LOOPBACK}:{self.controller_port}"

    @property
    def secured_address(self) -> str:
        """Return ``host:port`` for clients that log in."""
        return f"{ports.LOOPBACK}:{self.secured_port}"


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """What makes a cluster the same one after a restart.

    Brokers that are ``for_load`` are compiled as well as Java can; the others are up and quiet sooner.
    """

    alias: str
    cluster_id: str
    nodes: tuple[Node, ...]
    for_load: bool = False

    @property
    def bootstrap_servers(self) -> str:
        """Return every broker's address, comma-separated."""
        return ",".join(node.address for node in self.nodes)


def ports_needed(brokers: int, *, linked: bool, secured: bool = False) -> int:
    """Return how many ports :func:`plan_layout` takes."""
    return brokers * (_PORTS_OF_A_BROKER + (_PORTS_OF_A_LINK if linked else 0) + (1 if secured else 0))


def plan_layout(
    alias: str,
    cluster_id: str,
    free_ports: Sequence[int],
    brokers: int,
    *,
    linked: bool = False,
    secured: bool = False,
    for_load: bool = False,
) -> ClusterLayout:
    """Lay out a cluster: three voters from three brokers on, else one.

    With a link to each broker if ``linked``; with brokers that look up who may do what, and a listener for those who
    log in, if ``secured``; with brokers made for minutes of heavy load if ``for_load``.
    """
    voters = _VOTERS_OF_A_QUORUM if brokers >= _VOTERS_OF_A_QUORUM else 1
    left = iter(free_ports)
    nodes = []
    for number in range(brokers):
        port, controller_port = next(left), next(left)
        link = LinkPorts(next(left), next(left), next(left)) if linked else None
        secured_port = next(left) if secured else None
        nodes.append(Node(number + 1, port, controller_port if number < voters else None, link, secured_port))
    return ClusterLayout(alias, cluster_id, tuple(nodes), for_load)


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form: URL-safe base64 of 16 bytes, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def node_properties(layout: ClusterLayout, node: Node, data_directory: Path) -> dict[str, str]:
    """Return a broker's ``server.properties``.

    Replication factors and minimum in-sync replicas fit the number of brokers; what a broker waits for or keeps large
    for the sake of a big cluster is cut down, so that clusters start, fail over and clean up within seconds.
    """
    replicas = min(3, len(layout.nodes))
    in_sync = max(1, replicas - 1)
    listeners = {"PLAINTEXT": node.address}
    advertised = dict(listeners)
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    if node.link is not None:
        # Who comes through the link is sent back through the link.
        listeners[_LINK_LISTENER] = f"{ports.LOOPBACK}:{node.link.listener_port}"
        advertised[_LINK_LISTENER] = f"{ports.LOOPBACK}:{node.link.port}"
        protocols[_LINK_LISTENER] = "PLAINTEXT"
    if node.secured_port is not None:
        listeners[_SECURED_LISTENER] = advertised[_SECURED_LISTENER] = node.secured_address
        protocols[_SECURED_LISTENER] = "SASL_PLAINTEXT"
    if node.controller_port is not None:
        listeners["CONTROLLER"] = node.controller_address
    voters = [voter for voter in layout.nodes if voter.controller_port is not None]
    return (_AUTHORIZING if node.secured_port is not None else {}) | {
        "process.roles": "broker" if node.controller_port is None else "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{voter.node_id}@{voter.controller_address}" for voter in voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        # every broker is a place of its own: who sets client.rack reads from the one that has its name
        "broker.rack": f"rack-{node.node_id}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "log.dirs": str(data_directory),
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "2",
        # one that has nothing to do writes down so twice a second otherwise: a third of its CPU
        "metadata.max.idle.interval.ms": "10000",
        # a broker that was killed is let in again only when its last session is over
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "5000",
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": "5000",
        "log.segment.delete.delay.ms": "1000",
        "log.cleaner.backoff.ms": "1000",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
    }


def render_properties(properties: Mapping[str, str]) -> str:
    """Return properties file text; values here need no escapes but the backslash's."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in properties.items())


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """One broker of an embedded cluster.

    Attributes
    ----------
    directory
        the cluster's.
    layout, node
        the cluster, and which of its nodes this is.
    owner_pid
        the process whose end ends it; None: it runs until told.
    runtime
        asked only when a process is to be started, so that looking at a lab needs no Java.
    """

    directory: Path
    layout: ClusterLayout
    node: Node
    owner_pid: int | None
    runtime: Callable[[], KafkaRuntime]

    @property
    def node_id(self) -> int:
        """Return the broker's number."""
        return self.node.node_id

    @property
    def address(self) -> str:
        """Return ``host:port``."""
        return self.node.address

    @property
    def name(self) -> str:
        """Return the name of its process, log and folder."""
        return f"broker-{self.node.node_id}"

    @property
    def link(self) -> Link | None:
        """Return the link that leads to it, running or not, if its cluster is linked."""
        if self.node.link is None:
            return None
        given, name = self.node.link, f"link-{self.node.node_id}"
        target = f"{ports.LOOPBACK}:{given.listener_port}"
        return Link(self.directory, name, given.port, given.control_port, target)

    @property
    def process(self) -> ManagedProcess | None:
        """Return its process as last started, running or not."""
        return processes.find(self.directory, self.name)

    def is_alive(self) -> bool:
        """Tell whether the broker's process runs."""
        process = self.process
        return process is not None and process.is_alive()

    def start(self) -> None:
        """Start it on its ports and data, unless it runs, and return when it serves clients.

        Raises
        ------
        BrokerError
            if it ends early or is not ready in time, with what it said last.
        """
        self.launch()
        self.wait_until_ready()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> None:
        """Stop it cleanly, unless it does not run.

        Raises
        ------
        BrokerError
            if it does not end in time.
        """
        process = self.process
        if process is not None and process.is_alive() and not process.terminate(timeout_seconds):
            raise BrokerError(
                f"{self.layout.alias} {self.name} did not stop within {timeout_seconds:.0f} s; kill() it. "
                f"It said last:\n{process.log_tail()}"
            )

    def kill(self) -> None:
        """``kill -9`` it; return when it is gone."""
        process = self.process
        if process is not None and process.is_alive():
            process.kill()

    def launch(self) -> None:
        """Start its process, formatting its data directory the first time; it is not ready yet."""
        if self.is_alive():
            return
        runtime = self.runtime()
        node = self.node
        own = (node.port, node.controller_port, node.link.listener_port if node.link else None, node.secured_port)
        taken = [port for port in own if port is not None and not ports.is_free(port)]
        if taken:
            raise BrokerError(
                f"{self.layout.alias} {self.name} cannot start: another process listens on its port {taken[0]}; "
                "end that process"
            )
        home = self.directory / self.name
        data = home / "data"
        settings = home / "server.properties"
        if not (data / "meta.properties").exists():
            home.mkdir(parents=True, exist_ok=True)
            settings.write_text(render_properties(node_properties(self.layout, self.node, data)), "utf-8")
            self._format(runtime, settings)
        if not self.layout.for_load:
            runtime = runtime.brief()
        command = runtime.command("kafka.Kafka", [str(settings)], heap_megabytes=HEAP_MEGABYTES, temporary_files=home)
        processes.start(self.directory, self.name, command, owner_pid=self.owner_pid)

    def wait_until_ready(self) -> None:
        """Wait until it serves clients; see ``mirror.lab.readiness``."""
        wait_for_broker(
            f"{self.layout.alias} {self.name}",
            self.address,
            self.node_id,
            self.layout.cluster_id,
            is_alive=self.is_alive,
            log_tail=self._log_tail,
            timeout_seconds=READY_SECONDS,
        )

    def _log_tail(self) -> str:
        process = self.process
        return "" if process is None else process.log_tail()

    def _format(self, runtime: KafkaRuntime, settings: Path) -> None:
        """Give the data directory the cluster's id and Kafka's newest feature levels."""
        arguments = ["format", "--config", str(settings), f"--cluster-id={self.layout.cluster_id}"]
        command = runtime.brief().command(
            "kafka.tools.StorageTool", arguments, heap_megabytes=128, temporary_files=settings.parent
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise BrokerError(f"cannot format {settings.parent}: {(done.stderr + done.stdout).strip()}")


@dataclass(frozen=True, slots=True)
class EmbeddedCluster:
    """A cluster of embedded brokers; see ``mirror.lab.clusters.LabCluster``."""

    directory: Path
    layout: ClusterLayout
    brokers: tuple[EmbeddedBroker, ...]

    @classmethod
    def at(
        cls,
        directory: Path,
        layout: ClusterLayout,
        runtime: Callable[[], KafkaRuntime],
        *,
        owner_pid: int | None = None,
    ) -> EmbeddedCluster:
        """Return the cluster of this layout in this directory, running or not."""
        brokers = tuple(EmbeddedBroker(directory, layout, node, owner_pid, runtime) for node in layout.nodes)
        return cls(directory, layout, brokers)

    provider = "embedded"
    """What this kind of cluster is called."""

    @property
    def alias(self) -> str:
        """Return the cluster's short name."""
        return self.layout.alias

    @property
    def bootstrap_servers(self) -> str:
        """Return every broker's address, comma-separated."""
        return self.layout.bootstrap_servers

    @property
    def links(self) -> tuple[Link, ...]:
        """Return the links to its brokers, in their order; none if the cluster is not linked."""
        return tuple(broker.link for broker in self.brokers if broker.link is not None)

    @property
    def linked_servers(self) -> str:
        """Return the addresses, comma-separated, for clients that are to reach every broker through its link."""
        return ",".join(link.address for link in self.links)

    @property
    def secured_servers(self) -> str:
        """Return the addresses, comma-separated, for clients that log in, if the cluster is secured."""
        return ",".join(node.secured_address for node in self.layout.nodes if node.secured_port is not None)

    def is_alive(self) -> bool:
        """Tell whether every broker's process runs."""
        return all(broker.is_alive() for broker in self.brokers)

    def start(self, watch: Watch = nobody) -> None:
        """Start the brokers and links that do not run, side by side, and return when each serves clients."""
        total = len(self.brokers)
        watch(f"cluster {self.alias}", 0, total)
        self._together(EmbeddedBroker.launch)
        for broker in self.brokers:
            if broker.link is not None:
                broker.link.start(seed=broker.node_id, owner_pid=broker.owner_pid)
        for done, broker in enumerate(self.brokers, start=1):
            broker.wait_until_ready()
            watch(f"cluster {self.alias}", done, total)

    def kill(self) -> None:
        """``kill -9`` every broker."""
        self._together(EmbeddedBroker.kill)

    def shut_down(self) -> tuple[str, ...]:
        """Stop every broker and link, killing what does not end; return what did not go as it should."""

        def end(broker: EmbeddedBroker) -> str | None:
            try:
                broker.stop()
            except BrokerError as problem:
                broker.kill()
                return f"{self.alias} {broker.name} had to be killed: {problem}"
            return None

        problems = tuple(problem for problem in self._together(end) if problem is not None)
        for link in self.links:
            link.stop()
        return problems

    def discard(self) -> None:
        """Remove its directory, data and logs; only a cluster that does not run can go."""
        if any(broker.is_alive() for broker in self.brokers) or any(link.is_alive() for link in self.links):
            raise BrokerError(f"{self.alias} runs; stop it before its data is removed")
        if self.directory.exists():
            shutil.rmtree(self.directory)

    def _together(self, act: Callable[[EmbeddedBroker], T]) -> list[T]:
        """Do it to all brokers at once: voters that stop one after the other leave the last without a quorum, stuck."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            return list(pool.map(act, self.brokers))
