"""How many processes the tests share: on two cores three, which wait half of the time; on less than a core one."""

from __future__ import annotations

import os
from pathlib import Path

_MOST = 3
_V2 = "0"


def processes(cores: float) -> int:
    """Return how many test processes do well on so many cores; 0: this one alone."""
    return 0 if cores < 1 else min(_MOST, int(cores) + 1)


def usable_cores(root: Path = Path("/")) -> float:
    """Return how many cores this process may use, by its affinity and the CPU quotas of its control groups."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([own, *_quotas(root)])


def _quotas(root: Path) -> list[float]:
    try:
        groups = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except OSError:
        # Not Linux.
        return []
    found = []
    for number, controllers, path in groups:
        is_v2 = number == _V2
        if not is_v2 and "cpu" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" if is_v2 else root / "sys/fs/cgroup" / controllers
        # In a container the group is often the root of what is mounted; a quota holds for all groups below its own.
        own = base / path.lstrip("/")
        for folder in {base, *(each for each in (own, *own.parents) if base in each.parents)}:
            found += _quota(folder, is_v2=is_v2)
    return found


def _quota(folder: Path, *, is_v2: bool) -> list[float]:
    try:
        if is_v2:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    except OSError:
        return []
    return [] if quota in {"max", "-1"} else [int(quota) / int(period)]
