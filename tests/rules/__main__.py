"""``make interop``: run the black-box cases and every test that a rule names, and write the table.

With ``--table`` nothing is run. Other arguments go to pytest.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

import pytest

from mirror.lab.jars import KAFKA_VERSION
from tests.rules import table


class Recorder:
    """Keeps the worst outcome of each test function, on Java MirrorMaker apart."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in how a part of a test ended."""
        if report.when != "call" and report.passed:
            return
        name, _, parameters = report.nodeid.removeprefix("tests/").partition("[")
        place = f"{name}[java]" if name.startswith("interop/") and parameters.startswith("java") else name
        if self.seen.get(place) != "failed":
            self.seen[place] = report.outcome


def main(arguments: list[str]) -> int:
    """Return pytest's exit code."""
    code = 0
    if "--table" not in arguments:
        recorder = Recorder()
        named = sorted({f"tests/{test}" for rule in table.rules() for test in rule.tests})
        others = [place for place in named if not place.startswith("tests/interop/")]
        # No marks are left out: what a rule names is run, however long it takes.
        code = int(pytest.main(["-m", "", "tests/interop", *others, *arguments], plugins=[recorder]))
        before = table.outcomes()["tests"] if table.OUTCOMES.exists() else {}
        there = {
            test: outcome
            for test, outcome in sorted({**before, **recorder.seen}.items())
            if test.removesuffix("[java]").partition("::")[2] in table.tests_in(table.TESTS / test.partition("::")[0])
        }
        found = {"day": datetime.now(UTC).date().isoformat(), "kafka": KAFKA_VERSION, "tests": there}
        table.OUTCOMES.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    table.TABLE.write_text(table.render(table.rules(), table.outcomes()), "utf-8")
    print(f"The table is in {table.TABLE}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
