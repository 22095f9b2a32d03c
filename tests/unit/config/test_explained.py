"""Each key of a file is told with what it does here; none is left out, and no secret is shown."""

from __future__ import annotations

import pytest

from mirror.config import connector_keys, definitions, engine_keys
from mirror.config.explained import Effect, Explained, explain
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import parse
from mirror.config.secret_rules import HIDDEN
from mirror.config.worker_keys import CLIENT_ONLY_KEYS, WORKER_KEYS

HEAD = "clusters = a, b\na.bootstrap.servers = x:1\nb.bootstrap.servers = y:1\na->b.enabled = true\n"


def of(*lines: str) -> list[Explained]:
    """Explain the lines that follow line 4."""
    return list(explain(MirrorMakerConfig.of(parse(HEAD + "\n".join(lines)))))[4:]


def effects(*lines: str) -> list[Effect]:
    return [each.effect for each in of(*lines)]


def test_who_logs_in_before_an_address_is_not_shown() -> None:
    assert [each.value for each in of("bootstrap.servers = ann:s3cret@there:9092")] == [f"ann:{HIDDEN}@there:9092"]


def test_that_a_negative_interval_means_never_is_told() -> None:
    seconds = ("sync.group.offsets.interval.seconds = -1", "a->b.emit.heartbeats.interval.seconds = -5")
    assert [each.why.partition(":")[0] for each in of(*seconds)] == ["negative", "negative"]
    assert [each.why for each in of("emit.checkpoints.interval.seconds = 0")] == [""]


def test_every_entry_is_told_in_order_with_its_line_and_scope() -> None:
    told = of("topics = .*", "b.producer.acks = 1", "a->b.groups = g")
    assert [(each.line, each.scope, each.name) for each in told] == [
        (5, "all flows", "topics"),
        (6, "cluster b", "producer.acks"),
        (7, "flow a->b", "groups"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "a->b.topics = x",
        "a->b.mirror.gaps = stop",
        "a->b.producer.override.transaction.timeout.ms = 1",
        "a->b.source.consumer.fetch.max.bytes = 1",
        "a->b.admin.sasl.jaas.config = x",
        "a.consumer.isolation.level = read_committed",
        "b.group.id = x",
        "mirror.tasks = 1",
        "security.protocol = SSL",
        "replication.policy.separator = _",
    ],
)
def test_what_has_its_effect_is_honoured(line: str) -> None:
    assert effects(line) == [Effect.HONOURED]


@pytest.mark.parametrize(
    ("line", "effect", "why"),
    [
        ("admin.timeout.ms = 1", Effect.EQUIVALENT, "CFG-004"),
        ("b.producer.acks = 1", Effect.EQUIVALENT, "always all"),
        ("b.producer.linger.ms = 1", Effect.NONE, "passed on"),
        ("b.plugin.path = /x", Effect.NONE, "Connect's worker"),
        ("dedicated.mode.enable.internal.rest = true", Effect.NONE, "REST"),
        ("use.defaults.from = source", Effect.NONE, "write it for a flow: a->b.use.defaults.from"),
        ("a->b.consumer.fetch.max.bytes = 1\na.consumer.fetch.max.bytes = 2", Effect.NONE, "loses to a.consumer"),
        ("a->b.topic.creation.default.partitions = 1", Effect.NONE, "CFG-013"),
        ("b->a.topics = x", Effect.NONE, "b->a.enabled is not true"),
    ],
)
def test_what_has_another_effect_or_none_says_why(line: str, effect: Effect, why: str) -> None:
    told = of(line)[0]
    assert told.effect is effect
    assert why in told.why


def test_of_a_key_that_is_there_twice_the_last_holds() -> None:
    first, second = of("topics = x", "topics = y")
    assert (first.effect, second.effect) == (Effect.NONE, Effect.HONOURED)
    assert "line 6" in first.why


def test_a_flow_with_a_value_of_its_own_is_named_at_the_general_one() -> None:
    assert of("topics = x", "a->b.topics = y")[0].why == "but for a->b, which has a value of its own"


def test_a_flow_that_only_beats_has_its_heartbeats_explained() -> None:
    assert effects("b->a.emit.heartbeats.interval.seconds = 5", "b->a.groups = x") == [Effect.HONOURED, Effect.NONE]


@pytest.mark.parametrize("key", ["mirror.gaps", "a->b.mirror.gaps"])
def test_a_key_of_the_engines_own_says_what_it_means(key: str) -> None:
    (told,) = of(f"{key} = stop")
    assert (told.effect, told.why) == (Effect.HONOURED, engine_keys.ENGINE["mirror.gaps"].meaning)


def test_no_key_that_kafka_knows_is_unknown_here() -> None:
    """Whatever a connector, a worker or a client reads has an effect, or a reason for none."""
    flow = {f"a->b.{name}" for name in connector_keys.CONNECTOR_KEYS | engine_keys.ENGINE_OF_A_FLOW.keys()}
    clients = {
        f"{scope}.{kind}.{name}"
        for scope in ("a", "b", "a->b", "a->b.source", "a->b.target")
        for kind in ("producer", "consumer", "admin")
        for name in CLIENT_ONLY_KEYS | definitions.CLIENT_KEYS
    }
    worker = {f"b.{name}" for name in WORKER_KEYS}
    left_out = {"a->b.source.cluster.alias", "a->b.target.cluster.alias"}
    keys = sorted((flow | clients | worker) - left_out - {"b.bootstrap.servers"})
    told = of(*(f"{key} =" for key in keys if key != "b.config.providers"))
    assert [each.key for each in told if "nobody" in each.why] == []
    assert [each.key for each in told if each.effect is not Effect.HONOURED and not each.why] == []


