"""Ports that a broker can keep: chosen once, free again when the broker comes back."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Callable
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST = 20_000
#: Where the kernel starts to hand out ports to outgoing connections, unless it says otherwise.
_USUAL_EPHEMERAL_START = 32_768


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port of the loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Kafka does: not stopped by closed connections
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def claim(port: int) -> bool:
    """Tell whether this port is free and no process has claimed it; nobody else can while this process lives.

    Between choice and listening lie seconds, for which a port looks free. A claim is a name in Linux' abstract socket
    namespace: it leaves no file, and ends with the process. Elsewhere a port is only looked at.
    """
    if not is_free(port):
        return False
    if sys.platform != "linux":
        return True
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0mirror-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()  # open until this process ends
    return True


def ephemeral_start() -> int:
    """Return the first port that the kernel hands out to outgoing connections."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
    except OSError:
        return _USUAL_EPHEMERAL_START
    return int(text.split()[0])


def choose(
    count: int, *, free: Callable[[int], bool] = claim, below: int | None = None, chance: random.Random | None = None
) -> tuple[int, ...]:
    """Return free ports outside the range of outgoing connections.

    Clients that retry while a broker is down would otherwise take its port sooner or later, connect to themselves, and
    keep the broker from coming back.

    Raises
    ------
    RuntimeError
        if there are not enough.
    """
    end = ephemeral_start() if below is None else below
    candidates = list(range(_LOWEST, end)) if end > _LOWEST else list(range(1024, end))
    (chance or random.Random()).shuffle(candidates)
    chosen: list[int] = []
    for port in candidates:
        if len(chosen) == count:
            break
        if free(port):
            chosen.append(port)
    if len(chosen) < count:
        raise RuntimeError(f"no {count} free ports between {candidates[0] if candidates else end} and {end}")
    return tuple(chosen)
