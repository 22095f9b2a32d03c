"""A fence is put up, looked after, and taken back on a cluster in memory: what is not in force is never called so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.control.flow_log import NeverRun
from mirror.kafka.acls import AclListing, NoAuthorizer
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import Partition, Topic
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.security import UnsupportedSetting
from mirror.model.acl import Acl, QuotaKey
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.verdict import Verdict
from mirror.recovery import fence
from mirror.recovery.fence import (
    FencePlan,
    apply_fence,
    copied_topics,
    denial,
    lift_fence,
    plan_fence,
    watch_fenced,
)
from mirror.recovery.fence_record import FenceRecord, QuotaChange
from mirror.recovery.sentinel import StillWritten, Watched

ORDERS = TopicPartition("orders", 0)
EVERY = QuotaKey((("client-id", None), ("user", None)), "producer_byte_rate")
SHOP = QuotaKey((("client-id", "shop"),), "producer_byte_rate")


@dataclass
class East:
    """The cluster: ACLs and limits, of which some may not take; ``path`` is where the fence is put on record."""

    path: Path
    acls: set[Acl] = field(default_factory=set)
    quotas: dict[QuotaKey, float] = field(default_factory=dict)
    has_authorizer: bool = True
    never_take: set[object] = field(default_factory=set)
    never_go: set[object] = field(default_factory=set)
    refused: dict[object, str] = field(default_factory=dict)
    watched: Watched = Watched()  # noqa: RUF009  # frozen
    was_on_record: list[bool] = field(default_factory=list)
    looked_at: list[TopicPartition] = field(default_factory=list)
    names: tuple[str, ...] = ("orders", "bills")
    hidden: tuple[str, ...] = ()
    cluster_id: str = "id of east"
    alias: str = "east"

    def __enter__(self) -> East:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topics(self, names: Collection[str] | None = None) -> Found[str, Topic]:
        there = {name: Topic(name, "id", (Partition(0, 1, 0, (1,), (1,)),), False) for name in self.names}
        hidden = {each: "TOPIC_AUTHORIZATION_FAILED" for each in self.hidden if each in (names or ())}
        return Found({name: each for name, each in there.items() if names is None or name in names}, hidden)

    def listing(self, *_: object) -> AclListing | NoAuthorizer:
        return AclListing(frozenset(self.acls)) if self.has_authorizer else NoAuthorizer("east")

    def create(self, _: object, acls: Iterable[Acl]) -> dict[Acl, str | None]:
        self.was_on_record.append(self.path.exists())
        told = {each: self.refused.get(each) for each in acls}
        self.acls |= {each for each, why in told.items() if why is None and each not in self.never_take}
        return told

    def delete(self, _: object, acls: Iterable[Acl]) -> dict[Acl, str | None]:
        told = {each: self.refused.get(each) for each in acls}
        self.acls -= {each for each, why in told.items() if why is None and each not in self.never_go}
        return told

    def alter(self, _: object, changes: Mapping[QuotaKey, float | None]) -> dict[QuotaKey, str | None]:
        for key, value in changes.items():
            if key in self.never_take:
                continue
            if value is None:
                self.quotas.pop(key, None)
            else:
                self.quotas[key] = value
        return dict.fromkeys(changes)

    def watch(self, _: object, partitions: Iterable[TopicPartition], **__: object) -> Watched:
        self.looked_at += partitions
        return self.watched


@pytest.fixture
def east(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> East:
    found = East(tmp_path / "fence.json")
    monkeypatch.setattr(fence.Cluster, "connect", lambda *_: found)
    monkeypatch.setattr(fence, "describe_acls", found.listing)
    monkeypatch.setattr(fence, "create_acls", found.create)
    monkeypatch.setattr(fence, "delete_acls", found.delete)
    monkeypatch.setattr(fence, "client_quotas", lambda _: dict(found.quotas))
    monkeypatch.setattr(fence, "alter_client_quotas", found.alter)
    monkeypatch.setattr(fence, "watch", found.watch)
    monkeypatch.setattr(fence, "watch_for", lambda _, partitions, __: found.watch(_, partitions))
    monkeypatch.setattr(fence, "_SPREAD_SECONDS", 0.05)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = e:1\nwest.bootstrap.servers = w:1\neast->west.enabled = true\n"
    )
    return load(file)


def planned(settings: MirrorSettings, east: East) -> FencePlan:
    return plan_fence(settings, "east", east.path, by="ann")


def test_a_fence_is_on_record_before_it_is_put_up_and_denies_what_was_not_denied(
    settings: MirrorSettings, east: East
) -> None:
    east.acls = {denial("bills")}
    fenced = apply_fence(planned(settings, east), settings, east.path)
    assert (fenced.verdict, east.was_on_record) == (Verdict.PASS, [True])
    assert east.acls == {denial("bills"), denial("orders")}
    assert sorted(east.looked_at) == [TopicPartition("bills", 0), ORDERS]
    lifted = lift_fence(settings, "east", east.path)
    assert (lifted.verdict, east.acls, east.path.exists()) == (Verdict.PASS, {denial("bills")}, False)


STILL = StillWritten(ORDERS, 5, 6)


@pytest.mark.parametrize(
    ("watched", "verdict"),
    [
        (Watched((STILL,)), Verdict.FAIL),
        (Watched(unknown={ORDERS: "no leader"}), Verdict.UNKNOWN),
        (Watched((STILL,), unknown={ORDERS: "no leader"}), Verdict.FAIL),
    ],
    ids=["written", "not seen", "both"],
)
def test_a_fence_is_proven_only_by_logs_that_were_seen_to_rest(
    settings: MirrorSettings, east: East, watched: Watched, verdict: Verdict
) -> None:
    east.watched = watched
    assert apply_fence(planned(settings, east), settings, east.path).verdict is verdict


@pytest.mark.parametrize(
    "spoil",
    [
        lambda east: east.refused.update({denial("orders"): "denied"}),
        lambda east: east.never_take.add(denial("orders")),
    ],
    ids=["refused", "never in force"],
)
def test_one_denial_that_is_not_in_force_fails_a_fence_and_nobody_is_watched(
    settings: MirrorSettings, east: East, spoil: Callable[[East], object]
) -> None:
    spoil(east)
    fenced = apply_fence(planned(settings, east), settings, east.path)
    assert (fenced.verdict, len(fenced.problems), east.looked_at) == (Verdict.FAIL, 1, [])


def test_who_is_only_held_back_by_quotas_is_not_known_to_be_silent(settings: MirrorSettings, east: East) -> None:
    east.has_authorizer, east.quotas = False, {SHOP: 5e6}
    fenced = apply_fence(planned(settings, east), settings, east.path)
    assert (fenced.verdict, east.quotas) == (Verdict.UNKNOWN, {EVERY: 1.0, SHOP: 1.0})
    assert lift_fence(settings, "east", east.path).verdict is Verdict.PASS
    assert east.quotas == {SHOP: 5e6}


def test_one_quota_that_is_not_in_force_fails_a_fence(settings: MirrorSettings, east: East) -> None:
    east.has_authorizer, east.never_take = False, {SHOP}
    east.quotas = {SHOP: 5e6}
    assert apply_fence(planned(settings, east), settings, east.path).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "spoil",
    [
        lambda east: east.refused.update({denial("orders"): "denied"}),
        lambda east: east.never_go.add(denial("orders")),
    ],
    ids=["refused", "still listed"],
)
def test_what_was_not_taken_back_stays_on_record_and_can_be_lifted_again(
    settings: MirrorSettings, east: East, spoil: Callable[[East], object]
) -> None:
    apply_fence(planned(settings, east), settings, east.path)
    spoil(east)
    lifted = lift_fence(settings, "east", east.path)
    assert (lifted.verdict, len(lifted.problems), east.path.exists()) == (Verdict.FAIL, 1, True)
    east.refused.clear()
    east.never_go.clear()
    assert lift_fence(settings, "east", east.path).verdict is Verdict.PASS


def test_the_record_of_another_cluster_is_neither_taken_up_nor_lifted(settings: MirrorSettings, east: East) -> None:
    """The alias names another cluster by now."""
    plan = planned(settings, east)
    FenceRecord("east", "id of another", "ann", 5, quotas={SHOP: QuotaChange(None, 1.0)}).save(east.path)
    for use in (
        lambda: planned(settings, east),
        lambda: lift_fence(settings, "east", east.path),
        lambda: apply_fence(replace(plan, record=FenceRecord.load(east.path)), settings, east.path),
    ):
        with pytest.raises(ConfigError, match="is the record of a fence of the cluster id of another"):
            use()
    assert (east.acls, east.quotas, east.path.exists()) == (set(), {}, True)


NEW = TopicPartition("new", 0)


def test_a_fence_that_is_put_up_again_and_leaves_a_topic_open_that_was_created_behind_it_is_unknown(
    settings: MirrorSettings, east: East
) -> None:
    apply_fence(planned(settings, east), settings, east.path)
    east.names = ("orders", "bills", "new")
    east.looked_at.clear()
    again = apply_fence(planned(settings, east), settings, east.path)
    assert denial("new") not in east.acls
    assert (again.verdict, NEW in east.looked_at) == (Verdict.UNKNOWN, False)
    (said,) = again.plan.lacking
    assert said.startswith("1 topic open, as new: it was created behind the fence")
    assert again.as_json()["lacking"] == [said]


def test_with_another_record_a_topic_that_was_created_behind_a_fence_is_denied_beside_it(
    settings: MirrorSettings, east: East
) -> None:
    apply_fence(planned(settings, east), settings, east.path)
    east.names = ("orders", "bills", "new")
    second = east.path.with_name("second.json")
    plan = plan_fence(settings, "east", second, by="ann")
    assert plan.record.acls == (denial("new"),)
    assert apply_fence(plan, settings, second).verdict is Verdict.PASS
    assert apply_fence(planned(settings, east), settings, east.path).verdict is Verdict.PASS


def test_a_fence_of_no_topic_is_unknown_and_says_which_right_may_be_lacking(
    settings: MirrorSettings, east: East
) -> None:
    """Brokers list no topics to who may not describe them."""
    east.names = ()
    found = apply_fence(planned(settings, east), settings, east.path)
    assert (found.verdict, east.acls) == (Verdict.UNKNOWN, set())
    (said,) = found.plan.lacking
    assert "grant Describe on the topics" in said


def test_a_topic_that_flows_have_copied_and_that_the_cluster_hides_is_fenced_and_that_is_no_pass(
    settings: MirrorSettings, east: East, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fence passed, and that topic stayed open."""
    state = FlowState(positions={TopicPartition("letters", 0): Position(5, 5, 0, complete=True)})

    def log(*_: object, alias: str) -> SimpleNamespace:
        if alias != "west":
            raise ConnectionFailed("it is away")
        return SimpleNamespace(observe=lambda: state, close=lambda: None)

    monkeypatch.setattr(fence, "FlowLog", log)
    known, untold = copied_topics(settings, "east")
    assert (known, untold) == ({"letters"}, ())
    east.hidden = ("letters",)
    found = apply_fence(plan_fence(settings, "east", east.path, by="ann", known=known), settings, east.path)
    assert (found.verdict, east.acls) == (Verdict.UNKNOWN, {denial(each) for each in ("bills", "letters", "orders")})
    assert any("1 topic of east not shown, such as letters" in each for each in found.plan.lacking)
    away = replace(settings, flows=(replace(settings.flows[0], flow=Flow("east", "south")),))
    monkeypatch.setitem(cast(Any, away.clusters), "south", settings.clusters["west"])
    known, (said,) = copied_topics(away, "east")
    assert (known, said) == (
        frozenset(),
        "producers of topics that east does not show and south has copied, of which south does not tell: it is away",
    )


