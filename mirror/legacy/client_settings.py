"""Java's consumer and producer properties as settings of librdkafka, with MirrorMaker 1's defaults (MM1-20, MM1-21)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror.config.connector_keys import CONNECTOR_KEYS
from mirror.config.definitions import CLIENT_KEYS
from mirror.config.misspelt import nearest
from mirror.kafka.librdkafka import connection_settings
from mirror.model.patterns import parse_list

_ASSIGNORS = "org.apache.kafka.clients.consumer."
_PARTITIONERS = "org.apache.kafka.clients.producer."
STRATEGY: Final = "partition.assignment.strategy"
_MOST_INT = 2**31 - 1
# What Java's producer sends at most in one request unless told otherwise.
_MAX_REQUEST_SIZE = 1_048_576
# A batch that the target refuses as too large is refused whole. Where that skips records, batches are as small as
# Java's, so that a record of a refused size has none of its neighbours with it.
_JAVA_BATCH_SIZE = 16_384
_RECEIVED_BESIDE_RECORDS = 512
_USUAL_FETCH_BYTES = 50 << 20
_DISCOVERY_MS = 30_000
# librdkafka's own default, in the unit of its key, is a gigabyte for each stream.
_BUFFER_BYTES = 64 << 20

# Java's name of a setting, and librdkafka's.
_OF_BOTH = {
    **{key: key for key in ("reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms")},
    **{key: key for key in ("retry.backoff.max.ms", "metadata.max.age.ms", "connections.max.idle.ms")},
    **{key: key for key in ("client.dns.lookup", "socket.connection.setup.timeout.ms")},
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
_OF_CONSUMERS = _OF_BOTH | {
    **{key: key for key in ("group.id", "group.instance.id", "session.timeout.ms", "heartbeat.interval.ms")},
    **{key: key for key in ("max.poll.interval.ms", "fetch.min.bytes", "fetch.max.bytes", "isolation.level")},
    **{key: key for key in ("max.partition.fetch.bytes", "check.crcs", "client.rack")},
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
}
_OF_PRODUCERS = _OF_BOTH | {
    **{key: key for key in ("client.id", "acks", "compression.type", "batch.size", "linger.ms", "retries")},
    **{key: key for key in ("delivery.timeout.ms", "max.in.flight.requests.per.connection", "enable.idempotence")},
    "request.timeout.ms": "request.timeout.ms",
    "max.request.size": "message.max.bytes",
}
# How librdkafka calls, in what it says, settings that it takes by Java's names.
_CALLED_BY_LIBRDKAFKA = {
    "request.required.acks": "acks",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
_BYTES = "keys and values are bytes"
_NO_JMX = "there is no JMX here"
_NEVER_NAMED = {
    **{f"{which}.{what}": _BYTES for which in ("key", "value") for what in ("serializer", "deserializer")},
    **dict.fromkeys(("metric.reporters", "metrics.num.samples", "metrics.recording.level"), _NO_JMX),
    **dict.fromkeys(("metrics.sample.window.ms", "enable.metrics.push", "auto.include.jmx.reporter"), _NO_JMX),
}
_WITHOUT_EFFECT_ON_CONSUMERS = _NEVER_NAMED | {
    "client.id": "the streams are called GROUP-NUMBER",
    "enable.auto.commit": "positions are committed after a flush of what they cover, and by nobody else",
    "auto.commit.interval.ms": "--offset.commit.interval.ms says it",
    "max.poll.records": "records are taken one at a time",
    "default.api.timeout.ms": "what does not succeed is tried again",
    "allow.auto.create.topics": "no topic of the source is made by reading it",
}
_WITHOUT_EFFECT_ON_PRODUCERS = _NEVER_NAMED | {
    "max.block.ms": "a full buffer and a topic that is not there are waited for",
    "metadata.max.idle.ms": "topics are remembered",
    "partitioner.adaptive.partitioning.enable": "records without a key go to partitions by chance",
    "partitioner.availability.timeout.ms": "records without a key go to partitions by chance",
    "transaction.timeout.ms": "there are no transactions",
}
_SAFE = {
    "delivery.timeout.ms": (str(_MOST_INT),),
    "acks": ("all", "-1"),
    "max.in.flight.requests.per.connection": ("1",),
}
_READ_APART = {"bootstrap.servers", "config.providers", "auto.offset.reset", "exclude.internal.topics", STRATEGY} | {
    *("group.protocol", "producer.type", "buffer.memory", "partitioner.class", "partitioner.ignore.keys"),
    *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
}
_SYSTEM_DEFAULT = {"send.buffer.bytes", "receive.buffer.bytes"}
_MARKS = "\":.,()`'"
_LOWER = {"enable.idempotence", "check.crcs", "isolation.level", "acks", "compression.type"}


class BadSetting(ValueError):
    """A property of a client that cannot be honoured; the message says what to do."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How the streams read.

    Attributes
    ----------
    properties
        Java's, with placeholders replaced.
    settings
        librdkafka's, without the connection's.
    reset
        where a partition without a position begins: ``earliest``, ``latest``, or ``none`` to fail.
    is_incremental
        whether a rebalance takes only what goes to another member (cooperative).
    notes
        what of the properties is without effect.
    """

    properties: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, str]
    reset: str
    reads_internal_topics: bool
    is_incremental: bool
    discovery_seconds: float
    notes: tuple[str, ...]

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.settings["group.id"]

    def of_stream(self, number: int, streams: int) -> dict[str, Any]:
        """Return everything that librdkafka's consumer of a stream is made with (MM1-05).

        Raises
        ------
        UnsupportedSetting
            if the connection's security is not available.
        """
        static = self.settings.get("group.instance.id")
        instance = {"group.instance.id": f"{static}-{number}"} if static is not None and streams > 1 else {}
        connection = connection_settings(self.properties)
        return {**connection, **self.settings, **instance, "client.id": f"{self.group}-{number}"}


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How the streams write; as `ConsumerSettings`.

    Attributes
    ----------
    is_synchronous
        whether each record is waited for (``producer.type=sync``).
    """

    properties: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, str]
    is_synchronous: bool
    notes: tuple[str, ...]

    def of_stream(self) -> dict[str, Any]:
        """Return everything that librdkafka's producer is made with.

        Raises
        ------
        UnsupportedSetting
            if the connection's security is not available.
        """
        return {**connection_settings(self.properties), **self.settings, "delivery.report.only.error": True}


