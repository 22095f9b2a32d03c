"""docs/where-is-what.md names modules that exist, and every rule; docs/design.md every module with invariants."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "where-is-what.md").read_text()
RULES = tomllib.loads((ROOT / "tests" / "rules" / "rules.toml").read_text())
ROWS = [line.split("|")[1] for line in PAGE.splitlines() if re.match(r"\| [A-Z0-9]+-\d", line)]


def _numbers(first: str, last: str | None) -> range:
    return range(int(first), int(last or first) + 1)


def _declared() -> set[tuple[str, int]]:
    return {
        (family, number)
        for family, ranges in RULES["ids"].items()
        for part in ranges.split(", ")
        for number in _numbers(*(part.split("-") if "-" in part else (part, None)))
    }


def _listed() -> set[tuple[str, int]]:
    return {
        (family, number)
        for row in ROWS
        for family, first, last in re.findall(r"([A-Z0-9]+)-(\d+)(?:\.\.(\d+))?", row)
        for number in _numbers(first, last)
    }


def test_every_module_on_the_page_exists() -> None:
    paths = re.findall(r"`([a-z0-9_/]+\.py)`", PAGE.replace("`tests/house/test_where_is_what.py`", ""))

    assert paths
    assert [path for path in paths if not (ROOT / "mirror" / path).is_file()] == []


def test_the_page_lists_the_rules_of_the_inventory_and_no_others() -> None:
    assert _listed() == _declared()


def test_every_module_with_invariants_is_listed_in_the_design_by_subject() -> None:
    design = (ROOT / "docs" / "design.md").read_text()
    listed = re.findall(r"`([a-z0-9_/]+\.py)`", design[design.index("## Invariants") :])

    modules = (ROOT / "mirror").rglob("*.py")
    having = [
        str(each.relative_to(ROOT / "mirror"))
        for each in modules
        if re.search(r"^ *Invariants:$", each.read_text(), re.MULTILINE)
    ]
    assert sorted(listed) == sorted(having)
