"""What a target lacks, as it is stated: only a source that is what was copied tells that nothing is missing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mirror.cli import app
from mirror.kafka.old_topics import OldTopic
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.state_values import RunReport
from mirror.recovery import procedure
from mirror.recovery.failover import Mode, look_ahead, loss_of
from mirror.recovery.flow_ends import Copied, Ends, troubles_of
from mirror.recovery.rewritten import Rewritten
from tests.unit.recovery.world import EAST, ORDERS, THERE, StandInEnds, World, move_of

GAP = "orders-0 from 3: it was larger than the target takes"
ANEW = Rewritten({ORDERS: "the topic was deleted and created anew (its id is b, and was a)"})


class Elsewhere(StandInEnds):
    """The address leads to a cluster that was built anew, and has other records."""

    def ends(self) -> Ends:
        return Ends("id of another", {ORDERS: 40}, {ORDERS: 50})

    def copied(self) -> Copied:
        found = super().copied()
        positions = {each: replace(at, source_end=at.upstream + 3) for each, at in found.positions.items()}
        return replace(found, positions=positions)


class WithGaps(StandInEnds):
    """A record was skipped (`errors.tolerance = all`): the source has it, the copy does not."""

    def copied(self) -> Copied:
        return replace(super().copied(), open_gaps=(GAP,))


class ListedLate(StandInEnds):
    """What was copied is there, and was not listed a moment ago."""

    def topics(self, names: Collection[str]) -> Mapping[str, OldTopic]:
        return {name: OldTopic(name, "id here", 1, 1, {}) for name in names}

    def ends(self) -> Ends:
        return replace(super().ends(), starts={}, ends={})


class Deleted(StandInEnds):
    """What was copied is not there any more."""

    def ends(self) -> Ends:
        self.world.unlisted = "deleted"
        return super().ends()


class Hidden(StandInEnds):
    """What was copied may not be seen: the source lists none of it, and refuses it where it is asked for by name."""

    def ends(self) -> Ends:
        self.world.unlisted = "hidden"
        return super().ends()


class Recreated(StandInEnds):
    """The topic is another one, and has grown past the position on record."""

    def rewritten(self, *, by_epochs: bool = False) -> Rewritten:
        return ANEW


class Untold(StandInEnds):
    """Neither leader epochs nor records tell whether the source has what was copied."""

    def rewritten(self, *, by_epochs: bool = False) -> Rewritten:
        return Rewritten(unknown={ORDERS: "neither side has the last records that were copied any more"})


class CreatedAnew(StandInEnds):
    """The topic is another one, and has grown past what was copied of the former one."""

    def rewritten(self, *, by_epochs: bool = False) -> Rewritten:
        return ANEW

    def ends(self) -> Ends:
        return replace(super().ends(), ids={ORDERS.topic: "now"})

    def copied(self) -> Copied:
        found = super().copied()
        positions = {each: replace(at, topic_id="before") for each, at in found.positions.items()}
        return replace(found, positions=positions)


@pytest.fixture
def world() -> World:
    return World(at_work=set(), paused={THERE.flow})


def test_another_cluster_at_the_source_s_address_does_not_tell_what_is_missing(world: World) -> None:
    ends = Elsewhere(world, THERE.flow)
    loss = loss_of(ends, ends.copied(), ask_source=True)
    assert "another cluster now (id of another) than the one that was copied (id of east)" in str(loss.bound)
    assert str(loss).endswith(
        "of what is on record, 3 offsets missing, 3 records at most (markers of transactions, aborted records and what a "
        "log cleaner has removed take offsets, too): orders-0: 3 offsets, from 10 to 12"
    )
    assert loss.removed == (), "its logs were taken for those of the one that was copied"


def test_a_source_that_ends_before_what_was_copied_does_not_tell_what_is_missing(world: World) -> None:
    """Its topic was created anew, or truncated and written on; one that was made anew on purpose is another matter."""
    world.written[EAST], world.copied[EAST] = 5, 10
    ends = StandInEnds(world, THERE.flow)
    loss = loss_of(ends, ends.copied(), ask_source=True)
    assert "orders-0 ends at 5, and was copied up to 10" in str(loss.bound)
    assert loss_of(ends, ends.copied(), ask_source=True, anew={ORDERS.topic}).bound is None


def test_a_topic_that_was_created_anew_does_not_tell_what_is_missing_however_long_it_is(world: World) -> None:
    """None of it was copied: what lies behind the position on record was said to be all that is missing."""
    world.written[EAST], world.copied[EAST] = 15, 10
    ends = CreatedAnew(world, THERE.flow)
    loss = loss_of(ends, ends.copied(), ask_source=True)
    assert "orders-0 is of a topic that was created anew, and was copied up to 10" in str(loss.bound)
    assert loss_of(ends, ends.copied(), ask_source=True, anew={ORDERS.topic}).bound is None
    world.copied[EAST] = 0
    assert loss_of(ends, ends.copied(), ask_source=True).bound is None, "nothing was copied of the former one either"


def test_a_log_that_was_truncated_and_has_grown_does_not_tell_what_a_cut_off_failover_lacks(
    world: World, tmp_path: Path
) -> None:
    """What was written anew below the position on record is missing too: 100 offsets were called exact."""
    world.written[EAST], world.copied[EAST], world.is_up[EAST] = 15, 10, True
    gone = {TopicPartition("deleted since", 0): "the topic is gone"}
    for truncated, unknown, is_exact in (
        (gone, gone, True),
        ({}, {ORDERS: "broker 2 does not answer"}, False),
        ({ORDERS: "it was truncated at offset 7"}, {}, False),
    ):
        world.rewritten = Rewritten(truncated, unknown)
        plan = look_ahead(Mode.CUT_OFF, move_of(world, tmp_path, mode="cut-off"), None)
        assert (plan.loss.bound is None) is is_exact
    assert "since it may have something else now: orders-0: it was truncated at offset 7" in str(plan.loss)


@pytest.mark.parametrize("by_epochs", [True, False])
def test_a_source_that_does_not_show_what_was_copied_does_not_tell_that_nothing_is_missing(
    world: World, by_epochs: bool
) -> None:
    """Its records behind the copy passed for none, "as the source tells"."""
    world.written[EAST], world.copied[EAST] = 15, 10
    for kind, words in (
        (Hidden, "looking at the topic orders: TOPIC_AUTHORIZATION_FAILED"),
        (ListedLate, "looking at the topic orders: it was not listed, and is there"),
    ):
        ends = kind(world, THERE.flow)
        loss = loss_of(ends, ends.copied(), ask_source=True, by_epochs=by_epochs)
        assert words in str(loss.bound)
        assert not loss.is_exact


def test_what_a_deleted_topic_had_is_not_known_and_is_named_without_keeping_the_rest_from_being_moved(
    world: World, tmp_path: Path
) -> None:
    """Nobody can copy any more what it had: no planned failover waits for it."""
    ends = Deleted(world, THERE.flow)
    loss = loss_of(ends, ends.copied(), ask_source=True)
    assert (loss.bound, loss.is_exact, loss.gone) == (None, False, {ORDERS: 10})
    assert str(loss).startswith(
        "nothing is missing of what it has; not there any more, so that what else it had is not known"
    )
    assert "orders-0 (copied up to 10)" in str(loss)
    assert loss_of(ends, ends.copied(), ask_source=True, anew={ORDERS.topic}).is_exact, "it is made anew on purpose"
    world.paused.clear()
    move = replace(move_of(world, tmp_path), ends=ends, record=ends)
    plan = look_ahead(Mode.PLANNED, move, None)
    assert (plan.refusal, plan.loss.gone) == (None, {ORDERS: 10})


def test_what_was_passed_by_is_missing_too(world: World) -> None:
    ends = WithGaps(world, THERE.flow)
    for ask_source in (True, False):
        assert GAP in str(loss_of(ends, ends.copied(), ask_source=ask_source))


@pytest.mark.parametrize(
    ("kind", "verdict", "words"),
    [
        pytest.param(StandInEnds, "PASS", "", id="nothing"),
        pytest.param(WithGaps, "FAIL", GAP, id="gaps"),
        pytest.param(Elsewhere, "UNKNOWN", "another cluster", id="another cluster"),
        pytest.param(Deleted, "UNKNOWN", '"offset": 10', id="without the topic"),
        pytest.param(Hidden, "UNKNOWN", "TOPIC_AUTHORIZATION_FAILED", id="hidden"),
        pytest.param(Recreated, "UNKNOWN", "deleted and created anew", id="another topic"),
        pytest.param(
            Untold, "UNKNOWN", "it is not known whether east still has what was copied of orders-0", id="untold"
        ),
        pytest.param(CreatedAnew, "UNKNOWN", '"reason": null', id="another topic, which keeps nobody from the rest"),
    ],
)
def test_stranded_passes_only_where_the_source_tells_that_nothing_is_missing(
    kind: type[StandInEnds], verdict: str, words: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true\n"
    )

    def ends(_: object, chosen: Any, *__: object, **___: object) -> StandInEnds:
        return kind(world, chosen.flow)

    monkeypatch.setattr(procedure, "_ends", ends)
    found = CliRunner().invoke(app, ["stranded", str(file), "--flow", "east->west", "--json"])
    told = json.loads(found.stdout)
    assert (told["verdict"], found.exit_code) == (verdict, 0 if verdict == "PASS" else 1)
    assert words in found.stdout
    shown = " ".join(CliRunner().invoke(app, ["stranded", str(file), "--flow", "east->west"]).stdout.split())
    is_open = told["reason"] is not None
    assert ("Once east can be read this command names them" in shown) is is_open, "what to do, where nobody can tell"


@pytest.mark.parametrize(("is_paused", "troubles"), [(True, ()), (False, ("topics were paused",))])
def test_of_an_engine_that_was_killed_while_topics_were_paused_that_counts_once_the_pause_is_over(
    is_paused: bool, troubles: tuple[str, ...]
) -> None:
    """Its last report passed for one that had seen where all logs ended; while it is in force a pause is named itself."""
    wish = PauseWish("bills", "bills", is_paused, "ann", 1)
    state = FlowState(wishes=Pauses((wish,)), run=RunReport("PAUSED", (), 1_000, untroubled_at_ms=900))
    found = troubles_of(state)
    assert len(found) == len(troubles)
    assert all(each.startswith(told) for each, told in zip(found, troubles, strict=True))