def consumer_settings(properties: Mapping[str, str]) -> ConsumerSettings:
    """Read the properties of ``--consumer.config``.

    Raises
    ------
    BadSetting
        for what cannot be honoured.
    """
    given = {key: value.strip() for key, value in properties.items()}
    if not given.get("group.id"):
        raise BadSetting("group.id", "missing; give the group whose positions on the source are kept")
    _require_no_classes(given)
    if given.get("group.protocol", "classic").lower() != "classic":
        raise BadSetting("group.protocol", "the streams join as members of the classic protocol; remove the key")
    reset = given.get("auto.offset.reset", "latest").lower()
    if reset not in ("earliest", "latest", "none"):
        raise BadSetting("auto.offset.reset", f"{reset!r}: expected earliest, latest or none")
    names, notes = _assignors(given.get(STRATEGY))
    settings = {
        # Where a position is not in the log somebody has to say so, and from where the stream goes on.
        "auto.offset.reset": "error",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "allow.auto.create.topics": "false",
        "isolation.level": "read_uncommitted",
        STRATEGY: names,
        **_translated(given, _OF_CONSUMERS),
    }
    if (most := _whole_number(given, "fetch.max.bytes", 0)) > _USUAL_FETCH_BYTES:
        settings["receive.message.max.bytes"] = str(most + _RECEIVED_BESIDE_RECORDS)
    return ConsumerSettings(
        dict(properties),
        settings,
        reset,
        given.get("exclude.internal.topics", "true").lower() == "false",
        names == "cooperative-sticky",
        _whole_number(given, "metadata.max.age.ms", _DISCOVERY_MS) / 1000,
        (*notes, *_without_effect_messages(given, _OF_CONSUMERS, _WITHOUT_EFFECT_ON_CONSUMERS, "consumer")),
    )


