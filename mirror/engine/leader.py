"""The thread of a flow that takes part in its election, and says in the state topic how the flow is while it leads.

Invariants:

(a) A leader's silence is counted only while the state topic can be read. After an outage of the target the old leader
    renews before another one may bid.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass, replace

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.tick import now_ms, run_tick
from mirror.control.topics import create_state_topic
from mirror.engine import flow_messages
from mirror.engine.cluster_news import NO_OUTAGES, Outages
from mirror.engine.election import Election, Identity
from mirror.engine.flow_news import FlowNews
from mirror.engine.flow_pauses import pause_report, take_pauses
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import LEASE_SHARE, Lease
from mirror.engine.run_log import logger_of
from mirror.engine.ticking import Ticking
from mirror.kafka.cluster import Cluster
from mirror.model.counts import counted
from mirror.model.leadership import differing_words, digest_of
from mirror.model.state_record import state_topic
from mirror.model.state_values import RunReport, pause_report_record

_LOOK_SECONDS = 0.5


class FlowLeader:
    """Leads a flow, or stands by, until told to end.

    ``lost`` is called when this engine must stop writing at once.
    """

    def __init__(
        self,
        settings: FlowSettings,
        runtime: FlowRuntime,
        identity: Identity,
        *,
        timeout_seconds: float,
        lost: Callable[[], None] = lambda: None,
        is_stuck: Callable[[], bool] = lambda: False,
        outages: Outages = NO_OUTAGES,
    ) -> None:
        """Take part for ``identity``; ``runtime`` is told when it leads and when it does so no longer.

        ``is_stuck`` says whether the engine could not copy if it led. What comes of ``outages`` is not reported as
        news.
        """
        self._is_stuck = is_stuck
        self._settings = settings
        self._runtime = runtime
        self._identity = identity
        self._timeout_seconds = timeout_seconds
        self._log = logger_of(settings.flow)
        self._outages = outages
        self._news = FlowNews(runtime, outages)
        self._lost = lost
        self._election: Election | None = None
        self._leads = threading.Event()
        self._lease_over = threading.Event()
        self._ended = threading.Event()
        self._is_settled = False
        self._logged = ""
        # Why a pause did not promise everything, as it was last reported.
        self._limit = ""
        # When nothing was wrong and nothing paused, as it was last reported.
        self._untroubled_ms: int | None = None
        self._could_copy = True

    def run(self, target: ClusterSettings, ticking: Ticking) -> None:
        """Take part until :meth:`end`; then release the flow."""
        name = f"leader {self._settings.flow}"
        with ExitStack() as connections:
            cluster: list[Cluster] = []

            def round_of_election(_: int) -> tuple[int, Sequence[str]]:
                if not cluster:
                    cluster.append(connections.enter_context(Cluster.connect(target)))
                return self._round(cluster[0])

            while True:
                self._runtime.pause_changed.clear()
                ticking.once(lambda: run_tick(name, now_ms, round_of_election))
                self._news.look()
                if not self._ended.is_set():
                    self._runtime.pause_changed.wait(_LOOK_SECONDS)
                if self._ended.is_set():
                    break
            # By a name of its own: that nothing went wrong with it does not mean that the election has recovered.
            ticking.once(lambda: run_tick(f"release {self._settings.flow}", now_ms, self._release))
            if self._election is not None:
                self._election.close()

    def await_lease(self, stop: threading.Event) -> threading.Event | None:
        """Wait until this engine leads; return what is set when it does so no longer, None once ``stop`` is set."""
        while not stop.is_set():
            if self._leads.wait(_LOOK_SECONDS):
                return self._lease_over
        return None

    def over(self) -> None:
        """Let the flow's control end, because the engine stops. It leads until :meth:`end`, when nothing is written."""
        self._leads.clear()
        self._lease_over.set()

    def end(self, *, is_settled: bool) -> None:
        """Release the flow; ``is_settled``: nothing that was sent can arrive late."""
        self._is_settled = is_settled
        self._ended.set()
        self._runtime.pause_changed.set()

    def _round(self, target: Cluster) -> tuple[int, Sequence[str]]:
        if self._election is None:
            is_there, problems = create_state_topic(target, self._settings)
            if not is_there:
                flow = self._settings.flow
                unled = f"nothing is copied until {state_topic(flow.source)} can be used on {flow.target}"
                return 0, (unled, *problems) if problems else ()
            self._election = Election(
                self._settings.flow,
                self._settings.target_producer,
                self._settings.clients.checkpoints_consumer,
                self._identity,
                timeout_seconds=self._timeout_seconds,
                settings=digests(self._settings, self._timeout_seconds),
            )
        election, led = self._election, self._runtime.term is not None
        if self._runtime.settings is not self._settings:
            # The file has changed.
            self._settings = self._runtime.settings
            before, election.settings = election.settings, digests(self._settings, self._timeout_seconds)
            if election.settings != before:
                # By the file of before: topics that are chosen since may not have been copied then.
                self._untroubled_ms = election.was_untroubled_at_ms = None
        if self._is_stuck():
            # An engine that renews and does not copy keeps others from it.
            if led:
                report = self._report()
                self._stand_by("Spark has not answered for minutes; another engine may lead the flow")
                election.release(report, is_settled=False)
            return 0, ("Spark does not answer, so nothing is copied: end this engine, and start it again",)
        try:
            leads = election.round(self._report)
        finally:
            # Before the right to write is renewed: an engine that was stopped meanwhile does not write what is paused.
            self._take_pauses(election)
            # Also when the target does not answer: what was sent before an outage is not refused after it.
            if self._runtime.term is not None and self._runtime.term == election.term:
                self._runtime.lease.renew(election.renewed_at)
                self._watch_right()
        if leads and led and self._runtime.term != election.term:
            self._stand_by("another engine led the flow meanwhile")
            led = False
        if leads and not led:
            self._begin(election)
        elif led and not leads:
            self._logged = self._standby_words(election)
            self._stand_by(self._logged)
        if not leads and not self._ended.is_set():
            self._log_standby(election)
        if leads:
            self._answer_pauses(election)
        return 1, ()

    def _take_pauses(self, election: Election) -> None:
        before = self._runtime.pauses
        if take_pauses(self._runtime, election.pauses):
            message = "; ".join(election.pauses.descriptions()) or "nothing any more"
            if before.pauses_any or election.pauses.pauses_any:
                self._log.info("paused: %s", message)

    def _answer_pauses(self, election: Election) -> None:
        """Say in the state topic, once it is so, that nothing more is appended to what is paused."""
        found = pause_report(self._runtime, self._identity.engine)
        # Said again when somebody has written over it, or ended a cut: what was said before tells nothing of that.
        if found is None or found == election.pause_report:
            return
        election.publish(pause_report_record(found))
        if not found.busy and self._runtime.pauses.pauses_any:
            open_ends = f", of which {len(found.unsettled)} may be copied further than recorded"
            self._log.info("nothing more is appended to what is paused%s", open_ends if found.unsettled else "")
            limit = found.weakness if found.unrefused else ""
            if limit:
                why = limit if limit != self._limit else "as reported at an earlier pause"
                late = counted(len(found.unrefused), "partition")
                self._log.warning("but for what was sent before to the copies of %s: %s", late, why)
            self._limit = limit

    def _begin(self, election: Election) -> None:
        assert election.term is not None
        self._logged = ""
        lease = Lease(LEASE_SHARE * self._timeout_seconds, former_seconds=LEASE_SHARE * election.former_seconds)
        lease.renew(election.renewed_at)
        self._runtime.lead(election.term, was_settled=election.was_settled, lease=lease)
        before = differing_words("the file of the engine that led it before differs", election.differs_in)
        self._log.info("leads the flow, term %s%s", election.term, before)
        self._lease_over = threading.Event()
        self._leads.set()

    def _stand_by(self, why: str) -> None:
        self._leads.clear()
        self._lease_over.set()
        if self._runtime.late.weakness is not None:
            self._lost()
        self._runtime.stand_by()
        self._log.warning("stands by: %s", why)

    def _log_standby(self, election: Election) -> None:
        words = self._standby_words(election)
        if words != self._logged:
            self._logged = words
            self._log.info("stands by; %s", words)

    def _standby_words(self, election: Election) -> str:
        claim = election.claim
        differs = differing_words("its file differs from this one", election.differs_in)
        return f"engine {claim.where if claim else ''} leads the flow{differs}"

    def _watch_right(self) -> None:
        """Have the epoch planned anew when the right to write has run out, or is there again: others are copied on.

        Where the target would not refuse what was on its way all begins anew. Tasks have stopped by themselves: they
        need no signal.
        """
        if self._runtime.may_be_copied != self._could_copy:
            self._could_copy = not self._could_copy
            self._runtime.changed()
        if self._runtime.late.weakness is not None and self._runtime.lease.left <= 0 and self._runtime.is_known:
            with self._runtime.lock:
                self._runtime.is_known = False
            self._lost()

    def _report(self) -> RunReport:
        with self._runtime.lock:
            reasons, notes, stopped = (
                flow_messages.reasons(self._runtime, self._outages),
                flow_messages.notes(self._runtime),
                flow_messages.first_stopped(self._runtime),
            )
            copying = "PAUSED" if self._runtime.pauses.pauses_any else "RUNNING"
            state = "DEGRADED" if reasons else "STARTING" if self._runtime.is_starting else copying
        at_ms = now_ms()
        # Of what is paused nobody looks where its logs end.
        if state == "RUNNING":
            self._untroubled_ms = at_ms
        # An engine that is started in the middle of an outage has seen none of what was copied before.
        before, by = None, ""
        if self._election is not None:
            before, by = self._election.was_untroubled_at_ms, digest_of(self._election.settings)
        known = [each for each in (self._untroubled_ms, before) if each is not None and state != "RUNNING"]
        return RunReport(state, reasons, at_ms, notes, stopped, max(known, default=None), by)

    def _release(self, _: int) -> tuple[int, Sequence[str]]:
        self._runtime.lease.end()
        if self._election is not None:
            last = self._report()
            self._election.release(replace(last.left_behind(), notes=last.notes), is_settled=self._is_settled)
        return 1, ()


