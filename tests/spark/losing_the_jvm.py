"""Epochs whose JVM is killed, in a process of their own: the other tests share one JVM.

Run as a program, it prints what became of the epochs, as JSON.
"""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psutil

from mirror.copier.epochs import Epochs
from mirror.copier.work import PartitionWork, TaskWork
from mirror.model.partition import TopicPartition
from tests.flows import EAST_WEST, flow_work

NOTHING = TaskWork(flows=(), partitions=(), seconds=0.0, commit_seconds=1.0)


def jvm() -> psutil.Process:
    """Return the one JVM that this process has started and that runs."""
    (found,) = (
        each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE and each.name() == "java"
    )
    return found


def main() -> None:
    """Kill the JVM in the middle of an epoch, run another epoch, kill that one's JVM too, and stop."""
    epochs = Epochs("local[1]", 1)
    epochs.start()
    first = jvm()
    # A cluster that takes connections and never answers: the task that calls there is at work, and stays so for seconds.
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        host, port = silent.getsockname()
        client = {"bootstrap.servers": f"{host}:{port}"}
        flow = flow_work(source_client=client, target_client=client)
        orders = PartitionWork(EAST_WEST, TopicPartition("orders", 0), TopicPartition("east.orders", 0), "", None)
        work = replace(NOTHING, flows=(flow,), partitions=(orders,))
        epoch = pool.submit(epochs.run, [work])
        silent.settimeout(60)
        silent.accept()[0].close()
        first.kill()
        failure = epoch.exception()
    results = epochs.run([NOTHING])
    second = jvm()
    second.kill()
    second.wait(20)
    epochs.stop()
    print(json.dumps({"failure": repr(failure), "results": len(results), "another_jvm": first.pid != second.pid}))


if __name__ == "__main__":
    main()
