"""Noticing that a cluster is gone: every broker is probed from outside, until none has answered several times.

Brokers are known by the bootstrap addresses of the file, by what an engine has put on record on the target, and by what
those tell that answer while this goes on. A broker that refuses a login is there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, ClusterError, ClusterUnreachable
from mirror.kafka.connecting import is_refusal
from mirror.waiting import WaitTimeout, wait_until

PROBES = 3
PROBE_SECONDS = 0.5
DETECT_SECONDS = 300.0
# Who refuses connections says so at once: three refusals in a moment would be one.
_PAUSE_SECONDS = 0.3
_AT_ONCE = 64


class StillThere(WaitTimeout):
    """A cluster that was to be gone answers; the message says where."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a cluster's brokers beside the bootstrap addresses of the file.

    Attributes
    ----------
    addresses
        host and port of each, as clients of the file reach them.
    cluster_id
        of another cluster at one of these addresses nothing is to be held; empty if it is not known.
    """

    addresses: tuple[str, ...] = ()
    cluster_id: str = ""


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of asking one address.

    Attributes
    ----------
    problem
        why it does not answer; None if it does.
    brokers
        the addresses of all brokers of the cluster, as the one that answers tells them.
    """

    problem: str | None
    brokers: tuple[str, ...] = ()


Probe: TypeAlias = Callable[[ClusterSettings, float, str], Heard]
"""Asks the one address of the settings for so many seconds; the last is the cluster's id, empty if it is not known."""


@dataclass(frozen=True, slots=True)
class Gone:
    """That no broker of a cluster answers.

    Attributes
    ----------
    probes
        how many times that took.
    addresses
        where each broker was asked, in order.
    others
        how many of these are no bootstrap addresses.
    """

    probes: int
    addresses: tuple[str, ...]
    others: int

    def __str__(self) -> str:
        """Return, for people, who was asked."""
        if self.others:
            return f"asked at {', '.join(self.addresses)}"
        return (
            f"asked at the bootstrap addresses alone, {', '.join(self.addresses)}: nothing is on record of other "
            "brokers, which may be there"
        )


def wait_until_gone(
    settings: ClusterSettings,
    *,
    known: Known = NOTHING_KNOWN,
    probe_seconds: float = PROBE_SECONDS,
    timeout_seconds: float = DETECT_SECONDS,
    probe: Probe | None = None,
) -> Gone:
    """Probe every broker at once until none has answered three times in a row.

    Each address is asked by itself, since asked one after the other they would share the time that there is; one that
    answers is enough for the cluster to be there.

    Parameters
    ----------
    known
        brokers beside the bootstrap addresses.
    probe
        for tests.

    Raises
    ------
    StillThere
        if one answers until the time is over.
    """
    failed = probes = 0
    answered: list[str] = []
    asked = _addresses(settings, known)

    def look() -> int:
        nonlocal failed, probes, asked
        probes += 1
        found = probe_each(settings, probe_seconds, probe, known=replace(known, addresses=asked))
        answered[:] = [address for address, heard in found.items() if heard.problem is None]
        asked = _joined(asked, (each for heard in found.values() for each in heard.brokers))
        failed = 0 if answered else failed + 1
        return failed

    what = f"{PROBES} failed probes of {settings.alias} in a row"
    try:
        wait_until(
            look,
            what,
            timeout_seconds=timeout_seconds,
            until=lambda count: count >= PROBES,
            first_pause_seconds=_PAUSE_SECONDS,
            longest_pause_seconds=_PAUSE_SECONDS,
        )
    except WaitTimeout:
        where = ", ".join(answered) or ", ".join(asked)
        said = f"{settings.alias} is not gone: after {timeout_seconds:g} s it still answers at {where}"
        raise StillThere(said) from None
    return Gone(probes, asked, len(asked) - len(_addresses(settings, NOTHING_KNOWN)))


def probe_each(
    settings: ClusterSettings,
    probe_seconds: float,
    probe: Probe | None = None,
    *,
    known: Known = NOTHING_KNOWN,
) -> Mapping[str, Heard]:
    """Ask each bootstrap address of a cluster, and each broker that is known, at once."""
    ask = probe or _ask
    addresses = _addresses(settings, known)
    alone = [replace(settings, client={**settings.client, "bootstrap.servers": each}) for each in addresses]
    with ThreadPoolExecutor(min(len(addresses), _AT_ONCE)) as pool:
        heard = pool.map(lambda one: ask(one, probe_seconds, known.cluster_id), alone)
        return dict(zip(addresses, heard, strict=True))


def _addresses(settings: ClusterSettings, known: Known) -> tuple[str, ...]:
    return _joined((), (*(each.strip() for each in settings.bootstrap_servers.split(",")), *known.addresses))


def _joined(before: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in (*before, *more) if each))


def _ask(settings: ClusterSettings, seconds: float, cluster_id: str) -> Heard:
    # A client would go on trying until its time is over.
    if (refused := _refusal(settings.bootstrap_servers, seconds)) is not None:
        return Heard(refused)
    try:
        with Cluster.connect(settings, client_id="probe", timeout_seconds=seconds) as cluster:
            if cluster_id and cluster.cluster_id != cluster_id:
                return Heard(f"another cluster answers there ({cluster.cluster_id})")
            return Heard(None, cluster.broker_addresses())
    except ClusterError as problem:
        is_there = not isinstance(problem, ClusterUnreachable) or is_refusal(problem.__cause__ or problem)
        return Heard(None if is_there else str(problem))


def _refusal(address: str, seconds: float) -> str | None:
    """Return that nobody listens at an address, if its machine says so; None: somebody does, or nobody can tell."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except ConnectionRefusedError as problem:
        return f"{address}: {problem.strerror}"
    except (OSError, ValueError):
        return None
    return None
