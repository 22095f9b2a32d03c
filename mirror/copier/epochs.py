"""Epochs on Spark: an epoch is one job of a few tasks, each copying its share of the partitions for some seconds.

Invariants:

(a) A JVM that was killed stops answering before it stops being a process, so whether Spark is lost is found out by
    asking it. What a dying JVM could not hand over looks like the end of what there is: an epoch with fewer results
    than tasks has failed.
(b) A task that waits for a core never gets its epoch: the first task that ends ends the epoch. When some tasks have
    not begun seconds after the first, the epoch ends, and the next ones have as many as ran at once, until executors
    come or go.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark import SparkContext, TaskContext

from mirror.copier.epoch_channel import CopiedNews, EpochChannel, Troubles
from mirror.copier.loop import GRACE_SECONDS
from mirror.copier.takeover_task import take_over
from mirror.copier.task import copy
from mirror.copier.work import TaskResult, TaskWork
from mirror.kafka.security import UnsupportedSetting, without_files
from mirror.no_spark import SparkDidNotStart
from mirror.spark import (
    SPARK_ERRORS,
    DriverAddress,
    driver_address,
    end_spark,
    spark_answers,
    spark_context,
    spark_message,
)
from mirror.spark_conf import is_local
from mirror.waiting import WaitTimeout, wait_until

# After this a task that was told to end counts as hung; a frozen worker is not waited for for ever.
_PATIENCE_SECONDS = GRACE_SECONDS + 4.0
# A worker may take so long to begin.
_START_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_NO_EXECUTOR = (
    "no executor of Spark's cluster has come up: are there free cores and memory, and do they reach the driver?"
)
_GIVEN_UP = "a task that has said nothing for long was given up: it stands still, or is cut off from this process"
# Tasks that have not begun so long after the first wait for a core, which a cluster that lost a worker does not have.
_SHORTAGE_SECONDS = 5.0
# For so long an epoch then has fewer tasks, unless executors come or go before.
_SHORTAGE_LASTS_SECONDS = 300.0
# Imports this module: that workers have it before they are forked.
_WORKER_DAEMON = "mirror.copier.worker_daemon"
# Of what Spark says of a job that was cancelled, as none is but for such a task.
_CANCELLED = "[SPARK_JOB_CANCELLED]"


class EpochFailed(Exception):
    """A task died with its worker or its executor; what it had written is found by matching the tail.

    Attributes
    ----------
    write_until
        until when a task may go on writing that is cut off from this process, by `mirror.clock.steady_seconds`.
    """

    def __init__(self, reason: str, write_until: float = -math.inf) -> None:
        super().__init__(reason)
        self.write_until = write_until


class AlreadyTried(Exception):
    """Spark runs a task again: from where the first attempt began it would write everything twice."""


class Epochs:
    """Runs epochs on this process's Spark."""

    def __init__(
        self,
        master: str | None,
        tasks: int,
        troubled: Callable[[Troubles], None] = lambda _: None,
        write_seconds: Callable[[], float] = lambda: math.inf,
        copied: Callable[[CopiedNews], None] = lambda _: None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> None:
        """Run on ``master``, by default on this machine, in ``tasks`` tasks an epoch (0: as many as cores).

        The cores are those of this machine, or those that executors of a cluster have when an epoch begins.
        ``spark_conf`` has further settings of Spark.

        ``troubled`` is called, while an epoch runs, with what has changed of what keeps partitions from being copied,
        ``copied`` with how much is, by tasks whose work asks for that, and ``write_seconds`` says for how long tasks
        may write from now on; all are called in another thread, ``copied`` of an epoch before that ends.
        """
        self._copied = copied
        #: For how many seconds nobody copied between the last two epochs; None before the second.
        self.seam_seconds: float | None = None
        self._alone_since: float | None = None
        self._troubled = troubled
        self._write_seconds = write_seconds
        #: As many as an epoch has; on a cluster without a word about it only as many as write with exactly once.
        self.tasks = tasks or os.cpu_count() or 1
        self._follows_cores = not (tasks or is_local(master))
        self._spark_conf = dict(spark_conf or {})
        # One more than an epoch needs: partitions are taken over from Java MirrorMaker beside the epochs.
        self._master = master or f"local[{self.tasks + 1}]"
        self._spark: SparkContext | None = None
        self._address = DriverAddress()
        self._epoch_channel: EpochChannel | None = None
        self._is_ending = self._is_aborted = False
        self._channel_lock = threading.Lock()
        self._shortage: _Shortage | None = None

    def at_once(self) -> int:
        """Return how many tasks the next epoch is to have: as many as there are cores for, as far as is known.

        A task that waited for another to end would find the epoch over, again and again.
        """
        short = self._shortage
        if short is not None and (time.monotonic() > short.until or self._executors() != short.executors):
            self._shortage = short = None
        if short is not None:
            return short.tasks
        return max(self._cores(), 1) if self._follows_cores else self.tasks

    def _cores(self) -> int:
        """Return for how many tasks the executors have cores now; 0 while there are none, or Spark says nothing."""
        try:
            if self._spark is None:
                return 0
            spark = self._spark._jsc.sc()
            return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))
        except SPARK_ERRORS:
            return 0

    def _executors(self) -> int:
        """Return how many executors there are; 0 while Spark says nothing."""
        try:
            return len(self._spark._jsc.sc().statusTracker().getExecutorInfos()) if self._spark is not None else 0
        except SPARK_ERRORS:
            return 0

    def silent_seconds(self) -> float:
        """Return for how long a task of the epoch that runs was not heard of; 0 while none runs; from any thread."""
        with self._channel_lock:
            return 0.0 if self._epoch_channel is None else self._epoch_channel.silent_seconds()

    def end_epoch(self) -> None:
        """End the epoch that runs, or the next one, as soon as what was sent is answered; from any thread."""
        with self._channel_lock:
            self._is_ending = True
            if self._epoch_channel is not None:
                self._epoch_channel.end_epoch()

    def abort(self) -> None:
        """Have every task stop writing at once, whatever is unanswered; from any thread."""
        with self._channel_lock:
            self._is_aborted = True
            if self._epoch_channel is not None:
                self._epoch_channel.disconnect_all()

    def start(self) -> None:
        """Start Spark; takes seconds.

        Raises
        ------
        SparkDidNotStart
            if its JVM cannot be started, or does not stay.
        """
        # In a thread: in the main one PySpark would take Ctrl-C over, for good, to raise an exception wherever that is.
        with ThreadPoolExecutor(1, "spark") as beside:
            settings = {**self._spark_conf, "spark.python.daemon.module": _WORKER_DAEMON}
            context = beside.submit(spark_context, "mirror", self._master, settings=settings).result()
        try:
            self._address = driver_address(context)
        except SPARK_ERRORS as error:
            end_spark()
            raise SparkDidNotStart(f"Spark's JVM ended right after its start: {_task_error_message(error)}") from error
        self._spark = context

    def run(self, works: Sequence[TaskWork]) -> list[TaskResult]:
        """Run one epoch to its end and return what each task hands back, in the order of ``works``.

        Raises
        ------
        EpochFailed
            if Spark could not finish the job, or not be started; a Spark that was lost is replaced by the next epoch.
            Raised when the other tasks have ended too, so that none of them goes on writing beside the next epoch; one
            that is frozen finds the driver gone when it thaws, and writes no more. One that is cut off from this
            process alone may go on until `EpochFailed.write_until`.
        """
        if self._spark is None:
            try:
                self.start()
            except SparkDidNotStart as problem:
                raise EpochFailed(str(problem).splitlines()[0]) from problem
        assert self._spark is not None
        carried = [self._carried(work) for work in works]
        with self._new_epoch_channel(self._troubled, self._write_seconds, self._copied) as epoch_channel:
            self._attach(epoch_channel)
            addressed = [replace(work, epoch_channel=epoch_channel.address) for work in carried]
            over = threading.Event()
            seconds = max(work.seconds for work in works)
            watched = (epoch_channel, self._spark, over, seconds, len(works))
            threading.Thread(target=self._watch, args=watched, name="watchdog", daemon=True).start()
            try:
                results = self._spark.parallelize(addressed, len(works)).map(_copy_once).collect()
                if len(results) < len(works):
                    # What a JVM could not send any more counts as the end of what there is.
                    raise EOFError(f"of {len(works)} tasks {len(results)} handed something back")
            except SPARK_ERRORS as error:
                epoch_channel.end_epoch()
                with contextlib.suppress(WaitTimeout):
                    wait_until(
                        lambda: not epoch_channel.listeners, "the other tasks", timeout_seconds=_PATIENCE_SECONDS
                    )
                if not spark_answers():
                    self._end()
                    lost = "Spark's JVM has ended; the next epoch starts another"
                    raise EpochFailed(lost, epoch_channel.write_until) from error
                reason = (
                    _NO_EXECUTOR if epoch_channel.first_at is None and not self._cores() else _task_error_message(error)
                )
                raise EpochFailed(reason, epoch_channel.write_until) from error
            else:
                return list(results)
            finally:
                over.set()
                self._attach(None)
                if epoch_channel.first_at is not None:
                    if self._alone_since is not None:
                        self.seam_seconds = epoch_channel.first_at - self._alone_since
                    self._alone_since = time.monotonic() - epoch_channel.alone()

    def take_over(self, work: TaskWork, write_seconds: Callable[[], float] = lambda: math.inf) -> TaskResult:
        """Decide in a job of its own, beside the epochs, where to go on with partitions that Java MirrorMaker copied.

        ``write_seconds`` says, in another thread, for how long it may write from now on.

        Raises
        ------
        EpochFailed
            if Spark could not finish the job, or does not run now; nothing was written.
        """
        context = self._spark
        if context is None:
            raise EpochFailed("Spark does not run yet")
        try:
            with self._new_epoch_channel(write_seconds=write_seconds) as epoch_channel:
                heard = replace(self._carried(work), epoch_channel=epoch_channel.address)
                (result,) = context.parallelize([heard], 1).map(take_over).collect()
        except Exception as error:
            # Of a Spark that the epochs have ended meanwhile, because it was lost, anything may be missing.
            if self._spark is context and not isinstance(error, SPARK_ERRORS):
                raise
            raise EpochFailed(_task_error_message(error)) from error
        assert isinstance(result, TaskResult)
        return result

    def _new_epoch_channel(
        self,
        troubled: Callable[[Troubles], None] = lambda _: None,
        write_seconds: Callable[[], float] = lambda: math.inf,
        copied: Callable[[CopiedNews], None] = lambda _: None,
    ) -> EpochChannel:
        at = self._address
        return EpochChannel(at.host, troubled, write_seconds, copied, bind=at.bind, port=at.port)

    def _carried(self, work: TaskWork) -> TaskWork:
        """Return the work of a task that may run on another machine: what files of this one hold stands in it.

        Raises
        ------
        EpochFailed
            if such a file cannot be read now.
        """
        if is_local(self._master):
            return work
        try:
            flows = [
                replace(
                    flow,
                    source_client=without_files(flow.source_client),
                    target_client=without_files(flow.target_client),
                )
                for flow in work.flows
            ]
        except (UnsupportedSetting, OSError) as problem:
            raise EpochFailed(f"the workers' logins cannot be read: {problem}") from problem
        return replace(work, flows=tuple(flows))

    def _watch(
        self, epoch_channel: EpochChannel, context: SparkContext, over: threading.Event, seconds: float, tasks: int
    ) -> None:
        """End an epoch in which some tasks do not begin, and cancel one that does not end."""
        # On this machine there is a core for each, if perhaps a busy one.
        patience = math.inf if is_local(self._master) else _SHORTAGE_SECONDS
        if await_all(epoch_channel, seconds, tasks, patience):
            believed_until = time.monotonic() + _SHORTAGE_LASTS_SECONDS
            self._shortage = _Shortage(max(epoch_channel.most, 1), self._executors(), believed_until)
            epoch_channel.end_epoch()
        _cancel_silent(epoch_channel, over, context)

    def _attach(self, epoch_channel: EpochChannel | None) -> None:
        with self._channel_lock:
            if epoch_channel is not None and self._is_ending:
                epoch_channel.end_epoch()
            if epoch_channel is not None and self._is_aborted:
                # It was planned before.
                epoch_channel.disconnect_all()
            self._epoch_channel, self._is_ending, self._is_aborted = epoch_channel, False, False

    def stop(self) -> None:
        """Stop Spark."""
        if self._spark is not None:
            self._end()

    def _end(self) -> None:
        self._spark = None
        end_spark()