@pytest.mark.parametrize(
    "problem", [UnsupportedSetting("ssl.keystore.location", "x.p12", "no such file"), OSError("x")]
)
def test_a_cluster_is_fenced_where_a_target_of_its_flows_cannot_be_reached_from_here(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """`mirror fence` ended with exit code 2, since the key store of another cluster was not on this machine."""

    def log(*_: object, alias: str) -> SimpleNamespace:
        raise problem

    monkeypatch.setattr(fence, "FlowLog", log)
    known, (said,) = copied_topics(settings, "east")
    assert (known, said.endswith(f"does not tell: {problem}")) == (frozenset(), True)


def test_a_flow_that_has_never_run_leaves_nothing_open(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log(*_: object, alias: str) -> SimpleNamespace:
        raise NeverRun(alias, "mm2-state.east.internal")

    monkeypatch.setattr(fence, "FlowLog", log)
    assert copied_topics(settings, "east") == (frozenset(), ())


def test_a_watch_looks_at_a_topic_that_was_created_behind_the_fence_too(settings: MirrorSettings, east: East) -> None:
    apply_fence(planned(settings, east), settings, east.path)
    east.names = ("orders", "bills", "new")
    east.looked_at.clear()
    assert watch_fenced(planned(settings, east), settings, 1.0).verdict is Verdict.PASS
    assert sorted(east.looked_at) == [TopicPartition("bills", 0), NEW, ORDERS]


def test_a_watch_of_nothing_is_unknown(settings: MirrorSettings, east: East) -> None:
    east.names = ()
    found = watch_fenced(planned(settings, east), settings, 1.0)
    assert (found.verdict, found.messages()) == (
        Verdict.UNKNOWN,
        ("east lists no topic that is watched: grant Describe on the topics",),
    )
