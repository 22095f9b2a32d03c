"""What of a file that has changed an engine takes in while it runs, and what needs a restart."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config.changes import LIVE, Changed, changed_keys, in_effect
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import parse
from mirror.config.resolving import settings_of
from mirror.config.settings import MirrorSettings
from mirror.model.flow import Flow

FILE = Path("mirror.properties")
BEGINNING = (
    "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
    "east->west.enabled = true\n"
)
FLOW = Flow("east", "west")


def config(more: str = "", beginning: str = BEGINNING) -> MirrorMakerConfig:
    return MirrorMakerConfig.of(parse(beginning + more, FILE))


def settings(more: str = "", beginning: str = BEGINNING) -> MirrorSettings:
    return settings_of(config(more, beginning), FILE)


def differing(one: Any, other: Any) -> set[str]:
    return {each.name for each in fields(one) if getattr(one, each.name) != getattr(other, each.name)}


# Of every key that is taken in another value than its default.
TAKEN = {
    "topics": "orders",
    "topics.exclude": "secret",
    "topics.blacklist": "secret",
    "topic.filter.class": "python:tests.unit.config.test_changes:Everything",
    "groups": "readers",
    "groups.exclude": "testers",
    "groups.blacklist": "testers",
    "group.filter.class": "python:tests.unit.config.test_changes:Everything",
    "config.properties.exclude": "retention.ms",
    "config.properties.blacklist": "retention.ms",
    "config.property.filter.class": "python:tests.unit.config.test_changes:Everything",
    "east->west.use.defaults.from": "source",
    "refresh.topics.enabled": "false",
    "refresh.topics.interval.seconds": "7",
    "mirror.discovery.seconds": "7",
    "refresh.groups.enabled": "false",
    "refresh.groups.interval.seconds": "7",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "7",
    "sync.topic.configs.enabled": "false",
    "sync.topic.configs.interval.seconds": "7",
    "sync.topic.acls.enabled": "false",
    "sync.topic.acls.interval.seconds": "7",
    "emit.checkpoints.enabled": "false",
    "emit.checkpoints.interval.seconds": "7",
    "emit.heartbeats.interval.seconds": "7",
    "heartbeats.replication.enabled": "false",
    "metric.names.formats": "new",
    "offset.lag.max": "7",
    "replication.factor": "1",
    "mirror.acls.prefixed": "true",
    "mirror.acls.groups": "true",
    "mirror.acls.transactional.ids": "true",
    "mirror.acls.wildcard": "all",
    "mirror.acls.remove.revoked": "true",
    "mirror.acls.scram.users": "true",
    "mirror.acls.client.quotas": "true",
    "mirror.commit.interval.ms": "7",
    "mirror.epoch.seconds": "7",
    "mirror.status.cliff.seconds": "7",
}


class Everything:
    """A filter of one's own."""

    def should_replicate_topic(self, _: str) -> bool:
        return True

    should_replicate_group = should_replicate_config_property = should_replicate_topic


def test_every_key_that_is_taken_is_tried() -> None:
    assert {key.removeprefix("east->west.") for key in TAKEN} == LIVE


@pytest.mark.parametrize("key", TAKEN)
def test_what_is_taken_is_in_effect_and_told_with_its_line(key: str) -> None:
    # What an exclude list was called before is read by the rules of that time.
    old = "mirror.compatibility = 3.9\n" if key.endswith("blacklist") else ""
    line = f"{key} = {TAKEN[key]}\n"
    running, new = settings(old), settings(old + line)
    assert (running.flows, running.engine) != (new.flows, new.engine)
    assert in_effect(running, new) == new
    taken, waiting = changed_keys(config(old), config(old + line))
    number = len((BEGINNING + old).splitlines()) + 1
    assert waiting == []
    # One that is read under another name alone is followed, and not named.
    assert taken == [Changed(number, key)] or (key.endswith("blacklist") and taken == [])


@pytest.mark.parametrize(
    "line",
    [
        "mirror.tasks = 3",
        "mirror.gaps = stop",
        "mirror.offsets = same",
        "mirror.compatibility = 3.9",
        "mirror.status.port = 8083",
        "mirror.leader.timeout.seconds = 9",
        "replication.policy.separator = _",
        "emit.offset-syncs.enabled = false",
        "east->west.consumer.isolation.level = read_committed",
        "west.exactly.once.source.support = enabled",
        "mirror.oversized.records = park",
    ],
)
def test_what_is_held_on_to_waits_for_a_restart_and_its_value_is_not_told(line: str) -> None:
    running, new = settings(), settings(line)
    assert in_effect(running, new) == replace(running, ignored=new.ignored) != new
    taken, waiting = changed_keys(config(), config(line))
    assert taken == []
    assert [str(each) for each in waiting] == [f"line 5, {line.partition(' ')[0]}"]


def test_a_login_waits_for_a_restart_and_its_value_is_not_told_where_the_protocol_asks_for_one() -> None:
    login = "east.sasl.jaas.config = com.example.Login required password=geheim;"
    protocol = "east.security.protocol = SASL_SSL\n"
    _, waiting = changed_keys(config(protocol), config(protocol + login))
    assert [str(each) for each in waiting] == ["line 6, east.sasl.jaas.config"]
    assert changed_keys(config(), config(login)) == ([], []), "nothing reads it"


def test_of_several_changes_each_goes_its_way() -> None:
    before = "topics = orders\nmirror.tasks = 2\n"
    now = "mirror.tasks = 3\ntopics = orders, bills\n"
    found = in_effect(settings(before), settings(now))
    flow = found.flow(FLOW)
    assert flow is not None
    assert flow.replicates("bills")
    assert found.engine.tasks == 2
    assert changed_keys(config(before), config(now)) == ([Changed(6, "topics")], [Changed(5, "mirror.tasks")])


def test_a_key_that_is_gone_is_told_without_a_line() -> None:
    taken, waiting = changed_keys(config("topics = orders\nmirror.tasks = 2\n"), config())
    assert list(map(str, taken + waiting)) == ["topics, which is gone", "mirror.tasks, which is gone"]


def test_a_flow_that_comes_or_goes_needs_a_restart_with_all_that_is_its_own() -> None:
    more = "west->east.enabled = true\nwest->east.topics = bills\n"
    running = settings("emit.heartbeats.enabled = false\n")
    new = settings("emit.heartbeats.enabled = false\n" + more)
    assert in_effect(running, new) == running
    _, waiting = changed_keys(*(config("emit.heartbeats.enabled = false\n" + each) for each in ("", more)))
    assert [each.key for each in waiting] == ["west->east.enabled", "west->east.topics"]
    assert in_effect(new, running) == new


def test_what_has_no_effect_is_not_told() -> None:
    assert changed_keys(config(), config("consumer.poll.timeout.ms = 7\n")) == ([], [])


def test_the_same_file_read_twice_differs_in_nothing() -> None:
    more = (
        "topic.filter.class = python:tests.unit.config.test_changes:Everything\n"
        "east->west.transforms = route\n"
        "east->west.transforms.route.type = org.apache.kafka.connect.transforms.RegexRouter\n"
        "east->west.transforms.route.regex = (.*)\neast->west.transforms.route.replacement = new-$1\n"
    )
    assert settings(more) == settings(more)
    assert changed_keys(config(more), config(more)) == ([], [])
