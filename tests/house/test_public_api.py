"""What users import keeps its names and signatures; each name is declared in ``__all__`` and has a docstring."""

from __future__ import annotations

import inspect

from tests.house.public_api import GOLDEN, described, everything, imported, public


def test_names_and_signatures_of_the_public_api_are_those_of_the_golden_file() -> None:
    assert described() == GOLDEN.read_text("utf-8")


def test_what_notebooks_runbooks_and_scenarios_use_is_public() -> None:
    used = imported()
    assert {name: sorted(names - set(public(name))) for name, names in used.items()} == {name: [] for name in used}


def test_every_public_class_and_function_says_what_it_is() -> None:
    assert [
        each
        for each, thing in everything()
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and not inspect.getdoc(thing)
    ] == []
