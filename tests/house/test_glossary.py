"""A word of a module's name is in the glossary, or it is one that any Kafka or Python engineer knows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Of the field: Kafka, Spark, Jupyter, Python, operations; with the meaning that it has there.
KNOWN = frozenset((Path(__file__).parent / "known_words.txt").read_text("utf-8").split())


def test_every_word_of_a_modules_name_is_a_known_one() -> None:
    glossary = set(re.findall(r"[a-z0-9]+", (ROOT / "docs" / "glossary.md").read_text("utf-8").lower()))
    words = {word for each in (ROOT / "mirror").rglob("*.py") for word in _name(each).split("_") if word}
    unknown = {word for word in words if not _forms(word) & glossary}
    assert unknown - KNOWN == set(), "a row of docs/glossary.md says what it means"
    assert KNOWN - words == set(), "no module is called so any more"


def _name(module: Path) -> str:
    return module.parent.name if module.stem.startswith("__") else module.stem


def _forms(word: str) -> set[str]:
    return {word, f"{word}s", word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}
