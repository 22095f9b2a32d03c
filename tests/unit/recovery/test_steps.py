"""Steps as data: what a journal proves of them, what is taken back, and from where on nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mirror.evidence.facts import Json
from mirror.evidence.journal import Event, Journal
from mirror.kafka.batch import CorruptBatch, UnsupportedMagic
from mirror.kafka.problems import ClusterError
from mirror.kafka.security import UnsupportedSetting
from mirror.model.verdict import Verdict
from mirror.no_spark import SparkDidNotStart, SparkFailed
from mirror.recovery.steps import NOT_TAKEN_BACK, Known, Progress, Result, Step, StepResult, carry_out, take_back

PASS, FAIL, UNKNOWN = Verdict


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.jsonl")


@dataclass
class Acts:
    """Steps that do nothing but note that they were done, or taken back."""

    noted: list[str] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def step(self, name: str, **how: object) -> Step:
        """Return a step that passes unless ``verdicts`` says otherwise."""

        def act(_: Known) -> Result:
            self.noted.append(name)
            return Result(self.verdicts.get(name, PASS), "")

        def undo() -> Result:
            self.noted.append(f"back: {name}")
            return Result(self.verdicts.get(f"back: {name}", PASS), "")

        return Step(name, "", act, **{"undo": undo} | how)  # type: ignore[arg-type]


def found(results: Sequence[StepResult]) -> list[tuple[str, Verdict]]:
    return [(each.name, each.result.verdict) for each in results]


def progress(journal: Journal, *events: tuple[Event, str, Verdict | None]) -> Progress:
    for event, step, verdict in events:
        journal.append(event, step=step, facts={} if verdict is None else {"verdict": verdict.value})
    return Progress.of(journal.read().entries)


STARTED, UNDONE = (Event.STEP_STARTED, "cut", None), (Event.STEP_UNDONE, "cut", None)


@pytest.mark.parametrize("verdict", [PASS, UNKNOWN])
def test_a_step_is_proven_that_passed_and_has_not_been_begun_again_since(journal: Journal, verdict: Verdict) -> None:
    finished = (Event.STEP_FINISHED, "cut", verdict)
    seen = progress(journal, STARTED, finished)
    assert (set(seen.begun), set(seen.proven), set(seen.unknown)) == (
        {"cut"},
        {"cut"} if verdict is PASS else set(),
        set() if verdict is PASS else {"cut"},
    )
    again = progress(journal, STARTED)
    assert (set(again.begun), again.proven, again.unknown) == ({"cut"}, {}, {})


@pytest.mark.parametrize("verdict", [PASS, UNKNOWN])
def test_what_was_taken_back_is_neither_begun_nor_proven(journal: Journal, verdict: Verdict) -> None:
    seen = progress(journal, STARTED, (Event.STEP_FINISHED, "cut", verdict), UNDONE)
    assert (set(seen.begun), seen.proven, seen.unknown) == (set(), {}, {})


def test_a_step_that_fails_has_what_was_done_before_taken_back_the_last_first(journal: Journal) -> None:
    acts = Acts(verdicts={"groups": FAIL})
    steps = [acts.step(name) for name in ("begin", "cut", "groups", "start")]
    carry_out(steps, journal, goes_back=True)
    assert acts.noted == ["begin", "cut", "groups", "back: groups", "back: cut", "back: begin"]


def test_from_the_beginning_of_the_point_of_no_return_on_nothing_is_taken_back(journal: Journal) -> None:
    """Also if that very step fails: what it has begun others have seen."""
    acts = Acts(verdicts={"start": FAIL})
    steps = [acts.step("cut"), acts.step("start", is_point_of_no_return=True)]
    carry_out(steps, journal, goes_back=True)
    assert acts.noted == ["cut", "start"]
    assert found(take_back(steps, journal)) == [("back", FAIL)]
    assert acts.noted == ["cut", "start"]


def test_what_is_taken_back_already_is_said_to_be_so(journal: Journal) -> None:
    """A take-back that was killed at its last write is repeated."""
    acts = Acts()
    steps = [acts.step("cut"), acts.step("start", is_point_of_no_return=True)]
    carry_out(steps[:1], journal, goes_back=True)
    assert found(take_back(steps, journal)) == [("back: cut", PASS)]
    acts.noted.clear()
    (again,) = take_back(steps, journal)
    assert (again.name, again.result.verdict) == ("back", PASS)
    assert "nothing" in again.result.detail
    assert acts.noted == []


def test_what_nobody_has_seen_when_it_was_taken_back_is_unknown_in_the_next_call_too(journal: Journal) -> None:
    """The second call said that nothing of the run was left, and was PASS."""
    acts = Acts(verdicts={"back: stop": UNKNOWN})
    steps = [acts.step("begin"), acts.step("stop")]
    carry_out(steps, journal, goes_back=True)
    assert found(take_back(steps, journal)) == [("back: stop", UNKNOWN), ("back: begin", PASS)]
    assert found(take_back(steps, journal)) == [("back: stop", UNKNOWN)]
    carry_out(steps, journal, goes_back=True)
    acts.verdicts.clear()
    take_back(steps, journal)
    assert found(take_back(steps, journal)) == [("back", PASS)], "it was taken back again since, and seen"


def test_the_journal_says_what_could_not_be_taken_back(journal: Journal) -> None:
    def undo() -> Result:
        raise ClusterError("west", "resuming", "no answer")

    steps = [Acts().step("cut", undo=undo)]
    carry_out(steps, journal, goes_back=True)
    assert found(take_back(steps, journal)) == [("back: cut", FAIL)]
    (entry,) = [each for each in journal.read().entries if NOT_TAKEN_BACK in each.facts]
    assert (entry.step, entry.event) == ("cut", Event.NOTE)
    assert "no answer" in entry.facts[NOT_TAKEN_BACK]


@pytest.mark.parametrize(
    "problem",
    [
        UnsupportedSetting("ssl.engine.factory.class", "x", "leave it out"),
        CorruptBatch("offset 7: the checksum is another"),
        UnsupportedMagic("offset 7: magic 3"),
        SparkDidNotStart("is Java on the path?"),
        SparkFailed("comparing the copies: Spark's JVM has ended"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_a_cluster_its_settings_or_spark_do_to_a_step_fails_it_and_the_rest_is_taken_back(
    journal: Journal, problem: Exception
) -> None:
    """The process ended with a traceback, and the applications stayed stopped."""

    def fails(*_: Known) -> Result:
        raise problem

    acts = Acts()
    steps = [acts.step("stop"), acts.step("cut", undo=fails), Step("verify", "", fails)]
    results = carry_out(steps, journal, goes_back=True)
    assert found(results[2:]) == [("verify", FAIL), ("back: cut", FAIL), ("back: stop", PASS)]
    assert {each.result.detail for each in results[2:4]} == {str(problem)}
    looked = [Step("fence", "", lambda _: Result(PASS, ""), drift=fails), acts.step("start")]
    carry_out(looked[:1], journal, goes_back=False)
    assert found(carry_out(looked, journal, goes_back=False))[-1] == ("start", PASS)


def test_what_rests_on_something_that_is_not_so_any_more_is_taken_back_and_done_again(journal: Journal) -> None:
    acts = Acts()
    drift: dict[str, str] = {}
    steps = [acts.step("fence", drift=lambda _: drift.get("fence")), acts.step("drain"), acts.step("groups")]
    carry_out(steps, journal, goes_back=False)
    acts.noted.clear()
    drift["fence"] = "a log has grown"
    carry_out(steps, journal, goes_back=False)
    assert acts.noted == ["back: groups", "back: drain", "fence", "drain", "groups"]


def test_what_could_not_be_taken_back_is_so_before_what_it_rests_on_is_done_again(journal: Journal) -> None:
    """The target was away when the cut was to be taken back: what is drained anew must not be cut."""
    acts = Acts(verdicts={"verify": FAIL})
    is_away = [True]

    def undo() -> Result:
        acts.noted.append("back: cut")
        if is_away[0]:
            raise ClusterError("west", "writing", "no answer")
        return Result(PASS, "")

    steps = [acts.step("fence"), acts.step("drain"), acts.step("cut", undo=undo), acts.step("verify")]
    carry_out(steps, journal, goes_back=True)
    assert acts.noted[4:] == ["back: verify", "back: cut", "back: drain", "back: fence"]
    acts.noted.clear()
    results = carry_out(steps, journal, goes_back=True)
    assert found(results) == [("back: cut", FAIL)], "nothing is done while it is not"
    is_away[0], acts.verdicts["verify"] = False, PASS
    acts.noted.clear()
    carry_out(steps, journal, goes_back=True)
    assert acts.noted == ["back: cut", "fence", "drain", "cut", "verify"]


def test_what_nobody_has_looked_at_is_looked_at_again_and_what_is_behind_it_stays(journal: Journal) -> None:
    acts = Acts(verdicts={"stop": UNKNOWN})
    steps = [acts.step("stop"), acts.step("cut")]
    carry_out(steps, journal, goes_back=True)
    acts.noted.clear()
    carry_out(steps, journal, goes_back=True)
    assert acts.noted == ["stop"]


def away(_: Mapping[str, Json]) -> str | None:
    raise ClusterError("east", "listing", "no answer")


def test_what_cannot_be_looked_at_is_not_taken_to_be_so_still(journal: Journal) -> None:
    acts = Acts()
    carry_out([acts.step("cut", holds_on=True)], journal, goes_back=False)
    steps = [acts.step("cut", drift=away, holds_on=True), acts.step("start", is_point_of_no_return=True)]
    carry_out(steps, journal, goes_back=False)
    assert acts.noted == ["cut", "cut", "start"], "it is done again"
    results = carry_out(steps, journal, goes_back=False)
    assert found(results) == [("cut", FAIL)], "and behind the point of no return it ends the run"
    assert "it cannot be known: cluster east: listing: no answer" in results[0].result.detail


def test_the_journal_says_of_no_step_that_failed_when_it_happened(journal: Journal) -> None:
    acts = Acts(verdicts={"cut": FAIL})
    moment = {"moments": lambda facts: ((Event.CUT, facts),)}
    for verdict, events in ((FAIL, []), (UNKNOWN, [Event.CUT])):
        acts.verdicts["cut"] = verdict
        carry_out([acts.step("cut", **moment)], journal, goes_back=False)
        assert [each.event for each in journal.read().entries if each.event is Event.CUT] == events