@pytest.mark.parametrize(
    "key",
    [
        "b.ssl.key.password",
        "b.sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "value.converter.basic.auth.user.info",
        "a->b.transforms.t.credentials",
        "b.client.pwd",
    ],
)
def test_secrets_are_hidden_and_placeholders_shown(key: str) -> None:
    assert [each.value for each in of(f"{key} = s3cret")] == [HIDDEN]


@pytest.mark.parametrize(
    "key",
    [
        "value.converter.basic.auth.credentials.source",
        "key.converter.basic.auth.credentials.source",
        "b.sasl.oauthbearer.client.credentials.client.id",
    ],
)
def test_where_credentials_come_from_is_shown(key: str) -> None:
    assert [each.value for each in of(f"{key} = USER_INFO")] == ["USER_INFO"]


@pytest.mark.parametrize("address", ["https://ann:s3cret@there/token", "https://there/token?client_secret=s3cret"])
def test_of_an_address_who_logs_in_there_is_hidden(address: str) -> None:
    (told,) = of(f"b.sasl.oauthbearer.token.endpoint.url = {address}")
    assert "s3cret" not in told.value
    assert told.value.startswith("https://")


def test_where_a_secret_is_may_be_known() -> None:
    (told, _) = of("b.ssl.key.password = ${env:PASSWORD}", "config.providers =")
    assert told.value == "${env:PASSWORD}"
    assert [each.value for each in of("b.ssl.keystore.location = /a.jks")] == ["/a.jks"]


@pytest.mark.parametrize(
    "line",
    [
        'username="ann" password="my s3cret";',
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="my s3cret";',
        'user_ann="s3cret";',
    ],
)
def test_options_of_a_login_that_are_keys_since_a_line_before_has_no_backslash_are_hidden(line: str) -> None:
    """The password was shown as the value of the key `username`."""
    (told,) = of(line)
    assert "s3cret" not in told.value


@pytest.mark.parametrize("end", ["-----END PRIVATE KEY-----", "tasks.max = 5"])
def test_lines_of_a_private_key_that_are_keys_since_one_before_has_no_backslash_are_hidden(end: str) -> None:
    lines = ("b.ssl.keystore.key = -----BEGIN PRIVATE KEY-----", "MIIs3cret+/A", "MIIs3cretAA==", end, "topics = a")
    found = of(*lines)
    assert not any("s3cret" in str(each) for each in found)
    assert [each.key for each in found if "private key that begins in line" in each.why][:2] == [HIDDEN] * 2
    assert found[-1].key == "topics"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("BEGIN\\n\\", "MIIs3cretA\\n\\", "MIIs3cretB", "MIIs3cretC\\n\\", "END"), id="one has none"),
        pytest.param(("BEGIN\\", "MIIs3cretA", "MIIs3cretB\\", "MIIs3cretC==\\", "END"), id="one has none, joined"),
        pytest.param(("BEGIN", "MIIs3cretA\\n\\", "MIIs3cretB==\\n\\", "END"), id="the first has none"),
        pytest.param(("BEGIN\\n\\", "MIIs3cretA", "MIIs3cretB\\n\\", "MIIs3cretC==\\n\\", ""), id="no end"),
        pytest.param(("", "BEGIN", "MIIs3cretA", "MIIs3cretB==", "END"), id="it begins in a line of its own"),
        pytest.param(("", "BEGIN\\n\\", "MIIs3cretA\\n\\", "END"), id="in a line of its own, with backslashes"),
        pytest.param(("BEGIN", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,0A", "", "MIIs3cretA"), id="headers"),
    ],
)
def test_lines_of_a_private_key_are_hidden_wherever_a_backslash_is_missing(lines: tuple[str, ...]) -> None:
    """Where only one line had none, those behind it were one key, which was shown."""
    marks = {"BEGIN": "-----BEGIN PRIVATE KEY-----", "END": "-----END PRIVATE KEY-----"}
    text = [each.replace("BEGIN", marks["BEGIN"]).replace("END", marks["END"]) for each in lines]
    found = of(f"b.ssl.keystore.key = {text[0]}", *text[1:], "topics = a")
    assert not any("s3cret" in str(each) for each in found)
    assert found[-1].key == "topics"


def test_a_private_key_without_an_end_hides_no_key_between_it_and_the_next_one() -> None:
    whole = "-----BEGIN PRIVATE KEY-----MIIs3cretB-----END PRIVATE KEY-----"
    lines = ("a.ssl.keystore.key = -----BEGIN PRIVATE KEY-----", "MIIs3cretA", "topics = a", f"b.ssl.key = {whole}")
    found = of(*lines)
    assert not any("s3cret" in str(each) for each in found)
    assert [each.key for each in found[-2:]] == ["topics", "b.ssl.key"]
