"""What is left on a cluster that a migration leaves."""

from __future__ import annotations

from typing import Any, cast

from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupDescription, GroupListing, Topic
from mirror.model.partition import TopicPartition
from mirror.recovery.remaining import Remaining, find_remaining
from tests.unit.control.builders import flow_settings, topic


class Old:
    """The old cluster; every log has two records, but for those that are empty."""

    def __init__(self, *topics: str, **groups: int) -> None:
        self._topics, self._groups = topics, groups
        self.empty: set[str] = set()
        self.single: set[str] = set()
        self.untold: dict[TopicPartition, str] = {}
        self.hidden: set[str] = set()

    def groups(self) -> list[GroupListing]:
        return [GroupListing(each, "consumer", "", "") for each in sorted(self._groups)]

    def describe_groups(self, names: list[str]) -> Found[str, GroupDescription]:
        members = {each: self._groups.get(each, 0) for each in names if each not in self.hidden}
        return Found(
            {each: GroupDescription("Stable" if count else "Empty", count) for each, count in members.items()},
            {each: "not authorized" for each in names if each in self.hidden},
        )

    def topics(self) -> Found[str, Topic]:
        return Found({each: topic(each) for each in self._topics})

    def offsets(self, partitions: list[TopicPartition], which: str) -> Found[TopicPartition, int]:
        ends = {each: 5 if which == "latest" and each.topic not in self.empty else 3 for each in partitions}
        ends |= {each: 4 for each in partitions if which == "latest" and each.topic in self.single}
        return Found({each: at for each, at in ends.items() if each not in self.untold}, self.untold)


def left(old: Old, *moved: str) -> Remaining:
    return find_remaining(flow_settings("topics = orders"), cast(Any, old), moved)


def test_what_is_copied_and_moved_is_not_left_nor_what_mirrors_and_kafka_keep() -> None:
    old = Old("orders", "west.orders", "heartbeats", "mm2-offsets.west.internal", "__consumer_offsets", audit=0)
    assert left(old, "audit") == Remaining()


def test_groups_that_were_not_moved_or_read_again_and_topics_with_records_that_nobody_copies_are_named() -> None:
    old = Old("orders", "letters", "scratch", audit=2, billing=0, reports=1)
    old.empty.add("scratch")
    assert left(old, "audit", "billing") == Remaining(
        ("group audit (Stable, 2 members)", "group reports (Stable, 1 member)"),
        ("letters-0 (2 offsets, copied by nobody)",),
    )


def test_one_record_that_nobody_copies_is_left() -> None:
    old = Old("letters")
    old.single.add("letters")
    assert left(old).topics == ("letters-0 (1 offset, copied by nobody)",)


def test_what_is_not_told_may_be_left() -> None:
    old = Old("letters")
    old.untold[TopicPartition("letters", 0)] = "its leader does not answer"
    assert left(old).topics == ("letters-0 (its leader does not answer)",)


def test_a_group_that_has_a_checkpoint_and_that_is_hidden_may_be_left_and_one_that_is_gone_is_not() -> None:
    """A migration said that nothing remains, and that the cluster may be switched off."""
    old = Old(audit=0)
    old.hidden.add("billing")
    found = find_remaining(flow_settings("topics = orders"), cast(Any, old), ["audit"], ["audit", "billing", "gone"])
    assert found.groups == ("group billing (not authorized)",)
