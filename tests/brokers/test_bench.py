"""The bench as a whole, with few records: every contender comes back with all its figures, and this engine is faster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from mirror.bench import figures
from mirror.bench.contenders import Contender

SECONDS = 400.0
COPIED = {figures.RATE, figures.CPU_PER_GB}
STARTED = {figures.FIRST_RECORD, figures.CPU_BEFORE, figures.MEMORY}
LATENCY = {"latency_ms_p50_at_100", "latency_ms_p90_at_100", "latency_ms_p99_at_100"}


def measure(directory: Path, options: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Run the bench; return its figures of its only shape, and what it printed."""
    file = directory / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "mirror", "bench", *options, "--directory", str(directory), "--json", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    (measured,) = json.loads(file.read_text())["shapes"]
    return measured, done.stdout


@pytest.mark.soak
def test_each_contender_has_its_figures_and_nothing_is_left(tmp_path: Path) -> None:
    """The tuned file is one that Java MirrorMaker takes; the ratios are those of one round; processes are ended."""
    options = ["--records", "200000", "--record-bytes", "100", "--records-per-batch", "50", "--partitions", "2"]
    options += ["--contenders", "floor,mm2-tuned,mirror,no-mirror", "--rates", "100", "--latency-seconds", "2"]
    measured, said = measure(tmp_path, options)
    by_name = {run["contender"]: set(run) for run in measured["runs"]}
    assert set(by_name) == {Contender.FLOOR, Contender.MM2_TUNED, Contender.MIRROR, Contender.NO_MIRROR}
    assert by_name["mirror"] >= COPIED | STARTED | LATENCY
    assert by_name["mm2-tuned"] >= COPIED | STARTED | LATENCY
    assert by_name["floor"] >= COPIED
    assert not by_name["floor"] & (STARTED | LATENCY)
    assert by_name["no-mirror"] >= LATENCY
    assert not by_name["no-mirror"] & (COPIED | STARTED)
    assert set(measured["ratios"]) == {"mirror/mm2-tuned", "mirror/floor", "mirror/no-mirror"}
    assert "mirror / Java MM2 tuned" in said

    (home,) = (each for each in tmp_path.iterdir() if each.is_dir())
    assert (home / "bench.svg").read_text().startswith("<?xml")
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(home) in " ".join(each.info["cmdline"] or ())]
    assert not list(home.glob("*/broker-*/data"))


@pytest.mark.soak
def test_untuned_this_engine_copies_at_least_twice_as_fast_as_java_with_the_same_file(tmp_path: Path) -> None:
    """WANT-09: two tasks for Java, where its default is one; both sides of the ratio on one machine in one minute."""
    options = ["--records", "300000", "--contenders", "mm2,mirror", "--latency-seconds", "0"]
    measured, said = measure(tmp_path, options)
    (ratio,) = measured["ratios"]["mirror/mm2"][figures.RATE]["rounds"]
    assert ratio >= 2.0, said
