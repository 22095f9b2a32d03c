"""What the command says of itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

from typer.testing import CliRunner

from mirror.cli import app


def test_it_says_which_version_it_is() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.stdout) == (0, f"mirror {project['version']}\n")
