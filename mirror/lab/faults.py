"""Faults that a lab puts into clusters on purpose, to see whether they are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from mirror.lab.errors import LabError
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until

_TIMEOUT_SECONDS = 60.0
_HIGH_WATERMARK = -1


def remove_first_records(bootstrap_servers: str, partition: TopicPartition, records: int) -> None:
    """Delete the first ``records`` records of a partition that begins at offset 0: they are gone for every reader.

    Raises
    ------
    LabError
        if the cluster does not do it.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    asked = admin.delete_records(
        [ClientPartition(partition.topic, partition.partition, records)], request_timeout=_TIMEOUT_SECONDS
    )
    for future in asked.values():
        try:
            low_watermark = future.result(timeout=_TIMEOUT_SECONDS).low_watermark
        except Exception as error:
            raise LabError(
                f"{partition} on {bootstrap_servers}: its first records were not removed: {error}"
            ) from error
        if low_watermark != records:
            raise LabError(f"{partition} on {bootstrap_servers} now begins at {low_watermark}, not at {records}")


def delete_all_records(bootstrap_servers: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete everything that partitions hold now, as retention does when its time has come.

    Raises
    ------
    LabError
        if the cluster does not do it.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    up_to_the_end = [ClientPartition(each.topic, each.partition, _HIGH_WATERMARK) for each in partitions]
    for partition, future in admin.delete_records(up_to_the_end, request_timeout=_TIMEOUT_SECONDS).items():
        try:
            future.result(timeout=_TIMEOUT_SECONDS)
        except Exception as error:
            raise LabError(f"{partition} on {bootstrap_servers}: its records were not deleted: {error}") from error


def python_workers(process: ManagedProcess) -> list[psutil.Process]:
    """Return the Python workers of the Spark inside a process, newest last; none while it has none."""
    return [each for each in _children(process) if "pyspark.worker" in _command(each)]


def spark_jvms(process: ManagedProcess) -> list[psutil.Process]:
    """Return the JVMs of the Spark inside a process."""
    return [each for each in _children(process) if "SparkSubmit" in _command(each)]


def kill(victims: Iterable[psutil.Process]) -> None:
    """``kill -9`` processes; one that is gone already is left at that."""
    _each(victims, psutil.Process.kill)


def suspend(processes: Iterable[ManagedProcess]) -> None:
    """Freeze processes and everything they have started with SIGSTOP; they keep their connections and do nothing.

    Returns when all of their threads have stopped: one that is at work goes on for a moment behind the signal. A
    process that is gone already is left at that.

    Raises
    ------
    WaitTimeout
        if a thread goes on for longer than 60 seconds.
    """
    frozen = _families(processes)
    _each(frozen, psutil.Process.suspend)
    wait_until(
        lambda: all(_is_stopped(each) for each in frozen), "processes to be frozen", timeout_seconds=_TIMEOUT_SECONDS
    )


def resume(processes: Iterable[ManagedProcess]) -> None:
    """Let frozen processes go on; one that is gone already is left at that."""
    _each(_families(processes), psutil.Process.resume)


def _each(processes: Iterable[psutil.Process], do: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            do(process)


def _is_stopped(process: psutil.Process) -> bool:
    """Tell whether no thread of a process is at work: the process's own state is that of its first thread alone."""
    with suppress(psutil.NoSuchProcess):
        threads = [psutil.Process(each.id) for each in process.threads()] if psutil.LINUX else [process]
        return all(_has_stopped(each) for each in threads)
    return True


def _has_stopped(thread: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return thread.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    return True


def _families(processes: Iterable[ManagedProcess]) -> list[psutil.Process]:
    return [member for process in processes for member in _family(process)]


def _children(process: ManagedProcess) -> list[psutil.Process]:
    return _family(process)[1:]


def _family(process: ManagedProcess) -> list[psutil.Process]:
    """Return a process and everything it has started; nothing if it is gone."""
    if not process.is_alive():
        return []
    try:
        head = psutil.Process(process.pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
