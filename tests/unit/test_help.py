"""What `mirror --help` and the help of its commands look like, and a command of the README that they are to take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mirror.cli import app
from mirror.lab.commands import parse_bootstrap
from mirror.lab.errors import BadRequest


def _commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, *path, name)


@pytest.mark.parametrize("path", list(_commands(typer.main.get_command(app))), ids=" ".join)
def test_help_is_whole_at_80_columns(path: tuple[str, ...]) -> None:
    """Words in angle brackets were swallowed as markup (`runs/-`), and long ones cut: `mirror.history.interval.sec…`."""
    text = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80"}).stdout
    assert "…" not in text
    assert "runs/-" not in text


def test_addresses_in_the_readme_are_those_of_the_clusters_that_it_names() -> None:
    """Both in one option were all of them east's."""
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    (line,) = [each for each in text.splitlines() if each.startswith("mirror lab up") and "--bootstrap" in each]
    words = line.split()
    given = parse_bootstrap([words[at + 1] for at, word in enumerate(words) if word == "--bootstrap"])
    assert list(given) == words[words.index("--clusters") + 1].split(",")


def test_addresses_of_two_clusters_in_one_option_are_refused() -> None:
    with pytest.raises(BadRequest, match="once for each cluster"):
        parse_bootstrap(["east=host:9092,west=host:9093"])
