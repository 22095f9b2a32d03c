"""What a fence adds, what it leaves open, and that it is taken back as it was put on record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.kafka.answers import Found
from mirror.kafka.problems import BrokerRefused
from mirror.model.acl import Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.recovery import fence
from mirror.recovery.fence import (
    Fenced,
    Lifted,
    _partitions,
    _quotas_to_put_back,
    _warnings,
    bare_topics_warning,
    denial,
    is_denied,
    own_topics,
    plan_fence,
    planned_quotas,
    watch_fenced,
)
from mirror.recovery.fence_record import FenceRecord, QuotaChange
from mirror.recovery.sentinel import StillWritten, Watched

RATE = "producer_byte_rate"
EVERY = QuotaKey((("client-id", None), ("user", None)), RATE)
SHOP = QuotaKey((("client-id", "shop"),), RATE)
ANN = QuotaKey((("client-id", "shop"), ("user", "ann")), RATE)
RECORD = FenceRecord(
    "east", "id of east", "ann", 5, (denial("orders"),), {EVERY: QuotaChange(None, 1.0), SHOP: QuotaChange(5e6, 1.0)}
)


def settings(tmp_path: Path, *more: str) -> MirrorSettings:
    file = tmp_path / "mirror.properties"
    lines = ("clusters = east, west", "east.bootstrap.servers = e:1", "west.bootstrap.servers = w:1", *more)
    file.write_text("\n".join(lines))
    return load(file)


def test_a_denial_is_one_that_is_not_carried_to_other_clusters() -> None:
    assert denial("orders").is_fence


def test_what_is_denied_already_is_known_by_name_prefix_or_for_all() -> None:
    def deny(pattern: Pattern, name: str, operation: Operation = Operation.WRITE, host: str = "*") -> Acl:
        return Acl(Resource.TOPIC, pattern, name, "User:*", host, operation, Permission.DENY)

    assert is_denied("orders", [deny(Pattern.LITERAL, "orders")])
    assert is_denied("orders", [deny(Pattern.LITERAL, "*", Operation.ALL)])
    assert is_denied("orders", [deny(Pattern.PREFIXED, "ord")])
    assert not is_denied("orders", [deny(Pattern.LITERAL, "ord"), deny(Pattern.PREFIXED, "orders-")])
    assert not is_denied("orders", [deny(Pattern.LITERAL, "orders", host="10.0.0.1")])


def test_topics_without_acls_may_be_closed_to_readers_and_that_is_said() -> None:
    allowed = Acl(Resource.TOPIC, Pattern.PREFIXED, "ord", "User:ann", "*", Operation.ALL, Permission.ALLOW)
    assert bare_topics_warning(["orders"], [allowed]) == ()
    (said,) = bare_topics_warning(["orders", "bills"], [allowed])
    assert said.startswith("1 topic without any ACL, such as bills: ")


def test_every_limit_of_producers_is_lowered_and_no_other() -> None:
    reading = QuotaKey((("user", "ann"),), "consumer_byte_rate")
    address = QuotaKey((("ip", "10.0.0.1"),), "connection_creation_rate")
    assert planned_quotas({SHOP: 5e6, ANN: 7.0, reading: 9.0, address: 2.0}) == {
        EVERY: QuotaChange(None, 1.0),
        SHOP: QuotaChange(5e6, 1.0),
        ANN: QuotaChange(7.0, 1.0),
    }
    assert planned_quotas({EVERY: 3.0}) == {EVERY: QuotaChange(3.0, 1.0)}


@pytest.mark.parametrize(
    ("now", "back", "left"),
    [
        ({EVERY: 1.0, SHOP: 1.0}, {EVERY: None, SHOP: 5e6}, 0),
        # Cut off in the middle: the others are as they were.
        ({EVERY: 1.0, SHOP: 5e6}, {EVERY: None}, 0),
        ({SHOP: 5e6}, {}, 0),
        # Somebody has set it since.
        ({EVERY: 1.0, SHOP: 8.0}, {EVERY: None}, 1),
        ({EVERY: 1.0}, {EVERY: None}, 1),
    ],
)
def test_limits_are_put_back_that_are_still_as_the_fence_set_them(
    now: Mapping[QuotaKey, float], back: Mapping[QuotaKey, float | None], left: int
) -> None:
    found, named = _quotas_to_put_back(RECORD, now)
    assert (found, len(named)) == (back, left)


def test_mirrors_go_on_with_copies_and_side_topics(tmp_path: Path) -> None:
    both = settings(tmp_path, "east->west.enabled = true", "west->east.enabled = true")
    why = own_topics(both, "east")
    assert why("orders") is None
    assert why("west.orders") == "it is a copy, which mirrors alone write to"
    assert why("heartbeats") == "heartbeats are written there"
    for side in ("mm2-offset-syncs.west.internal", "mm2-state.west.internal", "west.checkpoints.internal"):
        assert why(side) == "mirrors keep their own records there", side
    assert _warnings(both, "east", ["orders"]) == ()


def test_what_mirrors_write_for_themselves_is_not_watched_where_producers_are_only_held_back(tmp_path: Path) -> None:
    """The state topic and heartbeats of a flow back that runs made the watch FAIL, with nobody else at work."""
    both = settings(tmp_path, "east->west.enabled = true", "west->east.enabled = true")
    names = ("orders", "west.orders", "heartbeats", "mm2-state.west.internal")
    topics = Found({name: SimpleNamespace(partitions=[SimpleNamespace(partition=0)]) for name in names})
    east: Any = SimpleNamespace(alias="east", topics=lambda _=None: topics)
    plan: Any = SimpleNamespace(by_quotas=True, fenced=())
    assert _partitions(east, plan, both, ()) == ([TopicPartition("orders", 0)], None)


class Hiding:
    """The cluster east: of the topics that are denied it shows orders; of bills it tells nothing; stock is gone."""

    alias, cluster_id = "east", "id of east"

    def __enter__(self) -> Hiding:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topics(self, names: Collection[str] | None = None) -> Found[str, Any]:
        seen = {"orders": SimpleNamespace(partitions=[SimpleNamespace(partition=0)])}
        return Found(seen, dict.fromkeys({"bills"} & set(names or ()), "TOPIC_AUTHORIZATION_FAILED"))


def test_a_fence_of_which_a_topic_cannot_be_seen_is_not_said_to_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of three topics was watched, and the verdict was PASS: of the others brokers tell nothing to this login."""
    record = FenceRecord("east", "id of east", "ann", 5, tuple(map(denial, ("bills", "orders", "stock"))))
    path = tmp_path / "fence.json"
    record.save(path)
    watched: list[TopicPartition] = []
    monkeypatch.setattr(fence.Cluster, "connect", lambda *_: Hiding())
    monkeypatch.setattr(fence, "describe_acls", lambda *_: SimpleNamespace(acls=set(record.acls)))
    monkeypatch.setattr(fence, "watch_for", lambda _, partitions, __: watched.extend(partitions) or Watched())
    both = settings(tmp_path, "east->west.enabled = true")
    plan = plan_fence(both, "east", path, by="ann")
    assert plan.unseen == ("bills",)
    found = watch_fenced(plan, both, 1.0)
    assert watched == [TopicPartition("orders", 0)]
    assert (found.verdict, Fenced(plan).verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert found.lacking == "; ".join(plan.lacking)
    assert "1 topic of east not shown, such as bills" in "; ".join(plan.lacking)


def test_who_writes_is_named_also_where_the_writers_of_flows_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login without READ on the state topic saw the error alone, and not who writes."""
    written = StillWritten(TopicPartition("orders", 0), 1, 2)

    def denied(*_: object) -> None:
        raise BrokerRefused("east: reading mm2-state.west.internal-0", 29)

    monkeypatch.setattr(fence.Cluster, "connect", lambda *_: Hiding())
    monkeypatch.setattr(fence, "watch_for", lambda *_: Watched((written,)))
    monkeypatch.setattr(fence, "mirrors_of", denied)
    monkeypatch.setattr(fence, "describe_acls", lambda *_: SimpleNamespace(acls=set()))
    both = settings(tmp_path, "east->west.enabled = true", "west->east.enabled = true")
    found = watch_fenced(plan_fence(both, "east", tmp_path / "fence.json", by="ann"), both, 1.0)
    assert (found.verdict, found.written) == (Verdict.FAIL, (written,))
    assert "whether a flow of the file is among them is not known: east: reading mm2-state" in str(found.lacking)


def test_with_unchanged_names_the_flow_that_writes_to_what_is_fenced_is_named(tmp_path: Path) -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    both = settings(tmp_path, identity, "east->west.enabled = true", "west->east.enabled = true")
    assert own_topics(both, "east")("orders") is None
    (said,) = _warnings(both, "east", ["orders"])
    assert said.startswith("west->east writes to what is fenced")


def test_the_record_is_read_back_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "fence.json"
    RECORD.save(path)
    assert FenceRecord.load(path) == RECORD
    with pytest.raises(ConfigError, match=r"fence\.json"):
        RECORD.save(path)


@pytest.mark.parametrize("content", ["", "{}", '{"kind": "fence of a cluster", "version": 2}', "[1]"])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "fence.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"fence\.json"):
        FenceRecord.load(path)
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        FenceRecord.load(tmp_path / "nowhere.json")


def test_who_lifts_a_fence_by_quotas_is_told_of_connections_that_stay_held_back() -> None:
    (note,) = Lifted(RECORD).notes
    assert "restart applications that do not write by now" in note
    assert Lifted(replace(RECORD, quotas={})).notes == ()
