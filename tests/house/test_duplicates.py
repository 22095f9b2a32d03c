"""No ten lines stand twice in the package: what two places do alike is a function that both call."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "mirror"
MOST_LINES = 9

# Where a line stands.
Place = tuple[str, int]


def test_no_ten_lines_stand_twice() -> None:
    sources = {str(each.relative_to(PACKAGE)): each.read_text("utf-8") for each in sorted(PACKAGE.rglob("*.py"))}
    assert list(twice(sources)) == []


def test_what_stands_twice_is_found_and_what_only_looks_so_is_not() -> None:
    body = "".join(f"    step_{number}(given)\n\n    # a remark\n" for number in range(10))
    one, other = f'def one(given):\n    """Say one."""\n{body}', f'def other(given):\n    """Say other."""\n{body}'
    shorter = other.replace("    step_9(given)\n", "")
    imports = "from mirror import (\n" + "".join(f"    name_{number},\n" for number in range(12)) + ")\n"
    prose = '"""' + "".join(f"Line {number}.\n" for number in range(12)) + '"""\n'

    assert list(twice({"a.py": one, "b.py": other})) == ["a.py:3 and b.py:3"]
    assert list(twice({"a.py": one + other})) == ["a.py:3 and a.py:35"]
    assert list(twice({"a.py": one, "b.py": shorter})) == []
    assert list(twice({"a.py": prose + imports, "b.py": prose + imports})) == []


def twice(sources: dict[str, str]) -> Iterator[str]:
    """Yield where more than the agreed lines begin that stand in two places."""
    found: dict[tuple[str, ...], list[Place]] = defaultdict(list)
    for name, source in sources.items():
        lines = list(_counting(source))
        for at in range(len(lines) - MOST_LINES):
            run = lines[at : at + MOST_LINES + 1]
            found[tuple(line for _, line in run)].append((name, run[0][0]))
    for places in found.values():
        if len(places) > 1:
            yield " and ".join(f"{name}:{line}" for name, line in places)


def _counting(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that count, with their numbers: words, outside of comments, docstrings, imports, signatures."""
    passed_over: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            passed_over.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            passed_over.update(range(first, node.body[0].lineno))
    for number, line in enumerate(source.splitlines(), start=1):
        kept = line.strip()
        if number not in passed_over and any(map(str.isalnum, kept)) and not kept.startswith("#"):
            yield number, kept
