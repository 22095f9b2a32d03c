"""Clusters that are there already: practised on, but never stopped, killed or removed by a lab."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from mirror.lab.errors import BrokerError, ClusterRefusal
from mirror.model.progress import Watch, nobody

_CONNECT_SECONDS = 3.0


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` (``[::1]:9092`` for a numeric IPv6 host).

    Raises
    ------
    ValueError
        if the text is not of that form.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"an address is written HOST:PORT, got {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(frozen=True, slots=True)
class ExistingBroker:
    """One bootstrap address of an existing cluster."""

    alias: str
    address: str

    def is_alive(self) -> bool:
        """Tell whether something listens there; what it answers is for those who hold the credentials."""
        try:
            socket.create_connection(parse_address(self.address), timeout=_CONNECT_SECONDS).close()
        except OSError:
            return False
        return True

    def start(self) -> None:
        """Check that it is there.

        Raises
        ------
        BrokerError
            if nothing listens at the address.
        """
        if not self.is_alive():
            raise BrokerError(f"nothing listens at {self.address}, given for the existing cluster {self.alias}")

    def kill(self) -> None:
        """Refuse."""
        raise ClusterRefusal(
            f"{self.address} belongs to the existing cluster {self.alias}, which is not killed from here: break it by "
            "its own means, or practise on an embedded cluster"
        )


@dataclass(frozen=True, slots=True)
class ExistingCluster:
    """An existing cluster; see ``mirror.lab.clusters.LabCluster``."""

    alias: str
    bootstrap_servers: str

    provider = "existing"
    """What this kind of cluster is called."""

    @property
    def brokers(self) -> tuple[ExistingBroker, ...]:
        """Return its bootstrap addresses; it may have more brokers."""
        return tuple(ExistingBroker(self.alias, address.strip()) for address in self.bootstrap_servers.split(","))

    def is_alive(self) -> bool:
        """Tell whether something listens at one of the addresses."""
        return any(broker.is_alive() for broker in self.brokers)

    def start(self, watch: Watch = nobody) -> None:
        """Check that it is there."""
        watch(f"cluster {self.alias}", 0, 1)
        if not self.is_alive():
            raise BrokerError(f"nothing listens at {self.bootstrap_servers}, the existing cluster {self.alias}")
        watch(f"cluster {self.alias}", 1, 1)

    def kill(self) -> None:
        """Refuse."""
        self.brokers[0].kill()

    def shut_down(self) -> tuple[str, ...]:
        """Leave it as it is: the lab did not start it."""
        return ()

    def discard(self) -> None:
        """Leave it as it is."""
