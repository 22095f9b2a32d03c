"""The command ``mirror`` as a process, run to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from mirror.cli import app
from mirror.config.resolving import load
from mirror.control.status import observe
from mirror.lab import mm2
from mirror.lab.clusters import Lab

# On clusters of one broker.
FACTORS = "".join(f"{key} = 1\n" for key in mm2.REPLICATION_FACTORS)


def mirror(
    *argv: str, timeout_seconds: float = 240.0, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command, with ``env`` laid over this process's environment; return what it said and its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "mirror", *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
        env={**os.environ, **(env or {})},
    )


def in_process(*argv: str) -> subprocess.CompletedProcess[str]:
    """Carry out the command in this process, for a second of CPU less; another test starts it as a process."""
    done = CliRunner().invoke(app, list(argv))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(argv, done.exit_code, done.stdout, done.stderr)


def status_of(file: Path) -> list[dict[str, Any]]:
    """Return what ``mirror status FILE --json`` says of each flow, without a process: who waits for it asks often."""
    with observe(load(file, applies_transforms=False)) as observers:
        told: list[dict[str, Any]] = json.loads(json.dumps([observer.look().as_json() for observer in observers]))
    return told


def kept(path: Path, content: str) -> Path:
    """Have a file hold ``content``; one that does is not written again: who starts meanwhile would find it empty."""
    if not path.exists() or path.read_text() != content:
        path.write_text(content)
    return path


def write(path: Path, east: str, west: str, more: str) -> Path:
    """Write a properties file of two clusters; line 2 and 3 are their addresses."""
    path.write_text(
        f"clusters = east, west\neast.bootstrap.servers = {east}\nwest.bootstrap.servers = {west}\n{more}{FACTORS}"
    )
    return path


def address(lab: Lab, alias: str) -> str:
    """Return the bootstrap servers of a cluster of the lab."""
    return lab.clusters[alias].bootstrap_servers