def producer_settings(properties: Mapping[str, str], *, aborts: bool) -> ProducerSettings:
    """Read the properties of ``--producer.config``; ``aborts``: whether a failed send ends everything.

    Raises
    ------
    BadSetting
        for what cannot be honoured.
    """
    given = {key: value.strip() for key, value in properties.items()}
    _require_no_classes(given)
    if given.get("transactional.id"):
        raise BadSetting("transactional.id", "MirrorMaker 1 writes no transactions; remove the key")
    partitioner = given.get("partitioner.class", "").removeprefix(f"{_PARTITIONERS}internals.")
    partitioner = partitioner.removeprefix(_PARTITIONERS)
    if partitioner not in ("", "DefaultPartitioner", "UniformStickyPartitioner"):
        raise BadSetting("partitioner.class", "Java classes cannot be loaded here; set partitions in a message handler")
    ignores_keys = given.get("partitioner.ignore.keys", "").lower() == "true" or partitioner.startswith("Uniform")
    is_idempotent = _is_idempotent(given)
    codec = given.get("compression.type", "none")
    level = given.get(f"compression.{codec}.level")
    settings = {
        "delivery.timeout.ms": str(_MOST_INT),
        "acks": "all",
        "message.max.bytes": str(_MAX_REQUEST_SIZE),
        # Five requests of an idempotent producer stay in order, as one of another.
        "max.in.flight.requests.per.connection": "5" if is_idempotent else "1",
        "enable.idempotence": str(is_idempotent).lower(),
        "partitioner": "random" if ignores_keys else "murmur2_random",
        "queue.buffering.max.kbytes": str(_whole_number(given, "buffer.memory", _BUFFER_BYTES) // 1024 or 1),
        **({} if aborts else {"batch.size": str(_JAVA_BATCH_SIZE)}),
        **({} if level is None else {"compression.level": level}),
        # A topic that is waited for is not given up.
        "topic.metadata.propagation.max.ms": "3600000",
        **_translated(given, _OF_PRODUCERS),
    }
    if settings.get("batch.size") == "0":
        settings["batch.size"] = "1"
    return ProducerSettings(
        dict(properties),
        settings,
        given.get("producer.type", "async") == "sync",
        (
            *_overridden(given),
            *_without_effect_messages(given, _OF_PRODUCERS, _WITHOUT_EFFECT_ON_PRODUCERS, "producer"),
        ),
    )


def java_key(problem: str) -> str | None:
    """Return Java's name of the setting that a message of librdkafka's names, None if it names none of them."""
    names = {theirs: ours for ours, theirs in (_OF_PRODUCERS | _OF_CONSUMERS).items()} | _CALLED_BY_LIBRDKAFKA
    words = (each.strip(_MARKS) for each in problem.split())
    return next((names[each] for each in words if each in names), None)


def _is_idempotent(given: Mapping[str, str]) -> bool:
    """Tell what Java's producer makes of ``enable.idempotence`` where the file does not say: yes, if it can."""
    if "enable.idempotence" in given:
        return given["enable.idempotence"].lower() == "true"
    can_be_in_order = _whole_number(given, "max.in.flight.requests.per.connection", 1) <= 5
    return given.get("acks", "all").lower() in ("all", "-1") and can_be_in_order and given.get("retries") != "0"


def _whole_number(given: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(given.get(key, default))
    except ValueError:
        raise BadSetting(key, f"{given[key]!r} is no whole number") from None


def _assignors(given: str | None) -> tuple[str, tuple[str, ...]]:
    """Return librdkafka's names of Java's assignors, and what is to be said of them (MM1-34)."""
    if given is None:
        message = f"{STRATEGY} is not set: by range the first streams get most; {_ASSIGNORS}RoundRobinAssignor is fair"
        return "range", (message,)
    known = {"RangeAssignor": "range", "RoundRobinAssignor": "roundrobin"}
    cooperative = "CooperativeStickyAssignor"
    asked = [each.removeprefix(_ASSIGNORS) for each in parse_list(given)]
    for each in asked:
        if each not in (*known, cooperative):
            usable = ", ".join((*known, cooperative))
            raise BadSetting(STRATEGY, f"{each} is not supported here; of {_ASSIGNORS} there are {usable}")
    if asked == [cooperative]:
        return "cooperative-sticky", ()
    left_out = (f"{STRATEGY}: {cooperative} has no effect beside others here",) if cooperative in asked else ()
    return ",".join(known[each] for each in asked if each in known), left_out


def _require_no_classes(given: Mapping[str, str]) -> None:
    if given.get("interceptor.classes"):
        raise BadSetting("interceptor.classes", "Java classes cannot be loaded here; give --message.handler in Python")


def _translated(given: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    values = {key: value.lower() if key in _LOWER else value for key, value in given.items() if key in names}
    # Java says by -1 that the system decides.
    return {names[key]: "0" if key in _SYSTEM_DEFAULT and value == "-1" else value for key, value in values.items()}


def _overridden(given: Mapping[str, str]) -> tuple[str, ...]:
    """Say what of the settings by which nothing is lost is set otherwise (MM1-21)."""
    return tuple(
        f"{key}={given[key]}, not {safe[0]}: records may be lost or change their order"
        for key, safe in _SAFE.items()
        if given.get(key, safe[0]).lower() not in safe
    )


def _without_effect_messages(
    given: Mapping[str, str], names: Mapping[str, str], without_effect: Mapping[str, str], client: str
) -> tuple[str, ...]:
    """Say what of the properties is without effect, and why."""
    messages = []
    for key in given:
        if key in names or key in CLIENT_KEYS or key in _READ_APART or key.startswith("config.providers."):
            continue
        if key in without_effect:
            if key not in _NEVER_NAMED:
                messages.append(f"{key}: without effect: {without_effect[key]}")
        elif key in CONNECTOR_KEYS:
            # Documents of "legacy mode" have them in these files.
            messages.append(f"{key}: without effect: names stay as they are, and only records are copied")
        else:
            near = nearest(key, {*names, *_READ_APART, *without_effect, *CLIENT_KEYS})
            meant = f"; did you mean {near}?" if near else ""
            messages.append(f"{key}: without effect: no key of a {client}{meant}")
    return tuple(messages)
