"""Every key of the engine's own is described where it is declared, and docs/settings.md is made of that."""

from __future__ import annotations

from mirror.config.engine_keys import ENGINE
from tests.house.settings_page import PAGE, page


def test_every_key_says_what_it_means() -> None:
    assert [name for name, key in ENGINE.items() if not key.meaning.endswith(".")] == []


def test_the_page_is_what_the_declarations_make_it() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.house.settings_page"
