"""The table of rules says what is declared, claims nothing without a test, and every rule that code speaks of exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rules import table
from tests.rules.table import Rule

ROOT = Path(__file__).parents[2]
KNOWN = frozenset(table.known_ids())
A_RULE = re.compile(rf"\b({'|'.join(table.FAMILIES)})-\d+\b")
SOURCES = sorted(path for folder in ("mirror", "tests") for path in (ROOT / folder).rglob("*.py"))
PROOF = "house/test_rules.py::test_every_rule_has_one_row_and_every_claim_a_test"


def test_every_rule_has_one_row_and_every_claim_a_test() -> None:
    assert list(table.problems(table.rules(), table.known_ids())) == []


def test_the_table_is_what_the_rows_and_the_last_run_come_to() -> None:
    written = table.TABLE.read_text("utf-8")
    assert written == table.render(table.rules(), table.outcomes()), "run `make interop ARGS=--table`"


def test_every_rule_that_the_code_speaks_of_is_in_the_inventory() -> None:
    cited = {
        (path.relative_to(ROOT).as_posix(), found[0])
        for path in SOURCES
        if path != Path(__file__)
        for found in A_RULE.finditer(path.read_text("utf-8"))
    }
    assert cited, "rules are cited by their ids"
    assert [place for place in sorted(cited) if place[1] not in KNOWN] == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule("CFG-001", "x", "same", "", ()), "no test that proves it"),
        (Rule("CFG-001", "x", "better", "", ("unit/test_gone.py::test_gone",)), "does not exist"),
        (Rule("CFG-001", "x", "different", "", (PROOF,)), "does not say why"),
        (Rule("CFG-001", "x", "not done", "", (PROOF,)), "names tests"),
        (Rule("CFG-001", "x", "fine", "", (PROOF,)), "is none of"),
    ],
)
def test_a_wrong_row_is_seen(rule: Rule, said: str) -> None:
    (problem,) = table.problems((rule,), ("CFG-001",))
    assert said in problem


def test_a_missing_and_an_unknown_row_are_seen() -> None:
    row = Rule("CFG-002", "x", "same", "", (PROOF,))
    assert list(table.problems((row,), ("CFG-001",))) == [
        "CFG-001 of the inventory has no row",
        "CFG-002 is not in the inventory",
    ]
