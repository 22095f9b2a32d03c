"""The lab's load and readers as the commands of an applications file: ``python -m tests.brokers.lab_applications``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from mirror.lab import processes

SECONDS = 20.0
_CONFIG, _LOAD = "applications.json", "load"


def write(
    directory: Path, bootstrap: dict[str, str], writes: dict[str, str], reads: dict[str, list[str]], groups: list[str]
) -> Path:
    """Write the applications of two clusters down, by alias; return the TOML file with their commands."""
    directory.mkdir(exist_ok=True)
    config = {
        "bootstrap": bootstrap,
        "writes": writes,
        "reads": reads,
        "groups": groups,
        "owner": os.getpid(),
        "lives": 0,
    }
    (directory / _CONFIG).write_text(json.dumps(config))
    file = directory / "applications.toml"
    lines = ["timeout_seconds = 60", "service_seconds = 90"]
    for alias in bootstrap:
        lines.append(f"[clusters.{alias}]")
        for what in COMMANDS:
            argv = [sys.executable, "-m", "tests.brokers.lab_applications", what, str(directory), alias]
            lines.append(f"{what} = {json.dumps(argv)}")
    file.write_text("\n".join(lines) + "\n")
    return file


def start(directory: Path, alias: str) -> None:
    """Start a load and a reader a group on a cluster, unless they run there; what a killed start has left is ended."""
    parts = [None, *_config(directory)["groups"]]
    if len(processes.running(directory, f"{alias}-")) == len(parts):
        return
    stop(directory, alias)
    for each in parts:
        _begin(directory, alias, each)


def start_part(directory: Path, alias: str) -> None:
    """Start the load, or the reader of the group that is meant, on a cluster, unless it runs there."""
    group = os.environ.get("MIRROR_GROUP")
    if not _running(directory, alias, group):
        _begin(directory, alias, group)


def stop_part(directory: Path, alias: str) -> None:
    """End the load, or the reader of the group that is meant, on a cluster."""
    processes.end(_running(directory, alias, os.environ.get("MIRROR_GROUP")), timeout_seconds=SECONDS)


def _running(directory: Path, alias: str, group: str | None) -> list[processes.ManagedProcess]:
    return [each for each in processes.running(directory, f"{alias}-") if each.name.endswith(f"-{group or _LOAD}")]


def _begin(directory: Path, alias: str, group: str | None) -> None:
    """Start the reader of a group, or the load."""
    config = _config(directory)
    config["lives"] += 1
    (directory / _CONFIG).write_text(json.dumps(config))
    life, bootstrap, ledger = f"{alias}-{config['lives']}", config["bootstrap"][alias], str(directory / "ledger")
    common = ["--cluster", alias, "--bootstrap", bootstrap, "--ledger", ledger]
    if group is None:
        argv = ["mirror.lab.load", "--name", life, "--topic", config["writes"][alias], "--rate", "100", *common]
    else:
        topics = [part for topic in config["reads"][alias] for part in ("--topic", topic)]
        argv = ["mirror.lab.readers", "--name", f"{group}-{life}", "--group", group, *topics, *common]
    name = f"{life}-{group or _LOAD}"
    processes.start(directory, name, [sys.executable, "-m", *argv], owner_pid=config["owner"])


def stop(directory: Path, alias: str) -> None:
    """End what runs on a cluster."""
    processes.end(processes.running(directory, f"{alias}-"), timeout_seconds=SECONDS)


def probe(directory: Path, alias: str) -> None:
    """Print what has come about on a cluster since then, by the ledger: what was written there, and read of it."""
    # pandas: who stops or starts applications does without.
    from mirror.lab.service_times import service_times
    from mirror.parts import read_rows

    config, since_ms = _config(directory), int(os.environ["MIRROR_SINCE_MS"])
    sends = read_rows(directory / "ledger" / "sends", ["cluster", "status", "acked_at_ms"])
    # Groups that move before the producers do read copies.
    topics = [config["writes"][alias]] if (sends.cluster == alias).any() else config["reads"][alias]
    found = service_times(
        sends,
        read_rows(directory / "ledger" / "reads", ["cluster", "group", "topic", "read_at_ms"]),
        alias,
        topics,
        config["groups"],
        since_ms=since_ms,
    )
    print(json.dumps({"first_write_at_ms": found.first_write_at_ms, "groups": dict(found.groups_reading_at_ms)}))


def _config(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / _CONFIG).read_text())
    return found


COMMANDS = {
    "start": start,
    "stop": stop,
    "probe": probe,
    "start_group": start_part,
    "stop_group": stop_part,
    "start_producers": start_part,
    "stop_producers": stop_part,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
