"""Every key of the engine's own is described where it is declared, and docs/settings.md is made of that."""

from __future__ import annotations

from mirror.config.definition import Type
from mirror.config.engine_keys import ENGINE
from tests.house.settings_page import PAGE, page

_ONE_OF = "it must be one of "


def test_every_key_says_what_it_means() -> None:
    assert [name for name, key in ENGINE.items() if not key.meaning.endswith(".")] == []


def test_a_key_with_a_choice_names_what_there_is_to_choose_from() -> None:
    """The page and `mirror plan --explain` said that a flow "goes on, or stops", and of no key what to write for it."""
    refusals = {name: key.check("?") or "" for name, key in ENGINE.items() if key.type is Type.STRING and key.check}
    choices = {name: why.removeprefix(_ONE_OF).split(", ") for name, why in refusals.items() if why.startswith(_ONE_OF)}

    assert len(choices) == 9
    assert [name for name, each in choices.items() if not all(f"`{one}`" in ENGINE[name].meaning for one in each)] == []


def test_the_page_is_what_the_declarations_make_it() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.house.settings_page"
