"""The stage of a drill: clusters, replicator and applications of one run, as any of its notebooks finds them.

Everything runs as a managed process of the run directory, owned by whoever runs the runbook: a notebook's kernel may
end, what it started goes on, and when the owner ends nothing is left behind.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from mirror.config.settings import FlowSettings, MirrorSettings, load
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import stage
from mirror.lab.applications import Group, Load
from mirror.lab.processes import ManagedProcess
from mirror.model.flow import Flow
from mirror.proof.service import ask
from mirror.waiting import wait_until

P = ParamSpec("P")
T = TypeVar("T")

ACTIVE, STANDBY = "east", "west"
TOPICS = ("orders", "payments")
GROUPS = ("billing", "audit")
FORWARD, REVERSE = Flow(ACTIVE, STANDBY), Flow(STANDBY, ACTIVE)

REPLICATOR, LAG_SAMPLER, JUDGES = "mirror", "lag-sampler", "judges"
_STOP_SECONDS = 60.0
# How much longer than it should records may take to be acknowledged.
_LATE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Stage(stage.Stage):
    """One run's clusters and processes."""

    run: RunDirectory

    @classmethod
    def open(cls, run_directory: str | Path) -> Stage:
        """Return the stage of a run.

        Raises
        ------
        NotARunDirectory
            if there is no run.
        """
        return cls.of(RunDirectory.open(run_directory))

    @classmethod
    def of(cls, run: RunDirectory) -> Stage:
        """Return the stage of a run; a person who steps through the notebooks alone owns what is started until told."""
        pid = os.environ.get("MIRROR_OWNER_PID")
        return cls(run.lab, run.logs, run.ledger, int(pid) if pid else None, _STOP_SECONDS, run)

    @property
    def settings(self) -> MirrorSettings:
        """What the run's properties file says."""
        return load(self.run.mirror_properties)

    def flow(self, flow: Flow) -> FlowSettings:
        """Return the settings of one flow."""
        return next(each for each in self.settings.flows if each.flow == flow)

    def remote(self, topic: str, flow: Flow = FORWARD) -> str:
        """Return the name of a topic's copy on the flow's target."""
        return self.flow(flow).copy_of(topic)

    def start_replicator(self, targets: Sequence[str]) -> ManagedProcess:
        """Start ``mirror run`` for the flows into ``targets``."""
        return self.start_engine(REPLICATOR, self.run.mirror_properties, targets=targets)

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
        return ask(self._judges_address, function, *args, **kwargs) if listens else function(*args, **kwargs)

    @property
    def _judges_address(self) -> Path:
        return self.run.logs / "judges-address.json"

    def start_load(self, alias: str, phase: str, *, rate: float, seed: int, value_bytes: int) -> None:
        """Start the producers of the applications on a cluster; ``phase`` keeps their names apart in the ledger."""
        producers = Load(
            alias,
            TOPICS,
            rate=rate,
            value_bytes=value_bytes,
            keys=1000,
            tombstones=0.02,
            # What applications usually set: records of some milliseconds go out together.
            client={"linger.ms": "50"},
            # On a busy machine brokers may be silent for seconds: a client that gives up meanwhile, and goes on behind
            # what it gave up, sends records twice.
            give_up_seconds=30.0,
            flush_seconds=1.5,
        )
        self.start_producers(producers, phase, seed)
        self.run.journal.append(Event.LOAD_STARTED, facts={"cluster": alias, "rate_per_second": rate})

    def start_readers(self, alias: str, phase: str, topics: Sequence[str], max_rate: Mapping[str, float]) -> None:
        """Start every group's readers on a cluster; ``max_rate`` (records/s) keeps a group behind on purpose."""
        for group in GROUPS:
            self.start_members(Group(group, alias, tuple(topics), max_rate=max_rate.get(group, 0.0)), phase)

    def wait_for_load(self, alias: str, *, rate: float, seconds: float) -> int:
        """Wait until a cluster has acknowledged as much more as ``seconds`` of load bring; return how much that was."""
        before, more = self.acked(alias), int(rate * seconds)
        what = f"{more} more acknowledged records on {alias}"
        seen = wait_until(
            lambda: self.acked(alias),
            what,
            timeout_seconds=seconds + _LATE_SECONDS,
            until=lambda acked: acked >= before + more,
        )
        return seen - before
