"""The streams of a process as the tasks of one Spark job, which lasts as long as the process copies."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from mirror.copier.epoch_channel import EpochChannel
from mirror.kafka.security import without_files
from mirror.legacy.client_settings import ConsumerSettings, ProducerSettings
from mirror.legacy.options import Options
from mirror.legacy.skips import GAUGE
from mirror.legacy.stream import PATIENCE_SECONDS, StreamEnd, StreamWork, run_stream
from mirror.model.counts import counted
from mirror.spark import SPARK_ERRORS, driver_address, end_spark, spark_context
from mirror.spark_conf import is_local
from mirror.waiting import WaitTimeout, wait_until

_log = logging.getLogger(__name__)


def run_streams(
    options: Options, consumer: ConsumerSettings, producer: ProducerSettings, stop: threading.Event
) -> bool:
    """Copy until ``stop`` is set or a stream ends by itself, which ends the others; return whether all went well.

    Raises
    ------
    SparkDidNotStart
        if its JVM cannot be started.
    UnsupportedSetting
        if what logs in on other machines cannot be read from the files of this one.
    """
    if not is_local(options.master):
        consumer = replace(consumer, properties=without_files(consumer.properties))
        producer = replace(producer, properties=without_files(producer.properties))
    # In a thread: in the main one PySpark would take Ctrl-C over.
    with ThreadPoolExecutor(1, "spark") as beside:
        master = options.master or f"local[{options.streams}]"
        context = beside.submit(spark_context, "mirror-legacy", master, settings=options.spark_conf).result()
    try:
        at = driver_address(context)
        with EpochChannel(at.host, log=_log.log, bind=at.bind, port=at.port) as epoch_channel:
            works = [
                StreamWork(number, options, consumer, producer, epoch_channel.address)
                for number in range(options.streams)
            ]
            threading.Thread(target=_end_when_stopped, args=(stop, epoch_channel), name="stop", daemon=True).start()
            try:
                ends: Sequence[StreamEnd] = context.parallelize(works, len(works)).map(run_stream).collect()
            except SPARK_ERRORS as error:
                _log.critical("a stream has ended with its process: %s", _last_line(error))
                epoch_channel.end_epoch()
                # Spark ends them; what they have not committed is read again.
                with contextlib.suppress(WaitTimeout):
                    wait_until(
                        lambda: not epoch_channel.listeners, "the other streams", timeout_seconds=PATIENCE_SECONDS
                    )
                return False
    finally:
        end_spark()
    return _report_end(ends, options, is_asked=stop.is_set())


def _end_when_stopped(stop: threading.Event, epoch_channel: EpochChannel) -> None:
    stop.wait()
    epoch_channel.end_epoch()


def _report_end(ends: Sequence[StreamEnd], options: Options, *, is_asked: bool) -> bool:
    """Say what the streams have done, and whether that was all that was asked for."""
    for end in ends:
        for source, where in end.skipped.items():
            _log.error("%s: skipped, not on the target: offset %s", source, where)
        if end.failure is not None:
            _log.critical("stream %d: %s", end.number, end.failure)
    _log.info(
        "%s read, %s acknowledged by the target, %s left out by the message handler, %s gone or before the first "
        "position; %s: %d",
        counted(sum(end.read for end in ends), "record"),
        counted(sum(end.sent for end in ends), "record"),
        counted(sum(end.left_out for end in ends), "record"),
        counted(sum(end.passed_over for end in ends), "offset"),
        GAUGE,
        sum(end.dropped for end in ends),
    )
    return is_asked and len(ends) == options.streams and all(end.failure is None for end in ends)


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    return lines[-1] if lines else type(error).__name__
