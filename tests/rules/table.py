"""The rules of MirrorMaker, what this project makes of each, and the tests that prove it.

``rules.toml`` is the declaration, ``outcomes.json`` what the last run of ``make interop`` saw, and
``docs/compatibility-rules.md`` the table that follows from both and from nothing else.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
RULES = Path(__file__).with_name("rules.toml")
OUTCOMES = Path(__file__).with_name("outcomes.json")
TABLE = TESTS.parent / "docs" / "compatibility-rules.md"

# What a verdict says; those that claim something need a test, the others a reason.
VERDICTS = {
    "same": "as MirrorMaker does it",
    "better": "more than MirrorMaker does, or what it gets wrong",
    "different": "otherwise, for the reason given",
    "not proven": "built, or believed to hold, but no test shows it",
    "not done": "missing",
}
CLAIMS = ("same", "better")

FAMILIES = {
    "CFG": "Configuration keys",
    "CLI": "Command line",
    "SEL": "Selection of topics",
    "POL": "Replication policies",
    "RUN": "Start and scheduling",
    "TOP": "Creation and growth of topics",
    "TCS": "Settings of topics",
    "ACL": "ACLs",
    "REC": "Records",
    "ERR": "Errors of the copy",
    "OSW": "Offset syncs: when",
    "OST": "Offset syncs: translation",
    "CKP": "Checkpoints",
    "GOS": "Group offsets on the target",
    "HB": "Heartbeats",
    "MET": "Metrics",
    "EOS": "Exactly once",
    "DED": "Dedicated mode",
    "API": "Client library",
    "MM1": "MirrorMaker 1",
    "VER": "What changed over the releases",
    "WANT": "What people ask for",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the inventory.

    Attributes
    ----------
    id, title
        of the inventory; the title in our own words.
    verdict
        one of `VERDICTS`.
    why
        what is different or better, or why it is missing.
    tests
        those that prove it, as ``folder/test_file.py::test_name`` below ``tests``.
    """

    id: str
    title: str
    verdict: str
    why: str
    tests: tuple[str, ...]

    @property
    def family(self) -> str:
        """The part of the id before the number."""
        return self.id.rpartition("-")[0]


def known_ids() -> tuple[str, ...]:
    """Return every id of the inventory, as ``rules.toml`` lists them by family: ``001-003, 010``."""
    return tuple(f"{family}-{number}" for family, text in _declared()["ids"].items() for number in _numbers(text))


def rules() -> tuple[Rule, ...]:
    """Return the declared rules in the order of the file."""
    return tuple(
        Rule(name, given["title"], given["verdict"], given.get("why", ""), tuple(given.get("tests", ())))
        for name, given in _declared()["rules"].items()
    )


def outcomes() -> dict[str, Any]:
    """Return what the last run saw: its day, Kafka's version, and ``passed`` or ``failed`` by test.

    A test that ran on Java MirrorMaker too is there a second time, with ``[java]`` behind it.
    """
    found: dict[str, Any] = json.loads(OUTCOMES.read_text("utf-8"))
    return found


@cache
def tests_in(path: Path) -> frozenset[str]:
    """Return the names of a file's test functions; none for a file that is not there."""
    if not path.exists():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def problems(declared: tuple[Rule, ...], known: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with the declaration."""
    names = Counter(rule.id for rule in declared)
    for missing in sorted(set(known) - names.keys()):
        yield f"{missing} of the inventory has no row"
    for extra in sorted(names.keys() - set(known)):
        yield f"{extra} is not in the inventory"
    for rule in declared:
        if rule.verdict not in VERDICTS:
            yield f"{rule.id}: {rule.verdict!r} is none of {', '.join(VERDICTS)}"
        if rule.verdict in CLAIMS and not rule.tests:
            yield f"{rule.id} claims to be {rule.verdict}, and names no test that proves it"
        if rule.verdict in ("different", "not proven") and not rule.why:
            yield f"{rule.id} is {rule.verdict}, and does not say why"
        if rule.verdict in ("not proven", "not done") and rule.tests:
            yield f"{rule.id} is {rule.verdict}, and names tests"
        for test in rule.tests:
            file, _, name = test.partition("::")
            if name not in tests_in(TESTS / file):
                yield f"{rule.id} names a test that does not exist: {test}"


def render(declared: tuple[Rule, ...], seen: Mapping[str, Any]) -> str:
    """Return the table as Markdown."""
    counts = Counter(rule.verdict for rule in declared)
    lines = [
        "# Rule by rule",
        "",
        "Written by `make interop` from `tests/rules/rules.toml` and the outcomes of its run; not to be edited by hand. After a",
        "change of a row, `make interop ARGS=--table` writes it again without running anything. The areas at a glance are in",
        "[compatibility.md](compatibility.md).",
        "",
        f"The last run was on {seen['day']}, beside Java MirrorMaker of Kafka {seen['kafka']}. A test that passed on both",
        "replicators, from one properties file, says so.",
        "",
        "| verdict | means | rules |",
        "|---|---|---|",
        *(f"| {verdict} | {meaning} | {counts[verdict]} |" for verdict, meaning in VERDICTS.items()),
    ]
    for family, heading in FAMILIES.items():
        lines += ["", f"## {heading} ({family})", "", "| id | rule | here | proven by |", "|---|---|---|---|"]
        lines += [_row(rule, seen["tests"]) for rule in declared if rule.family == family]
    return "\n".join(lines) + "\n"


def _row(rule: Rule, seen: Mapping[str, str]) -> str:
    here = f"{rule.verdict}: {rule.why}" if rule.why else rule.verdict
    return f"| {rule.id} | {rule.title} | {here} | {'; '.join(_proof(test, seen) for test in rule.tests)} |"


def _proof(test: str, seen: Mapping[str, str]) -> str:
    file, _, name = test.partition("::")
    said = seen.get(test, "not run")
    on_java = seen.get(f"{test}[java]")
    if on_java is not None:
        said = f"{said} on both" if said == on_java else f"{said}, on Java {on_java}"
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../tests/{file}): {said}"


@cache
def _declared() -> dict[str, Any]:
    return tomllib.loads(RULES.read_text("utf-8"))


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{number:0{len(first)}d}"
