"""One thing is one thing in every sentence that people read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mirror
from mirror.model.counts import are, counted

SOURCES = sorted(Path(mirror.__file__).parent.rglob("*.py"))


def test_one_is_singular_and_the_others_are_not() -> None:
    said = [f"{counted(number, 'record')} {are(number)}" for number in (0, 1, 2, 1_204)]
    assert said == ["0 records are", "1 record is", "2 records are", "1,204 records are"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.relative_to(SOURCES[0].parent).as_posix())
def test_no_sentence_leaves_the_number_to_its_reader(source: Path) -> None:
    found = re.findall(r"[a-z]\(s\)", source.read_text())
    assert not found, "say counted(number, noun) of mirror.model.counts"
