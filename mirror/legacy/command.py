"""``mirror legacy``, also installed as ``kafka-mirror-maker`` and ``kafka-mirror-maker.sh``.

Exit codes as Java's: 1 for what is asked wrongly, 255 if a stream ended by itself. 0 after SIGTERM or Ctrl-C, where
Java's is the signal's; 3 if Spark cannot be started.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

from confluent_kafka import Consumer, KafkaException, Producer

from mirror.config import properties, providers
from mirror.config.errors import ConfigError
from mirror.config.ignored import broken_key_messages
from mirror.config.private_keys import broken_keys
from mirror.config.properties import PropertiesFile
from mirror.config.secrets import holds_secrets
from mirror.engine.run_log import LogFormat, LogLevel, set_up
from mirror.kafka.security import UnsupportedSetting
from mirror.legacy.client_settings import (
    BadSetting,
    ConsumerSettings,
    ProducerSettings,
    consumer_settings,
    java_key,
    producer_settings,
)
from mirror.legacy.handler import handler_of, listener_of
from mirror.legacy.options import BadOption, Options, read_options
from mirror.model.counts import counted
from mirror.model.patterns import parse_list
from mirror.no_spark import SparkDidNotStart
from mirror.signals import stop_on_signal
from mirror.spark_conf import BadSparkConf, with_encryption

BAD_USAGE, FAILED, COULD_NOT_START = 1, 255, 3
_STANDARD_ERROR = 2
_log = logging.getLogger(__name__)


def main() -> None:
    """Run the command line of this process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Copy as ``arguments`` say, until told to stop; return the exit code."""
    try:
        options = read_options(arguments)
        if options is None:
            print(f"kafka-mirror-maker {version('mirrorbook')}")
            return 0
        consumer, producer = load(options)
        has_secrets = holds_secrets(consumer.properties) or holds_secrets(producer.properties)
        conf = with_encryption(options.master, options.spark_conf, has_secrets=has_secrets)
    except (BadOption, BadSparkConf, ConfigError) as problem:
        print(problem, file=sys.stderr)
        return BAD_USAGE
    stop = threading.Event()
    set_up(LogLevel.INFO, LogFormat.TEXT, _STANDARD_ERROR)
    stop_on_signal(stop, lambda name: _log.info("stops: %s", name))
    for note in (*options.without_effect, *consumer.notes, *producer.notes):
        _log.warning("%s", note)
    streams = counted(options.streams, "stream")
    _log.info("group %s: %s, topics %s", consumer.group, streams, options.include)
    from mirror.legacy.run import run_streams  # PySpark takes a second, in which somebody may think better of it

    try:
        is_well = run_streams(replace(options, spark_conf=conf), consumer, producer, stop)
    except (SparkDidNotStart, UnsupportedSetting) as problem:
        _log.critical("%s", problem)
        return COULD_NOT_START
    _log.info("stopped" if is_well else "stopped, because a stream ended by itself")
    return 0 if is_well else FAILED


def load(options: Options) -> tuple[ConsumerSettings, ProducerSettings]:
    """Return what the two files say, and try it as far as that needs no broker.

    Raises
    ------
    BadOption, ConfigError
        for what is not available.
    """
    handler_of(options.handler)
    listener_of(options.listener)
    consumer_file, producer_file = properties.read(options.consumer_file), properties.read(options.producer_file)
    with _Placed(consumer_file):
        consumer = consumer_settings(_resolved(consumer_file))
        # Who makes a client is told what of its settings cannot be.
        Consumer({**consumer.of_stream(0, 1), "log_level": 0}).close()
    with _Placed(producer_file):
        producer = producer_settings(_resolved(producer_file), aborts=options.aborts)
        Producer({**producer.of_stream(), "log_level": 0})
    return (
        replace(consumer, notes=(*broken_key_messages(consumer_file), *consumer.notes)),
        replace(producer, notes=(*broken_key_messages(producer_file), *producer.notes)),
    )


def _resolved(file: PropertiesFile) -> Mapping[str, str]:
    # Lines of a private key that are keys of the file would be named as keys that there are not.
    broken = broken_keys(file.entries)
    values = {each.key: each.value for each in file.entries if each.line not in broken}
    made = providers.providers(parse_list(values.get(providers.CONFIG_PROVIDERS, "")), values)
    return providers.replace_placeholders(values, made)


class _Placed:
    """Says of a wrong property where it stands."""

    def __init__(self, file: PropertiesFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        if isinstance(error, BadSetting | providers.ProviderProblem):
            message = error.message if isinstance(error, providers.ProviderProblem) else str(error)
            raise self._file.error(error.key, message) from error
        if isinstance(error, UnsupportedSetting):
            raise self._file.error(error.key, error.problem) from error
        if isinstance(error, KafkaException):
            message = error.args[0].str()
            raise self._file.error(java_key(message), message) from error
