"""The command `mirror`, to which something happens at one moment of making a copy anew.

Run as a program with the moment, the copy, the target's address and the command's arguments. It kills itself with
SIGKILL at that moment, or an application writes to the copy then.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka

from mirror.cli import main
from mirror.copier import epochs
from mirror.kafka import old_topics
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from tests.brokers.making_anew_daemon import ENGINE, MOMENT


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def application(copy: str, address: str) -> Callable[[], None]:
    """An application that writes one record to the copy, if that takes it."""

    def told(problem: object, _: object) -> None:
        print(f"the application was told: {problem}", flush=True)

    def writes() -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": address, "message.timeout.ms": 20_000})
        producer.produce(copy, b"of the application", partition=1, on_delivery=told)
        producer.flush(30)

    return writes


def changed(moment: str, copy: str, address: str) -> None:
    """Have it happen at the moment."""
    deletes, creates = Cluster.delete_topics_by_id, Cluster.create_topics
    writes = application(copy, address)

    def deleted(cluster: Cluster, ids: Mapping[str, str]) -> Any:
        if moment == "a write before the deletion":
            writes()
        if moment == "before the deletion":
            killed()
        done = deletes(cluster, ids)
        if moment == "behind the deletion":
            killed()
        if moment == "created automatically":
            creates(cluster, [NewTopic(copy, 1, 1)])
            killed()
        return done

    def created(cluster: Cluster, topics: Sequence[NewTopic], *, only_validate: bool = False) -> Any:
        done = creates(cluster, topics, only_validate=only_validate)
        if moment == "behind the creation" and copy in {each.name for each in topics} and not only_validate:
            killed()
        return done

    Cluster.delete_topics_by_id = deleted
    Cluster.create_topics = created
    if moment == "behind the closing":
        closes = old_topics.close

        def closed(*args: Any) -> None:
            closes(*args)
            killed()

        old_topics.close = closed


if __name__ == "__main__":
    changed(*sys.argv[1:4])
    # What happens in a task happens in a process that Spark begins.
    os.environ |= {MOMENT: sys.argv[1], ENGINE: str(os.getpid())}
    epochs._WORKER_DAEMON = "tests.brokers.making_anew_daemon"
    sys.argv = ["mirror", *sys.argv[4:]]
    main()
