"""Denied writes over several runs: whoever gives another run up answers for what that one has denied."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.evidence.journal import Event, Journal
from mirror.kafka.acls import AclListing
from mirror.kafka.answers import Found
from mirror.kafka.problems import ClusterError
from mirror.model.acl import Acl
from mirror.model.verdict import Verdict
from mirror.recovery import denying, fence, procedure
from mirror.recovery.denying import AclDenying, admit_step
from mirror.recovery.failover import Mode
from mirror.recovery.move import Times
from mirror.recovery.procedure import Procedure, Request, plan_failback, plan_failover
from mirror.recovery.sentinel import Watched
from mirror.recovery.steps import StepResult, carry_out, take_back
from tests.unit.recovery.world import EAST, ORDERS, Killed, StandInApplications, StandInEnds, World


@dataclass
class East:
    """The topics and ACLs of a cluster. ``refuses`` is why it changes no ACL."""

    acls: set[Acl] = field(default_factory=set)
    names: list[str] = field(default_factory=lambda: ["bills", "orders"])
    hidden: list[str] = field(default_factory=list)
    refuses: str | None = None
    alias: str = EAST
    cluster_id: str = "id of east"

    def topics(self, names: Collection[str] | None = None) -> Found[str, Any]:
        problems = {each: "TOPIC_AUTHORIZATION_FAILED" for each in self.hidden if each in (names or ())}
        shown = {each: SimpleNamespace(partitions=[]) for each in self.names if names is None or each in names}
        return Found(shown, problems)

    def create(self, _: object, acls: Collection[Acl]) -> dict[Acl, str | None]:
        if self.refuses is None:
            self.acls |= {*acls}
        return dict.fromkeys(acls, self.refuses)

    def delete(self, _: object, acls: Collection[Acl]) -> dict[Acl, str | None]:
        if self.refuses is None:
            self.acls -= {*acls}
        return dict.fromkeys(acls, self.refuses)

    def denied(self) -> list[str]:
        return [each for each in self.names if fence.is_denied(each, self.acls)]


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> East:
    made = East()

    @contextmanager
    def connect(_: object) -> Iterator[East]:
        yield made

    for module in (fence, denying):
        monkeypatch.setattr(module, "Cluster", SimpleNamespace(connect=connect))
        monkeypatch.setattr(module, "describe_acls", lambda *_: AclListing(frozenset(made.acls)))
    monkeypatch.setattr(fence, "create_acls", made.create)
    monkeypatch.setattr(fence, "delete_acls", made.delete)
    monkeypatch.setattr(fence, "alter_client_quotas", lambda *_: {})
    monkeypatch.setattr(fence, "watch", lambda *_, **__: Watched())
    return made


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def ends(_: object, chosen: Any, *__: object, **___: object) -> StandInEnds:
        return StandInEnds(made, chosen.flow)

    monkeypatch.setattr(procedure, "_ends", ends)
    monkeypatch.setattr(procedure, "_TIMES", Times(quiet=0.0, fence=0.3, drain=0.3, seen=0.0))
    return made


def settings(tmp_path: Path, *more: str) -> MirrorSettings:
    file = tmp_path / "mirror.properties"
    lines = ("clusters=east,west", "east.bootstrap.servers=e:1", "west.bootstrap.servers=w:1")
    file.write_text("\n".join((*lines, "east->west.enabled=true", "west->east.enabled=true", *more)))
    return load(file)


def _unseen() -> Any:
    raise AssertionError


def request(world: World, directory: Path, *, fences: bool = False, given_up: str | None = None) -> Request:
    found = settings(directory.parent)
    flow = next(each for each in found.enabled_flows if each.flow.source == EAST)
    applications = StandInApplications(world)
    return Request(found, flow, None, directory, lambda _: applications, _unseen, given_up=given_up, fences=fences)


def results(planned: Procedure, *, takes_back: bool = False) -> dict[str, StepResult]:
    return {each.name: each for each in planned.carry_out(takes_back=takes_back)}


def killed_behind_denying(world: World, directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Begin a planned run that denies writes, and end it behind that; return the run."""

    def dies(_: object) -> Any:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(StandInEnds, "open_transactions", dies)
        planned = plan_failover(request(world, directory, fences=True), Mode.PLANNED)
        with pytest.raises(Killed):
            planned.carry_out()
    return planned.run.run


@pytest.mark.parametrize("fences", [True, False], ids=["--fence", "without"])
def test_what_a_run_has_denied_that_is_given_up_is_admitted_on_the_way_home(
    world: World, east: East, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fences: bool
) -> None:
    first = killed_behind_denying(world, tmp_path / "a", monkeypatch)
    assert east.denied() == ["bills", "orders"]
    there = results(plan_failover(request(world, tmp_path / "b", fences=fences, given_up=first), Mode.PLANNED))
    assert {each.result.verdict for each in there.values()} == {Verdict.PASS}
    assert str(tmp_path / "a" / "fence.json") in there["deny writes"].result.detail
    home = results(plan_failback(request(world, tmp_path / "b")))
    assert (east.denied(), home["admit writes"].result.verdict) == ([], Verdict.PASS)
    assert "2 ACLs removed" in home["admit writes"].result.detail


