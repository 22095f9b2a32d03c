"""The stage of a drill: clusters, replicator and applications of one run, as any of its notebooks finds them.

Everything runs as a managed process of the run directory and belongs to the run's holder: a notebook's kernel may
end, what it started goes on, and when the holder ends nothing is left behind.
"""

from __future__ import annotations

import fcntl
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TextIO, TypeVar

from mirror.config.resolving import load
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.drill.interactive import Interactive, keep_in_use, take_up
from mirror.drill.live import answer_of, show_waits
from mirror.drill.notebook_display import style_outputs
from mirror.drill.steps.layout import Layout
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import clusters as lab_clusters
from mirror.lab import holder, processes, stage
from mirror.lab.applications import Deployment, Group, Load
from mirror.lab.clusters import Lab, LabCluster
from mirror.lab.processes import ManagedProcess
from mirror.model.flow import Flow
from mirror.proof.service import ask
from mirror.waiting import Counted, wait_until

__all__ = ["DrillStage"]

P = ParamSpec("P")
T = TypeVar("T")

REPLICATOR, LAG_SAMPLER, JUDGES = "mirror", "lag-sampler", "judges"
_JUDGING = "the judges to read and compare records"
_STOP_SECONDS = 60.0
_KERNEL_SECONDS = 60.0
# How much longer than it should records may take to be acknowledged.
_LATE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class DrillStage(stage.Stage):
    """One run's clusters and processes.

    Attributes
    ----------
    layout
        what is practised on.
    by_hand
        the step a person takes; None where the runner does.
    """

    run: RunDirectory
    layout: Layout
    by_hand: Interactive | None = None

    @classmethod
    def open(cls, run_directory: str | Path, step: str) -> DrillStage:
        """Return the stage of a run; without a directory, that of the practice run under way, or of a new one.

        Raises
        ------
        NotARunDirectory
            if there is no run.
        NoRun
            if none is under way, or the step cannot be taken in it now.
        """
        style_outputs()
        if run_directory:
            run = RunDirectory.open(run_directory)
            be_the_only_kernel(run)
            return cls.of(run)
        by_hand = take_up(step)
        by_hand.introduce()
        keep_in_use(by_hand.run.path)
        show_waits()
        return cls.of(by_hand.run, by_hand)

    @classmethod
    def of(cls, run: RunDirectory, by_hand: Interactive | None = None) -> DrillStage:
        """Return the stage of a run; what is started belongs to the run's holder, which that starts, if need be."""
        holder.use(run.path)
        return cls(run.lab, run.logs, run.ledger, None, _STOP_SECONDS, run, Layout.of(run), by_hand)

    @property
    def active(self) -> str:
        """The cluster that is active at first."""
        return self.layout.active

    @property
    def standby(self) -> str:
        """The cluster that takes over."""
        return self.layout.standby

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the applications."""
        return self.layout.topics

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the applications."""
        return self.layout.groups

    @property
    def forward(self) -> Flow:
        """The flow that is failed over."""
        return self.layout.forward

    @property
    def reverse(self) -> Flow:
        """The flow back."""
        return self.layout.reverse

    def ensure_holder(self) -> int:
        """Return the process that what is started ends with: the run's holder, started if there is none."""
        return holder.hold(self.run.path).pid

    @property
    def lab(self) -> Lab:
        """The clusters, to be looked at; see `start_cluster`."""
        found = holder.holder_of(self.run.path)
        return lab_clusters.load(self.home, owner_pid=found.pid if found is not None else None)

    def start_cluster(self, alias: str) -> LabCluster:
        """Start a cluster that is down; return it."""
        self.ensure_holder()
        cluster = self.cluster(alias)
        cluster.start()
        return cluster

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> ManagedProcess:
        """Start a process of the run."""
        return processes.start(self.logs, name, argv, env=env, owner_pid=self.ensure_holder())

    def confirm(self, word: str, consequence: str) -> None:
        """Have a person type a word before the point of no return; the runner has settled that before.

        Raises
        ------
        NotConfirmed
            if anything else is typed.
        """
        if self.by_hand is not None:
            self.by_hand.confirm(word, consequence)

    def conclude(self, outcome: Outcome) -> None:
        """Write the step's outcome.

        Raises
        ------
        StepNotPassed
            unless it is PASS.
        """
        (self.by_hand or self.run).conclude(outcome)

    @property
    def settings(self) -> MirrorSettings:
        """What the run's properties file says."""
        return load(self.run.mirror_properties)

    def flow(self, flow: Flow) -> FlowSettings:
        """Return the settings of one flow."""
        return next(each for each in self.settings.flows if each.flow == flow)

    def remote(self, topic: str, flow: Flow | None = None) -> str:
        """Return the name of a topic's copy on the target of a flow, or of the one that is failed over."""
        return self.flow(flow or self.forward).copy_of(topic)

    def start_replicator(self) -> ManagedProcess:
        """Start ``mirror run``."""
        return self.start_engine(REPLICATOR, self.run.mirror_properties)

    def start_lag_sampler(self) -> ManagedProcess:
        """Start sampling lag into the run directory."""
        argv = [sys.executable, "-m", "mirror.drill.lag", str(self.run.mirror_properties), str(self.run.lag)]
        return self.start(LAG_SAMPLER, argv)

    def start_judges(self) -> ManagedProcess:
        """Start the process that judges, so that it is warm by the time it is asked."""
        self._judges_address.unlink(missing_ok=True)
        return self.start(JUDGES, [sys.executable, "-m", "mirror.proof.service", str(self._judges_address)])

    def judge(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a judging function, which only reads, in the process that judges; without one, here: it takes longer."""
        listens = wait_until(
            lambda: self._judges_address.exists() if self.alive(JUDGES) else None,
            "the process that judges to listen, or to end",
            timeout_seconds=math.inf,
            until=lambda listens: listens is not False,
        )
        if not listens:
            return function(*args, **kwargs)
        if self.by_hand is None:
            return ask(self._judges_address, function, *args, **kwargs)
        return answer_of(lambda: ask(self._judges_address, function, *args, **kwargs), _JUDGING)

    @property
    def _judges_address(self) -> Path:
        return self.run.logs / "judges-address.json"

    def applications(
        self, alias: str, phase: str, *, rate: float, seed: int, value_bytes: int, slow: float = 0.0
    ) -> Deployment:
        """Return the applications as they run on a cluster: the groups read its own topics, and the copies there.

        Parameters
        ----------
        phase
            keeps their names apart in the ledger.
        slow
            records/s of the last group, which stays behind on purpose; 0: no limit.
        """
        producers = Load(
            alias,
            self.topics,
            rate=rate,
            value_bytes=value_bytes,
            keys=1000,
            tombstones=0.02,
            # What applications usually set: records of some milliseconds go out together.
            client={"linger.ms": "50"},
            flush_seconds=1.5,
        )
        into = self.forward if alias == self.standby else self.reverse
        topics = (*self.topics, *(self.remote(topic, into) for topic in self.topics))
        limits = dict.fromkeys(self.groups, 0.0) | {self.groups[-1]: slow}
        groups = tuple(Group(group, alias, topics, max_rate=limits[group]) for group in self.groups)
        return Deployment(alias, (producers,), groups, phase, seed)

    def start_load(self, load: Load, phase: str, seed: int) -> ManagedProcess:
        """Start producers, and say so in the journal; ``phase`` keeps their names apart in the ledger."""
        started = stage.Stage.start_load(self, load, phase, seed)
        self.run.journal.append(Event.LOAD_STARTED, facts={"cluster": load.cluster, "rate_per_second": load.rate})
        return started

    def wait_for_load(self, alias: str, *, rate: float, seconds: float) -> int:
        """Wait until a cluster has acknowledged as much more as ``seconds`` of load bring; return how much that was."""
        before, more = self.acked(alias), int(rate * seconds)
        what = f"{more:,} more acknowledged records on {alias}"
        seen = wait_until(
            lambda: Counted(self.acked(alias) - before, more), what, timeout_seconds=seconds + _LATE_SECONDS
        )
        return seen.done


def be_the_only_kernel(run: RunDirectory) -> None:
    """Wait until no kernel of the run's runner is at work in it, and let none be beside this one until it ends.

    A runner that is killed leaves its kernel for a moment, which may be about to act.
    """
    file = (run.path / "kernel.lock").open("a")
    _HELD.append(file)  # closing the file would give the lock up

    def is_held() -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    wait_until(is_held, "the kernel of an earlier attempt to end", timeout_seconds=_KERNEL_SECONDS)


_HELD: list[TextIO] = []
