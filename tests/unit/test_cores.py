"""Tests share as many processes as the machine, or the quota of the container, does well with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cores import processes, usable_cores


@pytest.mark.parametrize(("cores", "expected"), [(0.5, 0), (0.99, 0), (1, 2), (1.5, 2), (2, 3), (64, 3)])
def test_more_processes_than_cores_wait_for_each_other_but_below_a_core_one_is_alone(
    cores: float, expected: int
) -> None:
    assert processes(cores) == expected


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("3:cpu,cpuacct:/half\n0::/\n", {"cpu,cpuacct/half/cpu.cfs_quota_us": "25000\n"}, 0.25),
        ("3:memory:/x\n1:cpu:/half\n", {"cpu/half/cpu.cfs_quota_us": "-1\n"}, None),
        ("0::/a\n", {}, None),
        (None, {}, None),
    ],
)
def test_a_quota_counts_wherever_above_the_process_it_is_set(
    tmp_path: Path, groups: str | None, files: dict[str, str], cores: float | None
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    if groups is not None:
        (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, content in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.with_name("cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path) == cores if cores is not None else usable_cores(tmp_path) >= 1
