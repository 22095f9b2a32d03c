"""What an engine does not do yet it refuses before it asks a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.engine.run import Engine

BEGINNING = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def refusal(file: Path, *lines: str) -> str | None:
    file.write_text(BEGINNING + "\n".join(lines))
    try:
        Engine(load(file))
    except ConfigError as problem:
        return str(problem)
    return None


def test_copies_with_the_source_s_offsets_are_refused_by_file_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    said = refusal(file, "mirror.offsets = same")
    assert said is not None
    assert said.startswith(f"{file}:5: mirror.offsets: ")
    assert "makes none yet" in said
    assert str(refusal(file, "", "a->b.mirror.offsets = same")).startswith(f"{file}:6: a->b.mirror.offsets: ")


@pytest.mark.parametrize("line", ["", "mirror.offsets = translated", "b->a.mirror.offsets = same"])
def test_flows_that_do_not_ask_for_them_begin(tmp_path: Path, line: str) -> None:
    assert refusal(tmp_path / "mirror.properties", line) is None