def digests(settings: FlowSettings, leader_timeout_seconds: float) -> Mapping[str, str]:
    """Return of each setting that engines of one flow must have in common a digest: values may be secret."""
    common = {
        "mirror.leader.timeout.seconds": leader_timeout_seconds,
        "replication.policy": settings.policy,
        "topics": settings.topic_filter,
        "groups": settings.group_filter,
        "transforms": settings.transforms,
        "isolation.level": settings.isolation_level,
        "auto.offset.reset": settings.auto_offset_reset,
        "exactly.once": settings.transactions is not None,
        "offset-syncs.topic": (settings.emit_offset_syncs, settings.offset_syncs_topic, settings.offset_syncs_location),
        "checkpoints.topic": (settings.emit_checkpoints, settings.checkpoints_topic),
        "offset.storage.topic": settings.offset_storage_topic,
        "sync.group.offsets.enabled": settings.sync_group_offsets,
        "sync.topic.acls.enabled": settings.sync_topic_acls,
        "mirror.oversized.records": settings.parked_topic,
        "mirror.gaps": settings.stops_at_gaps,
    }
    if settings.same_offsets is not None:
        # An engine of a version that knows no such key has the same settings as one that does not use it.
        common["mirror.offsets"] = settings.same_offsets
    return {key: hashlib.sha256(_canonical(value).encode()).hexdigest()[:12] for key, value in common.items()}


def _canonical(value: object) -> str:
    """Return a value as text that is the same in every process: sets are sorted, and where objects lie is left out."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = (f"{each.name}={_canonical(getattr(value, each.name))}" for each in fields(value) if each.repr)
        return f"{type(value).__qualname__}({', '.join(shown)})"
    match value:
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(_canonical, value)))}}}"
        case dict():
            return f"{{{', '.join(sorted(f'{_canonical(key)}: {_canonical(each)}' for key, each in value.items()))}}}"
        case list() | tuple():
            return f"({', '.join(map(_canonical, value))})"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
