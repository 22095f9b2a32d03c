"""A file of the package is read in one sitting: 600 lines at most."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "mirror"
MOST_LINES = 600


def test_no_file_is_longer_than_agreed() -> None:
    lengths = {
        str(source.relative_to(PACKAGE)): len(source.read_text("utf-8").splitlines())
        for source in PACKAGE.rglob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
