"""A limited run begins what it has time for, in another order of files each time, and skips the others by name."""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.time_box import in_order, not_begun

_ROOT = Path(__file__).parents[2]
_TESTS = [SimpleNamespace(nodeid=f"tests/{file}.py::test_{number}") for file in "abcd" for number in range(3)]


@pytest.mark.parametrize(
    ("minutes", "now", "begun"), [(None, 1e9, True), (10, 699.9, True), (10, 700, False), (0, 100, False)]
)
def test_a_test_is_begun_within_the_minutes_that_there_are(minutes: float | None, now: float, begun: bool) -> None:
    assert (not_begun(100, minutes, now) is None) == begun


def test_what_is_not_begun_in_time_is_skipped_and_counted() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--begin-within=0", "tests/unit/test_cores.py"]
    output = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False).stdout
    assert "not begun within 0 minutes (--begin-within)" in output
    assert "passed" not in output


def test_files_stay_whole_and_in_themselves_in_order() -> None:
    ordered = in_order(_TESTS, "one")
    files = {file: list(tests) for file, tests in groupby(ordered, lambda test: test.nodeid.partition("::")[0])}
    assert sorted(ordered, key=_TESTS.index) == _TESTS
    assert len(files) == 4
    assert all(tests == sorted(tests, key=_TESTS.index) for tests in files.values())


def test_another_word_begins_with_another_file() -> None:
    assert len({in_order(_TESTS, str(word))[0].nodeid for word in range(20)}) == 4
