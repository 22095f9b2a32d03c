"""A misspelt key is refused, or told, with what may have been meant; what a plugin may read is not refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load

GOOD = (
    "clusters = east, west",
    "east.bootstrap.servers = e:1",
    "west.bootstrap.servers = w:1",
    "east->west.enabled = true",
)


def file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text("\n".join((*GOOD, *lines)))
    return path


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("east->west.topic = .*", "east->west.topics"),
        ("east->west.topicz = orders", "east->west.topics"),
        ("west->east.emit.chekpoints.enabled = false", "west->east.emit.checkpoints.enabled"),
        ("east->west.sync.group.offset.enabled = true", "east->west.sync.group.offsets.enabled"),
        ("topic = orders", "topics"),
        ("refresh.topic.interval.seconds = 5", "refresh.topics.interval.seconds"),
        ("mirror.epoch.second = 5", "mirror.epoch.seconds"),
        ("east.sasl.jass.config = x", "east.sasl.jaas.config"),
        ("west.securty.protocol = SSL", "west.security.protocol"),
        ("west.exactly.once.source.suport = enabled", "west.exactly.once.source.support"),
        ("east->west.replication.policy.separater = _", "east->west.replication.policy.separator"),
        ("replication.policy.separater = _", "replication.policy.separator"),
    ],
)
def test_a_key_that_is_nearly_a_known_one_is_refused_with_that_one(tmp_path: Path, line: str, meant: str) -> None:
    """CFG-078, CFG-090."""
    with pytest.raises(ConfigError, match="no such key") as refused:
        load(file(tmp_path, line))
    assert refused.value.line == 5
    assert refused.value.key == line.partition(" ")[0]
    assert f"did you mean {meant}?" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "key", "meant"),
    [
        ("east -> west.topics = orders", "east", "east->west.topics"),
        ("east ->west.topics = orders", "east", "east->west.topics"),
        ("east-> west.topics = orders", "east->", "east->west.topics"),
        ("east=>west.topics = orders", "east", "east->west.topics"),
        ("west -> east.enabled: true", "west", "west->east.enabled"),
        ("new -> west.enabled true", "new", "new->west.enabled"),
    ],
)
def test_a_flow_that_a_blank_has_cut_is_refused(tmp_path: Path, line: str, key: str, meant: str) -> None:
    """A blank ends a key: such a line was of no flow, and all topics were planned."""
    with pytest.raises(ConfigError) as refused:
        load(file(tmp_path, line))
    assert (refused.value.line, refused.value.key) == (5, key)
    assert f"write {meant}" in str(refused.value)
    alone = file(tmp_path, line)
    alone.write_text(alone.read_text().replace("east->west.enabled = true", ""))
    with pytest.raises(ConfigError, match=f"write {meant}"):
        load(alone)


@pytest.mark.parametrize("sign", [",", ";", "/"])
def test_a_flow_with_another_sign_for_its_dot_is_refused(tmp_path: Path, sign: str) -> None:
    """Such a line was only told, as of a flow that does not exist, and all topics were planned, exit code 0."""
    with pytest.raises(ConfigError, match=r"a dot ends the flow; did you mean east->west\.topics\?"):
        load(file(tmp_path, f"east->west{sign}topics = orders"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("east->wset.topics = x", "east->wset is not a flow between these clusters; did you mean east->west?"),
        ("x->y.topicz = x", "x->y is not a flow between these clusters; there are east->west, west->east"),
        ("eats.bootstrap.servers = x:1", "eats is not among clusters; did you mean east.bootstrap.servers?"),
        ("north.consumer.fetch.max.bytes = 1", "north is not among clusters; there are east, west"),
        ("east->west.acme.flag = 1", "a class of one's own may read it"),
        ("west.topics = orders", "write it for a flow, A->west.topics"),
        ("west.replication.policy.separator = _", "write it for a flow, A->west.replication.policy.separator"),
        ("west.exactly.once = enabled", "did you mean west.exactly.once.source.support?"),
        ("west.exactly.once.support = enabled", "did you mean west.exactly.once.source.support?"),
        ("west.protocol = SSL", "did you mean west.security.protocol or west.ssl.protocol?"),
        ("east.bootstrap = e:1", "did you mean east.bootstrap.servers?"),
        ("west.foo = 1", "is not a key that is read here"),
        ("west.offsets.topic.replication.factor = 1", "is not a key that is read here"),
        ("west.batch.size = 1", "for the copy write west.producer.batch.size or west.consumer.batch.size"),
        ("west.producer.linger.mss = 5", "did you mean west.producer.linger.ms?"),
        ("east.consumer.max.poll.record = 1", "did you mean east.consumer.max.poll.records?"),
        ("east->west.producer.override.linger.mss = 5", "did you mean east->west.producer.override.linger.ms?"),
        ("east->west.source.consumer.fetch.max.byte = 5", "did you mean east->west.source.consumer.fetch.max.bytes?"),
        ("west.admin.of.mine = 5", "has no effect: Kafka's clients have no of.mine"),
        ("east->west.source.foo = 1", "is not a key that is read here"),
        ("east->west.replication.policy.of.mine = 1", "is not a key that is read here"),
        ("replication.policy.of.mine = 1", "is not a key that is read here"),
        ("east->west.transforms.x.foo = 1", "it is of none of those that east->west.transforms names; there is none"),
        ("east->west.predicates.x.pattern = 1", "of none of those that east->west.predicates names; there is none"),
    ],
)
def test_a_key_that_may_be_meant_is_told(tmp_path: Path, line: str, said: str) -> None:
    """CFG-090: MirrorMaker 2 takes the file; so it works here too."""
    (told,) = load(file(tmp_path, line)).ignored
    assert said in told
    assert ":5: " in told


@pytest.mark.parametrize(
    "name", ["offset.storage.topic", "offset.storage.replication.factor", "exactly.once.source.support", "group.id"]
)
def test_a_key_of_the_worker_below_a_flow_is_told_with_where_it_counts(tmp_path: Path, name: str) -> None:
    """MirrorMaker 2 takes it silently, and it is spelt as it should be (CFG-081, CFG-090)."""
    found = load(file(tmp_path, f"east->west.{name} = x"))
    (told,) = found.ignored
    assert told.endswith(
        f":5: east->west.{name} has no effect below a flow, as in MirrorMaker 2: it is the worker's; write west.{name}"
    )
    (flow,) = found.enabled_flows
    assert (flow.exactly_once, flow.offset_storage_topic) == (False, "mm2-offsets.east.internal")


ROUTER = (
    "east->west.transforms = r",
    "east->west.transforms.r.type = org.apache.kafka.connect.transforms.RegexRouter",
    "east->west.transforms.r.regex = (.*)",
    "east->west.transforms.r.replacement = $1",
)


def test_a_key_of_a_transform_that_is_nearly_a_known_one_is_refused(tmp_path: Path) -> None:
    """Written so, what was to be left to others would be routed."""
    with pytest.raises(ConfigError, match=r"did you mean east->west\.transforms\.r\.negate\?"):
        load(file(tmp_path, *ROUTER, "east->west.transforms.r.negat = true"))


def test_a_key_that_a_transform_does_not_read_is_told(tmp_path: Path) -> None:
    other = "east->west.transforms.other.regex = x"
    unread, misplaced = load(file(tmp_path, *ROUTER, "east->west.transforms.r.header = x", other)).ignored
    assert "east->west.transforms.r has negate, plugin.version, predicate, regex, replacement, type" in unread
    assert "of none of those that east->west.transforms names; there are r" in misplaced


def test_where_a_class_of_ones_own_reads_keys_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_names.py").write_text(
        "class Filter:\n    def __init__(self, settings): pass\n    def should_replicate_topic(self, topic): return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = "east->west.topic.filter.class = python:own_names:Filter"
    of_a_policy = ("east->west.replication.policy.separater = _", "replication.policy.of.mine = 1")
    (told,) = load(file(tmp_path, "east->west.topicz = orders", *of_a_policy, own)).ignored
    assert "did you mean east->west.topics?" in told


def test_what_javas_clients_workers_and_connectors_read_is_neither_refused_nor_told(tmp_path: Path) -> None:
    read = (
        "east.producer.batch.size = 1", "east.consumer.max.poll.records = 1", "west.admin.retries = 3", "west.group.id = g",
        "west.plugin.path = /x", "west.retry.backoff.ms = 5", "west.client.id = c", "west.client.dns.lookup = use_all_dns_ips",
        "west.offset.flush.timeout.ms = 1", "west.scheduled.rebalance.max.delay.ms = 1", "west.worker.unsync.backoff.ms = 1",
        "west.task.shutdown.graceful.timeout.ms = 1", "west.metadata.max.age.ms = 1", "west.connections.max.idle.ms = 1",
        "west.request.timeout.ms = 1", "west.session.timeout.ms = 1", "west.heartbeat.interval.ms = 1",
        "west.rebalance.timeout.ms = 1", "west.topic.creation.enable = true", "west.key.converter.schemas.enable = x",
        "west.listeners = http://:1", "west.metrics.recording.level = INFO", "west.metric.reporters = x",
        "west.reconnect.backoff.ms = 1", "west.reconnect.backoff.max.ms = 1", "west.send.buffer.bytes = 1",
        "east->west.replication.policy.separator = _", "east->west.source.consumer.client.rack = a", "east->west.topic.creation.groups = a",
        "east->west.offsets.storage.topic = ", "east->west.transaction.boundary = poll", "east->west.producer.override.acks = all",
        "replication.policy.separator = _", "task.x = 1", "worker.y = 1", "offset.storage.z = 1", "rest.advertised.host.name = h",
        "access.control.allow.origin = *", "response.http.headers.config = x",
    )  # fmt: skip
    assert load(file(tmp_path, *read)).ignored == ()
