"""Epochs whose JVM is killed, in a process of their own: the other tests share one JVM.

Run as a program, it prints what became of the epochs, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
from pyspark import SparkContext

from mirror.copier.epochs import EpochFailed, Epochs
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


def failure_of(epochs: Epochs) -> str | None:
    """Run an epoch without work; return what became of it."""
    try:
        assert len(epochs.run([NOTHING])) == 1
    except EpochFailed as failure:
        return str(failure)
    return None


def killed_at_work(epochs: Epochs) -> str | None:
    """Kill the JVM in the middle of an epoch; return what became of that."""
    # A cluster that takes connections and never answers: a task that has a minute tries it for that long.
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        host, port = silent.getsockname()
        client = {"bootstrap.servers": f"{host}:{port}"}
        flow = flow_work(source_client=client, target_client=client)
        orders = PartitionWork(EAST_WEST, TopicPartition("orders", 0), TopicPartition("east.orders", 0), "", None)
        work = replace(NOTHING, flows=(flow,), partitions=(orders,), seconds=60.0)
        epoch = pool.submit(epochs.run, [work])
        silent.settimeout(60)
        with silent.accept()[0]:
            jvm().kill()
        failure = epoch.exception()
    assert isinstance(failure, EpochFailed), failure
    return str(failure)


def main() -> None:
    """Remove the JVM's files; kill it at work, between two epochs, where no other can be started, before the end."""
    epochs = Epochs("local[1]", 1)
    epochs.start()
    first = jvm()
    context = SparkContext._active_spark_context
    assert context is not None
    shutil.rmtree(Path(context._temp_dir).parent)
    said = [failure_of(epochs), killed_at_work(epochs), failure_of(epochs)]
    second = jvm()
    # Nobody waits for its end: its connections are gone before the process is.
    second.kill()
    said += [failure_of(epochs), failure_of(epochs)]
    with tempfile.TemporaryDirectory() as empty:
        jvm().kill()
        found, os.environ["JAVA_HOME"] = os.environ.get("JAVA_HOME"), empty
        said += [failure_of(epochs), failure_of(epochs)]
        if found is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = found
    said.append(failure_of(epochs))
    last = jvm()
    last.kill()
    epochs.stop()
    print(json.dumps({"said": said, "jvms": len({first.pid, second.pid, last.pid})}))


if __name__ == "__main__":
    main()
