"""The options of ``kafka-mirror-maker.sh``, read as MirrorMaker 1 reads them (MM1-01 to MM1-11, MM1-31)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from mirror.model.java_regex import PatternError, compile_java
from mirror.model.patterns import JAVA_TRIMMED
from mirror.spark_conf import BadSparkConf, read_spark_conf

ABOUT = "Copy topics from one Kafka cluster to another, as kafka-mirror-maker.sh does: same options, same groups."
_QUOTES = "\"'"
_MOST_INT = 2**31 - 1
_SPARK_CONF = "spark-conf"
# Options of releases before 0.9, and of those from then on that no longer needed them.
_WITHOUT_EFFECT = {
    "new.consumer": "there is no other consumer",
    "new.producer": "there is no other producer",
    "num.producers": "each stream has one producer",
    "queue.size": "the size of the queue is buffer.memory of --producer.config",
}


class BadOption(ValueError):
    """An option that cannot be taken; the message names it and says what to give."""

    def __init__(self, option: str | None, message: str) -> None:
        super().__init__(message if option is None else f"--{option}: {message}")


@dataclass(frozen=True, slots=True)
class OwnCode:
    """A Python class or function of one's own, and the text it is given."""

    option: str
    reference: str
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says.

    Attributes
    ----------
    include
        the topics, as a Java regular expression of whole names.
    aborts
        whether a record that cannot be sent ends everything; otherwise it is skipped.
    without_effect
        what was given and does nothing, with the reason.
    """

    consumer_file: Path
    producer_file: Path
    include: str
    streams: int = 1
    commit_interval_seconds: float = 60.0
    aborts: bool = True
    handler: OwnCode | None = None
    listener: OwnCode | None = None
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    without_effect: tuple[str, ...] = ()


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process with its own exit code."""

    def error(self, message: str) -> NoReturn:
        raise BadOption(None, f"{message}; --help lists all options")


def parser() -> argparse.ArgumentParser:
    """Return who reads the command line; it takes an option's unambiguous beginning for it, as Java does."""
    made = _Parser(prog="kafka-mirror-maker", description=ABOUT)
    # Of an option that is given twice Java says so; argparse would take the last.
    for name, metavar, help_text in (
        ("consumer.config", "FILE", "Properties of the consumers of the source; group.id is needed."),
        ("producer.config", "FILE", "Properties of the producers to the target; producer.type=sync waits for each."),
        ("include", "REGEX", "Topics whose whole name matches; commas stand for |."),
        ("whitelist", "REGEX", "The old name of --include, ignored beside it."),
        ("num.streams", "N", "Streams, each a member of the group (1)."),
        ("offset.commit.interval.ms", "MS", "How often positions are committed, after a flush (60000)."),
        ("abort.on.send.failure", "BOOLEAN", "End everything if a record cannot be sent (true), or skip it (false)."),
        (
            "message.handler",
            "REFERENCE",
            "python:package.module:name; returns the records to send for each record read.",
        ),
        ("message.handler.args", "TEXT", "Handed to the message handler."),
        (
            "consumer.rebalance.listener",
            "REFERENCE",
            "python:package.module:Class, told of partitions gained and lost.",
        ),
        ("rebalance.listener.args", "TEXT", "Handed to the rebalance listener."),
        ("master", "URL", "A Spark master; this machine by default. Java's has no such option."),
        (_SPARK_CONF, "K=V", "A setting of Spark, as often as needed; ${env:NAME} stands for a secret."),
        ("num.producers", "N", "Without effect."),
        ("queue.size", "N", "Without effect."),
        ("blacklist", "REGEX", "Refused, as by Java's since 0.10."),
    ):
        made.add_argument(f"--{name}", metavar=metavar, help=help_text, action="append", dest=name)
    for name in ("new.consumer", "new.producer"):
        made.add_argument(f"--{name}", help="Without effect.", action="store_true", dest=name)
    made.add_argument("--version", help="Say which version this is.", action="store_true")
    return made


def read_options(arguments: Sequence[str]) -> Options | None:
    """Return what ``arguments`` say; None if they ask for the version.

    Raises
    ------
    BadOption
        for the first that cannot be taken.
    SystemExit
        after the help was printed.
    """
    given = vars(parser().parse_args(list(arguments)))
    if given["version"]:
        return None
    twice = [
        name for name, values in given.items() if isinstance(values, list) and len(values) > 1 and name != _SPARK_CONF
    ]
    if twice:
        raise BadOption(twice[0], "it is given twice; give it once")
    text: dict[str, str] = {name: values[0] for name, values in given.items() if isinstance(values, list)}
    if "blacklist" in text:
        raise BadOption("blacklist", "there is none any more; write what is left out into --include: '(?!audit$).*'")
    for name in ("consumer.config", "producer.config"):
        if name not in text:
            raise BadOption(name, "missing; give the properties file")
    if "include" not in text and "whitelist" not in text:
        raise BadOption("include", "missing; say which topics, as a regular expression")
    ignored = [f"--{name}: {why}" for name, why in _WITHOUT_EFFECT.items() if text.get(name) or given.get(name)]
    if "include" in text and "whitelist" in text:
        ignored.append("--whitelist: --include is given")
    return Options(
        consumer_file=Path(text["consumer.config"]),
        producer_file=Path(text["producer.config"]),
        include=_pattern("include" if "include" in text else "whitelist", text),
        streams=_number("num.streams", text, 1, 1),
        commit_interval_seconds=_number("offset.commit.interval.ms", text, 60_000, 0) / 1000,
        aborts=_boolean("abort.on.send.failure", text),
        handler=_own_code("message.handler", "message.handler.args", text),
        listener=_own_code("consumer.rebalance.listener", "rebalance.listener.args", text),
        master=text.get("master"),
        spark_conf=_spark_conf(given[_SPARK_CONF] or ()),
        without_effect=tuple(ignored),
    )


def _spark_conf(given: Sequence[str]) -> dict[str, str]:
    try:
        return read_spark_conf(given)
    except BadSparkConf as problem:
        raise BadOption(None, str(problem)) from problem


def include_pattern(text: str) -> str:
    """Return the regular expression that MirrorMaker makes of ``--include`` (MM1-03)."""
    return text.strip(JAVA_TRIMMED).replace(",", "|").replace(" ", "").lstrip(_QUOTES).rstrip(_QUOTES)


def _pattern(option: str, text: dict[str, str]) -> str:
    pattern = include_pattern(text[option])
    try:
        compile_java(pattern)
    except PatternError as problem:
        raise BadOption(option, f"not a regular expression of Java's: {problem}") from problem
    return pattern


def _number(option: str, text: dict[str, str], default: int, least: int) -> int:
    if option not in text:
        return default
    try:
        number = int(text[option])
    except ValueError:
        raise BadOption(option, f"{text[option]!r} is no whole number") from None
    if not least <= number <= _MOST_INT:
        raise BadOption(option, f"{number} is not between {least} and {_MOST_INT}")
    return number


def _boolean(option: str, text: dict[str, str]) -> bool:
    value = text.get(option, "true").lower()
    if value not in ("true", "false"):
        raise BadOption(option, f"{text[option]!r} is neither true nor false")
    return value == "true"


def _own_code(option: str, arguments: str, text: dict[str, str]) -> OwnCode | None:
    if option not in text:
        if arguments in text:
            raise BadOption(arguments, f"there is no --{option} to hand it to")
        return None
    return OwnCode(option, text[option], text.get(arguments))
