"""The commands that are installed: under their own name, and under those of Kafka's scripts."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from mirror import cli
from mirror.background_process import detach
from mirror.waiting import wait_until

SCRIPTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("name", ["mirror", "connect-mirror-maker", "kafka-mirror-maker"])
def test_a_script_has_a_function_with_and_without_its_ending(name: str) -> None:
    module, function = SCRIPTS[name].split(":")
    assert callable(getattr(import_module(module), function))
    assert name == "mirror" or SCRIPTS[f"{name}.sh"] == SCRIPTS[name]


def test_connect_mirror_maker_is_mirror_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLI-01: the file first, then the clusters of this side."""
    file = tmp_path / "absent.properties"
    monkeypatch.setattr(sys, "argv", ["connect-mirror-maker.sh", str(file), "--clusters", "west", "north"])
    seen: list[list[str]] = []
    monkeypatch.setattr(cli, "main", lambda: seen.append(sys.argv[1:]))
    cli.connect_mirror_maker()
    assert seen == [["run", str(file), "--clusters", "west", "north"]]


def test_as_a_daemon_it_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["connect-mirror-maker.sh", "-daemon", "mm2.properties"])
    started: list[list[str]] = []
    monkeypatch.setattr(cli, "detach", lambda command, name: started.append([*command[1:], name]))
    cli.connect_mirror_maker()
    assert started == [["-m", "mirror", "run", "mm2.properties", "mirrorMaker"]]


def test_what_goes_on_by_itself_prints_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    log = detach([sys.executable, "-c", "import sys; print('out'); print('problem', file=sys.stderr)"], "mirrorMaker")
    assert log == tmp_path / "logs" / "mirrorMaker.out"
    wait_until(lambda: sorted(log.read_text().split()) == ["out", "problem"], "the output", timeout_seconds=60)
