"""A word of a module's or a public name is in the glossary, or it is one that any Kafka or Python engineer knows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.public_api import everything

ROOT = Path(__file__).parents[2]
# Of the field: Kafka, Spark, Jupyter, Python, operations; with the meaning that it has there.
KNOWN = frozenset((Path(__file__).parent / "known_words.txt").read_text("utf-8").split())


def test_every_word_of_a_modules_or_a_public_name_is_a_known_one() -> None:
    glossary = set(re.findall(r"[a-z0-9]+", (ROOT / "docs" / "glossary.md").read_text("utf-8").lower()))
    names = {_name(each) for each in (ROOT / "mirror").rglob("*.py")} | {
        name.rpartition(".")[2] for name, _ in everything()
    }
    words = {word for each in names for word in _words(each)}
    unknown = {word for word in words if not _forms(word) & glossary}
    assert unknown - KNOWN == set(), "a row of docs/glossary.md says what it means"
    assert KNOWN - words == set(), "no module and nothing public is called so any more"


def _name(module: Path) -> str:
    return module.parent.name if module.stem.startswith("__") else module.stem


def _words(name: str) -> set[str]:
    """Return the words of a name, in lower case: ``TopicFilter`` has two, as ``topic_filter``."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Za-z][a-z]*[0-9]*|[0-9]+", name)}


def _forms(word: str) -> set[str]:
    return {word, f"{word}s", word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}
