"""Hand-made mutations: one line of a rule changed to what a slip could make of it, which some test must notice.

They are data: a file of the catalogue has a table for each module, with the tests concerned, nearest first, and rows of
rule, old text and new text. The old text stands in the module exactly once, so that the list cannot rot unnoticed.

Tools that generate mutations (mutmut, cosmic-ray) change operators and constants all over a module: a hundred times as
many, most of them of no rule, and days of tests. They take no list of one's own.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = tuple(sorted(Path(__file__).parent.glob("*.toml")))


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one module, by its path from the root, and the tests that may notice it, nearest first."""

    module: str
    rule: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{self.module}: {self.rule}"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a mutation cannot be tried."""

    reason: str


@dataclass(frozen=True, slots=True)
class Mutated:
    """The text of a module with a mutation, and the line where that begins."""

    text: str
    line: int


def catalogue() -> Iterator[Mutation]:
    """Yield all mutations.

    Raises
    ------
    KeyError, ValueError
        if a file has another form.
    """
    for file in FILES:
        for module, table in tomllib.loads(file.read_text("utf-8")).items():
            for rule, old, new in table["mutations"]:
                yield Mutation(module, rule, old, new, tuple(table["tests"]))


def mutated(mutation: Mutation, text: str) -> Mutated | Refused:
    """Return the module's ``text`` with the mutation."""
    count = text.count(mutation.old)
    if count != 1:
        return Refused(f"{mutation}: {mutation.old!r} is there {count} times, not once")
    changed = text.replace(mutation.old, mutation.new)
    try:
        # A change of layout, or one that no Python is, shows nothing about the tests.
        is_same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    except SyntaxError as wrong:
        return Refused(f"{mutation}: {mutation.new!r} makes no Python of it: {wrong}")
    if is_same:
        return Refused(f"{mutation}: {mutation.new!r} changes nothing")
    return Mutated(changed, text[: text.index(mutation.old)].count("\n") + 1)
