"""Whatever is printed is printed as it is: only ``mirror.terminal`` makes what rich prints through."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THE_ONE = ROOT / "mirror/terminal.py"
SOURCES = sorted(
    source
    for folder in ("mirror", "runbooks", "scenarios", "notebooks")
    for source in (ROOT / folder).rglob("*.py")
    if source != THE_ONE
)

# What reads markup in the strings that it is given, unless it is told not to.
READS_MARKUP = frozenset({"Console", "TextColumn", "from_markup", "get_console", "render_markup", "Prompt", "Confirm"})


def readers_of_markup(code: str) -> list[int]:
    """Lines that make something which reads markup, or that ask for it."""
    lines = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        asked = any(
            each.arg in {"markup", "emoji"} and not (isinstance(each.value, ast.Constant) and each.value.value is False)
            for each in node.keywords
        )
        if called in READS_MARKUP or asked:
            lines.append(node.lineno)
    return sorted(lines)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.relative_to(ROOT).as_posix())
def test_no_text_is_read_as_markup(source: Path) -> None:
    lines = readers_of_markup(source.read_text())
    assert lines == [], f"{source.relative_to(ROOT)}, lines {lines}: use mirror.terminal, and rich's Text for styles"


@pytest.mark.parametrize(
    "code",
    [
        "from rich.console import Console\nConsole(stderr=True)",
        "from rich import progress\nprogress.TextColumn('{task.description}')",
        "from rich.text import Text\nText.from_markup('[red]no')",
        "out.print(said, markup=True)",
    ],
)
def test_a_reader_of_markup_is_seen(code: str) -> None:
    assert len(readers_of_markup(code)) == 1


def test_what_prints_text_as_it_is_passes() -> None:
    assert readers_of_markup("from mirror.terminal import console\nconsole().print('x', markup=False)") == []
