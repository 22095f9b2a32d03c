"""Who may write to a copy: under unchanged names nobody but the mirror, unless something says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.settings import FlowSettings
from mirror.kafka.channel import BrokerRefused
from mirror.model.writers import KnownWriters
from mirror.recovery import other_writers
from mirror.recovery.other_writers import OtherMirrors, OtherWriters, other_mirrors
from tests.unit.config.files import flows_of

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
ROUTER = """\
C->B.transforms = away
C->B.transforms.away.type = org.apache.kafka.connect.transforms.RegexRouter
C->B.transforms.away.regex = .*
C->B.transforms.away.replacement = orders
"""


class Back:
    """Who mirrors into the source; one of them is the target, or none is."""

    def __init__(self, *topics: str) -> None:
        self.topics = topics

    def has_way_back(self, topic: str) -> bool:
        return topic in self.topics


def writers(
    *flows: str, more: str = IDENTITY, back: Back | None = None, copies: Collection[str] = (), failed_over: bool = False
) -> OtherWriters:
    found: tuple[FlowSettings, ...] = flows_of(*(flows or ("A->B",)), more=more)
    others = OtherMirrors(frozenset(copies))
    return OtherWriters(found[0], found, cast(Any, back or Back()), others, failed_over)


def test_of_a_flow_one_way_the_copy_is_the_mirrors_alone_whatever_its_name() -> None:
    assert not writers().may_write("orders", "orders")
    assert not writers(more="").may_write("orders", "A.orders")


@pytest.mark.parametrize(
    "known",
    [
        writers(failed_over=True),
        writers(back=Back("orders")),
        writers(copies=["orders"]),
        writers("A->B", "C->B"),
        writers("A->B", "C->B", more=f"{IDENTITY}C->B.topics = orders"),
        writers("A->B", "C->B", more=f"{IDENTITY}C->B.topics = bills\n{ROUTER}"),
    ],
)
def test_whatever_says_that_others_write_there_is_believed(known: OtherWriters) -> None:
    assert known.may_write("orders", "orders")


@pytest.mark.parametrize(
    "known",
    [
        writers(back=Back("bills")),
        writers(copies=["bills"]),
        writers("A->B", "C->B", more=f"{IDENTITY}C->B.topics = bills"),
        writers("A->B", "A->C", "C->D"),
        writers("A->B", "C->B", more=f"A->B.{IDENTITY}"),
    ],
)
def test_what_others_do_elsewhere_says_nothing_of_this_topic(known: OtherWriters) -> None:
    assert not known.may_write("orders", "orders")


def test_a_name_of_the_policys_making_is_the_mirrors_alone_also_behind_a_failover() -> None:
    """Under the default policy applications write to the topic without the prefix, wherever they are."""
    known = writers("A->B", "B->A", "C->B", more="", back=Back("orders"), copies=["A.orders"], failed_over=True)
    assert not known.may_write("orders", "A.orders")


def test_of_a_name_that_a_router_gave_nobody_knows() -> None:
    assert writers(more="").may_write("orders", "all-orders")
    assert writers().may_write("orders", "all-orders")


def test_a_router_that_takes_the_prefix_away_makes_an_unchanged_name() -> None:
    assert not writers(more="").may_write("orders", "orders")
    assert writers(more="", failed_over=True).may_write("orders", "orders")


class OnTarget:
    """State topics on the target; some may not be read."""

    def __init__(self, found: Mapping[str, tuple[str, Collection[str]]], denied: Collection[str] = ()) -> None:
        self._found = found
        self._denied = denied
        self.asked: frozenset[str] = frozenset()
        self.is_closed = False

    @property
    def known(self) -> dict[str, KnownWriters]:
        return {topic: KnownWriters(source_id=self._found[topic][0]) for topic in self.asked}

    def copied(self, topic: str) -> Collection[str]:
        return self._found[topic][1]

    def catch_up(self, topics: Collection[str]) -> dict[str, Exception]:
        self.asked = frozenset(topics) & self._found.keys()
        return {
            each: BrokerRefused(f"B: topic {each}: denied", Exception) for each in sorted({*self._denied} & {*topics})
        }

    def close(self) -> None:
        self.is_closed = True


def mirrors_of(on_target: OnTarget, monkeypatch: pytest.MonkeyPatch, *topics: str) -> OtherMirrors:
    monkeypatch.setattr(other_writers, "WriterLogs", lambda *_: on_target)
    (settings,) = flows_of("A->B", more=IDENTITY)
    clusters: Any = {"B": SimpleNamespace(client={})}
    found = other_mirrors(settings, clusters, "id of A", topics)
    assert on_target.is_closed
    return found


def test_who_mirrors_into_the_target_with_another_file_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "mm2-state.A.internal": ("id of A", ["orders"]),
        "mm2-state.C.internal": ("id of C", ["bills"]),
        "mm2-state.D.internal": ("", ["letters"]),
    }
    assert mirrors_of(OnTarget(known), monkeypatch, *known, "orders") == OtherMirrors(frozenset({"bills", "letters"}))


def test_the_same_source_under_another_alias_is_nobody_who_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are there twice then."""
    known = {"mm2-state.again.internal": ("id of A", ["orders"])}
    assert mirrors_of(OnTarget(known), monkeypatch, *known) == OtherMirrors()


def test_whom_the_target_does_not_tell_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    state = "mm2-state.C.internal"
    found = mirrors_of(OnTarget({}, denied=[state]), monkeypatch, state)
    assert found == OtherMirrors(
        problems=(f"who else mirrors into B is not known: B: topic {state}: denied: Exception",)
    )
