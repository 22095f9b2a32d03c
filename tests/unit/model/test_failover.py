"""Which run of the procedure may go on, by what is on record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.failover import FailoverEntry, Phase, in_the_way, not_understood
from mirror.model.flow_state import FlowState
from mirror.model.state_values import failover_record, no_failover_record

OURS = FailoverEntry("ours", "planned", Phase.UNDER_WAY, "host:/runs/1", 5)
THEIRS = replace(OURS, run="theirs", where="elsewhere:/runs/2")


@pytest.mark.parametrize(
    ("entries", "returning", "found"),
    [
        ((), False, None),
        ((OURS,), False, None),
        ((OURS, THEIRS), False, None),
        ((THEIRS, OURS), False, THEIRS),
        ((THEIRS.at(Phase.DONE, 9),), False, THEIRS.at(Phase.DONE, 9)),
        ((THEIRS.at(Phase.DONE, 9),), True, None),
        ((THEIRS.at(Phase.DONE, 9), OURS.at(Phase.RETURNING, 9)), True, None),
        ((THEIRS,), True, THEIRS),
        ((THEIRS.at(Phase.RETURNING, 9),), True, THEIRS.at(Phase.RETURNING, 9)),
    ],
)
def test_the_first_run_on_record_goes_on_and_a_failover_that_is_done_only_goes_home(
    entries: tuple[FailoverEntry, ...], returning: bool, found: FailoverEntry | None
) -> None:
    assert in_the_way(entries, "ours", returning=returning) == found


def test_what_is_on_record_is_read_back_and_taken_off() -> None:
    state = FlowState()
    for entry in (OURS, THEIRS, OURS.at(Phase.DONE, 7)):
        assert state.apply(*failover_record(entry))
    assert state.failovers == {"theirs": THEIRS, "ours": OURS.at(Phase.DONE, 7)}
    state.apply(*no_failover_record("ours"))
    assert list(state.failovers) == ["theirs"]
    assert state.not_understood == {}


def test_whose_applications_are_being_started_is_read_back_and_earlier_versions_said_nothing_of_it() -> None:
    begun = OURS.starting("audit").starting("billing").starting("audit")
    assert (begun.started, begun.is_beyond_return) == (("audit", "billing"), False)
    state = FlowState()
    state.apply(*failover_record(begun))
    assert state.failovers == {"ours": begun}
    state.apply(*failover_record(begun.starting(None)))
    assert state.failovers["ours"].is_beyond_return
    assert OURS.content().keys() == {"mode", "phase", "where", "at_ms"}


@pytest.mark.parametrize(
    ("key", "run"), [(b'["failover"]', "without a name"), (b'["failover","ours","more"]', "ours more")]
)
def test_a_run_under_a_key_of_a_later_version_is_in_the_way_of_all_others(key: bytes, run: str) -> None:
    state = FlowState()
    state.apply(key, b'{"v":2}')
    found = not_understood({key: each.fences for key, each in state.not_understood.items()})
    assert [each.run for each in found] == [run]
    assert in_the_way(found, "ours", returning=False) is not None


@pytest.mark.parametrize(
    ("value", "fences"),
    [
        (b'{"v":2,"fences":["/runs/2/denied.json",7]}', ("/runs/2/denied.json",)),
        (b'{"v":2,"fences":"elsewhere"}', ()),
        (b'{"v":2}', ()),
        (b"[]", ()),
        (b"{", ()),
    ],
)
def test_what_a_run_of_a_later_version_denies_is_known_as_far_as_its_record_tells(
    value: bytes, fences: tuple[str, ...]
) -> None:
    """Given up, no failback admitted the writes again."""
    state = FlowState()
    state.apply(b'["failover","theirs"]', value)
    (found,) = not_understood({key: each.fences for key, each in state.not_understood.items()})
    assert (found.run, found.fences) == ("theirs", fences)
