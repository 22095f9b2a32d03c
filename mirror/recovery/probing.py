"""Noticing that a cluster is gone: every broker is probed from outside, until none has answered several times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, ClusterError
from mirror.waiting import WaitTimeout, wait_until

PROBES = 3
PROBE_SECONDS = 0.5
DETECT_SECONDS = 300.0


class StillThere(WaitTimeout):
    """A cluster that was to be gone answers; the message says where."""


def wait_until_gone(
    settings: ClusterSettings,
    *,
    probe_seconds: float = PROBE_SECONDS,
    timeout_seconds: float = DETECT_SECONDS,
    probe: Callable[[ClusterSettings, float], str | None] | None = None,
) -> int:
    """Probe every broker at once until none has answered three times in a row; return how many times that took.

    Each bootstrap address is asked by itself, since asked one after the other they would share the time that there is;
    one that answers is enough for the cluster to be there.

    Parameters
    ----------
    probe
        asks one address for so long; returns None if it answers, otherwise why not.

    Raises
    ------
    StillThere
        if one answers until the time is over.
    """
    failed = probes = 0
    answered: list[str] = []

    def look() -> int:
        nonlocal failed, probes
        probes += 1
        answered[:] = [address for address, why in probe_each(settings, probe_seconds, probe).items() if why is None]
        failed = 0 if answered else failed + 1
        return failed

    what = f"{PROBES} failed probes of {settings.alias} in a row"
    try:
        wait_until(look, what, timeout_seconds=timeout_seconds, until=lambda count: count >= PROBES)
    except WaitTimeout:
        where = ", ".join(answered) or settings.bootstrap_servers
        said = f"{settings.alias} is not gone: after {timeout_seconds:g} s it still answers at {where}"
        raise StillThere(said) from None
    return probes


def probe_each(
    settings: ClusterSettings,
    probe_seconds: float,
    probe: Callable[[ClusterSettings, float], str | None] | None = None,
) -> Mapping[str, str | None]:
    """Ask each bootstrap address of a cluster at once; return of each why it does not answer, None if it does."""
    ask = probe or _ask
    addresses = [each.strip() for each in settings.bootstrap_servers.split(",") if each.strip()]
    alone = [replace(settings, client={**settings.client, "bootstrap.servers": each}) for each in addresses]
    with ThreadPoolExecutor(len(addresses)) as pool:
        return dict(zip(addresses, pool.map(lambda one: ask(one, probe_seconds), alone), strict=True))


def _ask(settings: ClusterSettings, seconds: float) -> str | None:
    try:
        Cluster.connect(settings, client_id="probe", timeout_seconds=seconds).close()
    except ClusterError as problem:
        return str(problem)
    return None