@pytest.mark.parametrize("fences", [True, False], ids=["--fence", "without"])
def test_what_a_run_has_denied_that_is_given_up_is_admitted_by_taking_back(
    world: World, east: East, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fences: bool
) -> None:
    """The applications are started where they were, and must be able to write."""
    first = killed_behind_denying(world, tmp_path / "a", monkeypatch)
    world.verdict = Verdict.FAIL
    back = results(plan_failover(request(world, tmp_path / "b", fences=fences, given_up=first), Mode.PLANNED))
    assert (east.denied(), world.at_work, world.record) == ([], {EAST}, {})
    assert back["back: begin"].result.verdict is Verdict.PASS


def test_an_unplanned_run_leads_home_what_a_planned_one_has_denied(
    world: World, east: East, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = killed_behind_denying(world, tmp_path / "a", monkeypatch)
    world.is_up[EAST] = False

    def away(*_: object) -> Any:
        raise ClusterError(EAST, "reading its ACLs", "it does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(denying, "describe_acls", away)
        there = results(plan_failover(request(world, tmp_path / "b", given_up=first), Mode.UNPLANNED))
    assert "whether writes to east are denied is not known" in there["deny writes"].result.detail
    assert {each.result.verdict for each in there.values()} == {Verdict.PASS}
    world.is_up[EAST] = True
    assert results(plan_failback(request(world, tmp_path / "b")))["admit writes"].result.verdict is Verdict.PASS
    assert east.denied() == []


def test_what_stays_denied_by_whom_nobody_knows_is_no_pass(world: World, east: East, tmp_path: Path) -> None:
    """Somebody has denied one topic more since; before the failover another one was denied."""
    archived, later = fence.denial("bills"), fence.denial("refunds")
    east.acls.add(archived)
    there = results(plan_failover(request(world, tmp_path / "a", fences=True), Mode.PLANNED))
    assert there["deny writes"].result.verdict is Verdict.PASS
    east.names.append("refunds")
    east.acls.add(later)
    home = results(plan_failback(request(world, tmp_path / "a")))
    assert home["admit writes"].result.verdict is Verdict.FAIL
    assert "writes to refunds of east are still denied" in home["admit writes"].result.detail
    assert "start" not in home
    east.acls.remove(later)
    home = results(plan_failback(request(world, tmp_path / "a")))
    assert (home["admit writes"].result.verdict, east.acls) == (Verdict.PASS, {archived})


def test_a_fence_of_nothing_denies_nothing(world: World, east: East, tmp_path: Path) -> None:
    """On record by another run, whose ACLs somebody has removed; or there is no topic that is meant."""
    found = request(world, tmp_path / "a")
    fenced = AclDenying(found.settings, found.chosen, tmp_path / "fence.json")
    east.acls |= {fence.denial("bills"), fence.denial("orders")}
    assert fenced.deny().is_denied
    assert fenced.deny().detail.startswith("nobody but super users may write to 2 topics of east")
    east.acls.clear()
    taken_up = fenced.deny()
    assert (taken_up.is_denied, "no topic that is denied" in taken_up.detail) == (False, True)
    east.names.clear()
    assert not AclDenying(found.settings, found.chosen, tmp_path / "other.json").deny().is_denied


@pytest.mark.parametrize(
    ("watched", "words"),
    [
        (Watched(unknown={ORDERS: "it has no leader"}), "orders-0 is not known: it has no leader"),
        (Watched(lacking="1 topic of east not shown"), "1 topic of east not shown"),
    ],
)
def test_what_is_denied_where_nobody_could_look_whether_it_holds_is_no_pass(
    world: World, east: East, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Watched, words: str
) -> None:
    """It was PASS: "verified"."""
    monkeypatch.setattr(fence, "watch", lambda *_, **__: watched)
    if watched.lacking is not None:
        monkeypatch.setattr(fence, "_partitions", lambda *_: ([], watched.lacking))
    there = results(plan_failover(request(world, tmp_path / "a", fences=True), Mode.PLANNED))
    denied = there["deny writes"].result
    assert (denied.verdict, denied.facts["denied"]) == (Verdict.UNKNOWN, True)
    assert f"; nobody could look at: {words}" in denied.detail
    assert there["start"].result.verdict is Verdict.PASS, "writes are denied all the same, and the run goes on"


def test_what_is_hidden_of_what_a_run_has_denied_before_is_not_known_to_be_denied(
    world: World, east: East, tmp_path: Path
) -> None:
    """A run that is taken up looks at what its own record names: it passed without the one that was not shown."""
    found = request(world, tmp_path / "a")
    fenced = AclDenying(found.settings, found.chosen, tmp_path / "fence.json")
    assert fenced.deny().is_denied
    east.names.remove("bills")
    east.hidden.append("bills")
    again = fenced.deny()
    assert (again.is_denied, again.unseen) == (False, ("bills is not shown (grant Describe on it)",))


def test_a_copied_topic_that_is_hidden_is_denied_by_its_name_and_is_no_pass(
    world: World, east: East, tmp_path: Path
) -> None:
    """A cut-off failover said "nobody but super users may write to 1 topic, verified"; the other one stayed open."""
    east.names.remove("orders")
    east.hidden.append("orders")
    planned = plan_failover(request(world, tmp_path / "a", fences=True), Mode.CUT_OFF)
    assert any("1 topic of east not shown, such as orders" in each for each in planned.plan.notes)
    denied = results(planned)["deny writes"].result
    assert east.acls == {fence.denial("bills"), fence.denial("orders")}
    assert (denied.verdict, denied.facts["denied"]) == (Verdict.UNKNOWN, False)
    assert denied.detail.endswith("nobody could look at: orders is not shown (grant Describe on it)")
    results(plan_failback(request(world, tmp_path / "a")))
    assert east.acls == set(), "by what is on record"


def test_a_failback_that_is_taken_back_denies_again_as_before(world: World, east: East, tmp_path: Path) -> None:
    found = request(world, tmp_path / "a")
    fenced = AclDenying(found.settings, found.chosen, tmp_path / "fence.json")
    assert fenced.deny().is_denied
    before = set(east.acls)
    (step,) = steps = (admit_step(EAST, fenced, lambda undo: undo),)
    journal = Journal(tmp_path / "journal.jsonl")
    assert carry_out(steps, journal, goes_back=True)[0].result.verdict is Verdict.PASS
    assert east.acls == set()
    east.refuses = "ALTER on the cluster is not allowed"
    (refused,) = take_back(steps, journal)
    assert (refused.result.verdict, "are admitted" in refused.result.detail) == (Verdict.FAIL, True)
    east.refuses = None
    (back,) = take_back(steps, journal)
    assert (back.name, back.result.detail) == (f"back: {step.name}", "writes to east are denied again")
    assert (east.acls, (tmp_path / "fence.json").exists()) == (before, True)
    assert "2 ACLs removed" in fenced.admit()


def test_a_run_that_denies_writes_does_so_when_it_is_taken_up_without_saying_it(
    world: World, east: East, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that is printed to go on names the run directory alone; what was denied is taken back before."""
    run = tmp_path / "run"
    world.open_transactions = ("orders-0: producer id 5",)
    failed = results(plan_failover(request(world, run, fences=True), Mode.PLANNED))
    assert (failed["fence"].result.verdict, east.denied()) == (Verdict.FAIL, [])
    world.open_transactions = ()
    again = results(plan_failover(request(world, run), None))
    assert (again["deny writes"].result.verdict, east.denied()) == (Verdict.PASS, ["bills", "orders"])


def test_whether_a_run_denies_writes_is_settled_when_it_begins(world: World, east: East, tmp_path: Path) -> None:
    world.verdict = Verdict.FAIL
    results(plan_failover(request(world, tmp_path / "run"), Mode.PLANNED))
    with pytest.raises(ConfigError, match="--fence: its run is of fence no, not yes"):
        plan_failover(request(world, tmp_path / "run", fences=True), Mode.PLANNED)
    assert east.denied() == []


def test_a_run_that_is_over_passes_for_nothing_once_the_applications_have_moved_again(
    world: World, tmp_path: Path
) -> None:
    """Its directory named once more, it said that the applications are on the old cluster: they were on the new one."""
    there = plan_failover(request(world, tmp_path / "a"), Mode.PLANNED)
    assert {each.result.verdict for each in there.carry_out()} == {Verdict.PASS}
    home = results(plan_failback(request(world, tmp_path / "a")))
    assert {each.result.verdict for each in home.values()} == {Verdict.PASS}
    assert plan_failback(request(world, tmp_path / "a")).plan.refusal is None, "looked at again it is still so"
    spent = plan_failover(request(world, tmp_path / "a"), Mode.PLANNED).plan.refusal
    assert spent is not None
    assert "this failover is finished, and off the record of west" in spent
    again = plan_failover(request(world, tmp_path / "b"), Mode.PLANNED)
    assert {each.result.verdict for each in again.carry_out()} == {Verdict.PASS}
    refusal = plan_failback(request(world, tmp_path / "a")).plan.refusal
    assert refusal is not None
    assert "this failback is finished, and east->west was failed over again since" in refusal
    assert str(tmp_path / "b") in refusal


def test_a_failback_that_ended_right_before_its_last_line_passes_for_nothing_either(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had on record was off it, so that another failover went through."""
    plan_failover(request(world, tmp_path / "a"), Mode.PLANNED).carry_out()
    append = Journal.append

    def dies(journal: Journal, event: Event, **facts: Any) -> Any:
        if event is Event.STEP_FINISHED and facts.get("step") == "finish":
            raise Killed
        return append(journal, event, **facts)

    home = plan_failback(request(world, tmp_path / "home"))
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", dies)
        with pytest.raises(Killed):
            home.carry_out()
    assert {
        each.result.verdict for each in plan_failover(request(world, tmp_path / "b"), Mode.PLANNED).carry_out()
    } == {Verdict.PASS}
    refusal = plan_failback(request(world, tmp_path / "home")).plan.refusal
    assert refusal is not None
    assert "was failed over again since" in refusal