def _task_error_message(error: Exception) -> str:
    """Return what a task met, for people."""
    message = spark_message(error)
    return _GIVEN_UP if _CANCELLED in message else message


@dataclass(frozen=True, slots=True)
class _Shortage:
    """So many tasks ran at once although there were more, with so many executors; believed until then."""

    tasks: int
    executors: int
    until: float


def await_all(epoch_channel: EpochChannel, seconds: float, tasks: int, patience_seconds: float) -> bool:
    """Wait until the epoch is to end; tell at once if some of its tasks do not begin for lack of cores."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if epoch_channel.ending.wait(min(_LOOK_SECONDS, left)):
            return False
        if 0 < epoch_channel.most < tasks and epoch_channel.listened_seconds() > patience_seconds:
            return True
    return False


def _cancel_silent(epoch_channel: EpochChannel, over: threading.Event, context: SparkContext) -> None:
    """Cancel an epoch that should have ended once a task says nothing any more: Spark kills the frozen worker.

    It would hold up all others. A task that takes long, matching a tail for instance, says that it lives.
    """
    while not over.wait(_LOOK_SECONDS):
        if (epoch_channel.silence() or 0.0) > _PATIENCE_SECONDS or epoch_channel.alone() > _START_SECONDS:
            # One that is lost meanwhile has no job any more.
            with contextlib.suppress(*SPARK_ERRORS):
                context.cancelAllJobs()
            return


def _copy_once(work: TaskWork) -> TaskResult:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise AlreadyTried("a task of an epoch is not run again; the next epoch finds out what it has written")
    return copy(work)
