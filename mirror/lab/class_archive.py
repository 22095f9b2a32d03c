"""An archive of a broker's classes, made once: with it a broker starts in half the time, for a third of the CPU.

``python -m mirror.lab.class_archive`` makes it, and fetches Kafka's jars before. Without it everything works the same.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from mirror import cache, terminal
from mirror.display import display_for
from mirror.lab import ports
from mirror.lab import runtime as kafka_runtime
from mirror.lab.brokers import EmbeddedCluster, new_cluster_id, plan_layout
from mirror.lab.errors import LabError
from mirror.lab.runtime import KafkaRuntime
from mirror.model.progress import Watch, nobody

# The broker that writes the archive of its classes at its end takes longer to end than any other.
_ARCHIVING_SECONDS = 600.0
# How a JVM tells that it ended in order when it was asked to.
_ENDED_BY_SIGTERM = 128 + signal.SIGTERM


def prepare(watch: Watch = nobody) -> KafkaRuntime:
    """Return the runtime for brokers: Java, jars and class archive, fetching and making what is not there yet.

    Without an archive, and with a line said, where that cannot be made.

    Raises
    ------
    JavaMissing, JarsUnavailable
        with a message that says what to do.
    """
    runtime = kafka_runtime.prepare(watch)
    what = "The archive of the brokers' classes"
    cache.offer(_archive_path(runtime), what, lambda made: _make(runtime, made, watch))
    return ready()


def ready() -> KafkaRuntime:
    """Return the runtime for brokers with the class archive if that is there: no broker's start waits for it.

    Raises
    ------
    JavaMissing, JarsUnavailable
        with a message that says what to do.
    """
    runtime = kafka_runtime.prepare()
    archive = _archive_path(runtime)
    return replace(runtime, class_archive=archive if cache.is_whole(archive) else None)


def _archive_path(runtime: KafkaRuntime) -> Path:
    # beside the jars: it is of use with these very files only, and goes when they are replaced
    return runtime.jars / f"broker-classes-java-{runtime.java.version}.jsa"


def _make(runtime: KafkaRuntime, made: Path, watch: Watch) -> None:
    """Run a broker that nobody needs, and let Java write down the classes it has loaded when it ends."""
    what = "archive of the brokers' classes"
    watch(what, 0, 2)
    training = replace(runtime, java_options=(f"-XX:ArchiveClassesAtExit={made}",))
    layout = plan_layout("training", new_cluster_id(), ports.choose(2), brokers=1)
    cluster = EmbeddedCluster.at(made.parent, layout, lambda: training, owner_pid=os.getpid())
    (broker,) = cluster.brokers
    try:
        cluster.start()
        watch(what, 1, 2)
        broker.stop(_ARCHIVING_SECONDS)
        status = broker.process.return_code() if broker.process else None
        if status != _ENDED_BY_SIGTERM:
            raise cache.NotMade(f"the broker that writes it ended with status {status}")
    finally:
        cluster.kill()
        watch(what, 2, 2)


def main() -> None:
    """Fetch and make what is not there yet, and print where it is."""
    try:
        with display_for(terminal.console(stderr=True)) as display:
            runtime = prepare(display.watch)
    except LabError as problem:
        sys.exit(str(problem))
    print(f"Kafka: {runtime.jars}")


if __name__ == "__main__":
    main()
