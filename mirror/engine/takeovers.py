"""Takes partitions over from Java MirrorMaker, beside the epochs: a long tail holds up no partition but its own."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from mirror.copier.epochs import EpochFailed, Epochs
from mirror.copier.work import FlowWork, PartitionResult, PartitionWork, TaskWork
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.run_log import logger_of
from mirror.model.flow import Flow

# So many partitions at most are decided on at a time, and no further one is begun after so many seconds: the others
# need not wait to be copied until all are through.
_MOST_PARTITIONS = 200
_SECONDS = 3.0
_TICK_SECONDS = 0.1
_BACKOFF_SECONDS = 0.5


@dataclass(eq=False, repr=False)
class Takeovers:
    """Decides, for the partitions that wait for it, where to go on.

    Take what waits in ``runtimes``; the log says of each partition what came of it.
    """

    epochs: Epochs
    runtimes: Mapping[Flow, FlowRuntime]
    flow_work: Callable[[Flow], FlowWork]
    # The right to write of each flow that is worked on.
    _leases: tuple[Lease, ...] = field(default=(), init=False)

    def _write_seconds(self) -> float:
        """Return for how long may be written of the flows that are worked on."""
        return min((lease.left for lease in self._leases), default=math.inf)

    def run(self, stop: threading.Event) -> None:
        """Go on until told to stop."""
        while not stop.is_set():
            work = self._plan()
            if work is None:
                stop.wait(_TICK_SECONDS)
                continue
            try:
                results = self.epochs.take_over(work, self._write_seconds).partitions
            except EpochFailed as failure:
                # Nothing was written, so nothing is lost.
                for flow in work.flows:
                    self.runtimes[flow.flow].takeover_trouble = f"the last takeover failed: {failure}"
                stop.wait(_BACKOFF_SECONDS)
                continue
            for flow in work.flows:
                self.runtimes[flow.flow].takeover_trouble = None
            sent = {(one.flow, one.source): one for one in work.partitions}
            for result in results:
                self._take(sent[result.flow, result.source], result)
            if all(result.trouble for result in results):
                stop.wait(_BACKOFF_SECONDS)

    def _plan(self) -> TaskWork | None:
        with ExitStack() as held:
            # A flow that is begun anew meanwhile has other partitions that wait, and another right to write.
            for runtime in self.runtimes.values():
                held.enter_context(runtime.lock)
            return self._planned()

    def _planned(self) -> TaskWork | None:
        leases = {flow: runtime.lease for flow, runtime in self.runtimes.items()}
        waiting = [
            PartitionWork(
                flow,
                source,
                target,
                topic_id,
                runtime.handovers.get(source),
                runtime.takeovers[source],
                runtime.settings.transform_of(source.topic),
                target_id,
                runtime.gap_policy(source),
                left_out=runtime.left_out.get(source.topic, ()),
            )
            for flow, runtime in self.runtimes.items()
            if runtime.is_known
            for source, target, topic_id, target_id in runtime.partitions
            if source in runtime.takeovers and source not in runtime.stopped and target not in runtime.late.unfenced
        ]
        if not waiting:
            return None
        partitions = tuple(waiting[:_MOST_PARTITIONS])
        flows = tuple(self.flow_work(flow) for flow in sorted({one.flow for one in partitions}))
        self._leases = tuple(leases[flow.flow] for flow in flows)
        return TaskWork(flows, partitions, _SECONDS, 0.0)

    def _take(self, work: PartitionWork, result: PartitionResult) -> None:
        runtime = self.runtimes[result.flow]
        with runtime.lock:
            # Begun anew in between, the flow may have been copied on by another engine.
            if not runtime.is_known or runtime.takeovers.get(result.source) is not work.mm2:
                # The engine has lost its place meanwhile, and reads it back; this is decided again.
                return
            take_in(runtime, result)
        if result.note:
            logger_of(result.flow).info("%s: %s", result.source, result.note)
        elif result.handover is not None and result.trouble is None and result.stopped is None:
            position = result.handover.position
            is_java = runtime.loss is None and (runtime.mm2.has_run or work.mm2 is None or not work.mm2.is_alone)
            whose = "Java MirrorMaker" if is_java else "what lies on the target, for positions were lost,"
            logger_of(result.flow).info(
                "%s is taken over from %s at upstream offset %s; %s records behind its position were there already",
                *(result.source, whose, position.upstream, result.skipped_by_match),
            )


def take_in(runtime: FlowRuntime, result: PartitionResult) -> None:
    """Take in where to go on with a partition that Java MirrorMaker copied; one with a trouble is tried again."""
    with runtime.lock:
        trace = runtime.takeovers.pop(result.source, None)
        if result.trouble is None and result.stopped is None:
            runtime.mm2 = runtime.mm2.without(result.source)
        elif trace is not None:
            # Behind all others: what cannot be decided now does not keep them from it. What was refused must not be
            # begun as if nothing were known of it, should the stop be lifted.
            runtime.takeovers[result.source] = trace
        runtime.take_result(result)
        runtime.changed()
