"""A cluster is gone once none of its brokers answers, several times in a row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.config.settings import ClusterSettings
from mirror.recovery.probing import StillThere, probe_each, wait_until_gone

THREE = ClusterSettings("east", {"bootstrap.servers": "a:1, b:2,c:3", "client.id": "x"})


def answering(*rounds: str) -> Callable[[ClusterSettings, float], str | None]:
    """Answer in each round at the addresses named, in the last for ever."""
    seen: dict[str, int] = {}

    def probe(settings: ClusterSettings, seconds: float) -> str | None:
        address = settings.bootstrap_servers
        turn = min(seen.get(address, 0), len(rounds) - 1)
        seen[address] = seen.get(address, 0) + 1
        return None if address in rounds[turn].split() else "nobody is there"

    return probe


def test_each_broker_is_asked_by_itself() -> None:
    assert probe_each(THREE, 1.0, answering("b:2")) == {"a:1": "nobody is there", "b:2": None, "c:3": "nobody is there"}


def test_it_is_gone_when_none_answers_three_times_in_a_row() -> None:
    """One broker of three that comes back in between makes it there again."""
    assert wait_until_gone(THREE, probe=answering("a:1", "", "", "c:3", "")) == 7
    assert wait_until_gone(THREE, probe=answering("")) == 3


def test_one_that_goes_on_answering_is_named() -> None:
    with pytest.raises(StillThere, match=r"east is not gone: after 0\.2 s it still answers at c:3"):
        wait_until_gone(THREE, timeout_seconds=0.2, probe=answering("c:3"))
