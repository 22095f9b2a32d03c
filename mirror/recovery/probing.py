"""Noticing that a cluster is gone: probes from outside, until enough have failed one after the other."""

from __future__ import annotations

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, ClusterError
from mirror.waiting import wait_until

PROBES = 3
_PROBE_SECONDS = 0.5
_DETECT_SECONDS = 300.0


def wait_until_gone(settings: ClusterSettings) -> int:
    """Probe a cluster until it has failed three probes in a row; return how many probes that took.

    Raises
    ------
    WaitTimeout
        if it answers for a minute.
    """
    failed = probes = 0

    def probe() -> int:
        nonlocal failed, probes
        probes += 1
        try:
            Cluster.connect(settings, client_id="probe", timeout_seconds=_PROBE_SECONDS).close()
            failed = 0
        except ClusterError:
            failed += 1
        return failed

    what = f"{PROBES} failed probes of {settings.alias} in a row"
    wait_until(probe, what, timeout_seconds=_DETECT_SECONDS, until=lambda count: count >= PROBES)
    return probes
