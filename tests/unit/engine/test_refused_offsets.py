"""What excludes each other is refused before a cluster is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.engine.run import Engine

BEGINNING = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
ONCE = "b.exactly.once.source.support = enabled"


def refusal(file: Path, *lines: str) -> str | None:
    file.write_text(BEGINNING + "\n".join(lines))
    try:
        Engine(load(file))
    except ConfigError as problem:
        return str(problem)
    return None


def test_the_source_s_offsets_in_transactions_are_refused_by_file_line_and_key(tmp_path: Path) -> None:
    """Each commit leaves a marker, which takes an offset."""
    file = tmp_path / "mirror.properties"
    said = refusal(file, "mirror.offsets = same", ONCE)
    assert said is not None
    assert said.startswith(f"{file}:5: mirror.offsets: ")
    assert "leave exactly.once.source.support out" in said
    assert str(refusal(file, ONCE, "a->b.mirror.offsets = same")).startswith(f"{file}:6: a->b.mirror.offsets: ")


@pytest.mark.parametrize(
    "lines",
    [
        ("mirror.offsets = same",),
        ("mirror.offsets = translated", ONCE),
        ("b->a.mirror.offsets = same", ONCE),
    ],
)
def test_flows_that_ask_for_one_of_both_begin(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert refusal(tmp_path / "mirror.properties", *lines) is None
