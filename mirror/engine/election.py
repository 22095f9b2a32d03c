"""One flow's leader election in its state topic: bids, renewals, release, and what follows from a leader's silence."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from mirror.clock import steady_seconds
from mirror.control.tick import now_ms
from mirror.kafka.log import LogWriter
from mirror.kafka.log_tail import LogTail
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim, Silence, differing, digest_of
from mirror.model.pause import PauseReport, Pauses
from mirror.model.state_record import StateRecord, stamped, state_topic, term_of
from mirror.model.state_values import RunReport, Standby, claim_record, no_standby_record

# How often a claim is renewed, and in what part of the time-out at least.
_RENEWAL_SECONDS = 2.0
_RENEWAL_SHARE = 0.25
_STANDBY_SECONDS = 5.0
# A standby that has not been heard of for so long is struck off the state topic by the leader.
_FORGOTTEN_SECONDS = 60.0
# The only records that a leader's thread must know: a state topic holds thousands of others for each of them.
_REPORT = b'["run"]'
_KEYS = (b'["claim"]', b'["standby",', b'["pause"', b'["paused"]', _REPORT)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which engine this is: its id, and where it runs, so that others on the same machine can see that it is gone."""

    engine: str
    host: str
    pid: int
    place: str

    @classmethod
    def of_this_process(cls, engine: str) -> Identity:
        """Return this process's."""
        return cls(engine, platform.node(), os.getpid(), _place())


class Election:
    """Leads a flow, or stands by until it can; one round at a time. Not to be shared between threads.

    Attributes
    ----------
    claim
        the claim that counts, as far as the state topic was read; None before there is any.
    term
        the term in which this engine leads, None while it does not.
    was_settled
        once it leads: whether the leader before had stopped with nothing sent that could arrive late.
    differs_in
        the settings in which this engine's file differs from that of the engine that leads, or led last.
    former_seconds
        once it leads: after how long without a renewal another might have led in place of the leader before, by that
        one's file if it says more than this engine's; or what was left of that time of the leaders before that one.
    """

    def __init__(
        self,
        flow: Flow,
        producer: Mapping[str, str],
        consumer: Mapping[str, str],
        identity: Identity,
        *,
        timeout_seconds: float,
        settings: Mapping[str, str],
        topic: str | None = None,
        is_engine: bool = True,
    ) -> None:
        """Take part in the election of ``flow``, whose state topic exists.

        Parameters
        ----------
        producer, consumer
            properties of the clients on the flow's target.
        timeout_seconds
            after so long without a renewal another engine may lead.
        settings
            digests of what engines of one flow must have in common, by key.
        is_engine
            False for who never copies, and leads only to make sure that nobody else does: it is not reported as
            standing by.

        Raises
        ------
        ConnectionFailed
            if the target cannot be reached.
        """
        self.claim: Claim | None = None
        self.term: int | None = None
        self.was_settled = False
        #: When engines before this term last reported no trouble, in ms since the epoch; None: not known, or their file
        #: differed.
        self.was_untroubled_at_ms: int | None = None
        self.differs_in: tuple[str, ...] = ()
        self.former_seconds = timeout_seconds
        self._identity = identity
        self._timeout_seconds = timeout_seconds
        #: Digests of what engines of one flow must have in common; may be set anew between two rounds.
        self.settings = settings
        self._is_engine = is_engine
        self._topic = topic or state_topic(flow.source)
        # Claims are written outside of transactions, and must be seen although one is open before them.
        self._tail = LogTail(consumer, self._topic, alias=flow.target, committed=False)
        self._topic_id = ""
        self._writer = LogWriter(producer, alias=flow.target)
        self._state = FlowState()
        self._silence = Silence()
        # When each standby last said something new, by this process's clock.
        self._signal: dict[str, tuple[int, float]] = {}
        self._renew_at = self._stand_by_at = 0.0
        # By this process's clock, when the time of the leaders before is over.
        self._former_until = -math.inf
        #: When the last renewal that counts was sent, by :func:`steady_seconds`; since then nobody else has led.
        self.renewed_at = -math.inf

    def round(self, report: Callable[[], RunReport]) -> bool:
        """Look who leads, and lead on, bid, or stand by; return whether this engine leads.

        ``report`` is asked for what a leader says of the flow with each renewal.

        Raises
        ------
        KafkaProblem
            if the state topic cannot be read or written now; whether this engine leads is then as it was.
        """
        now = steady_seconds()
        try:
            # Also when it need not be renewed yet: what is wished of the flow does not wait for that.
            self._read()
            if self.term is not None and now < self._renew_at:
                return True
            if self.term is None and self._may_bid(now):
                self._bid()
            if self.term is not None:
                self._renew(report())
            elif self._is_engine and now >= self._stand_by_at:
                self._stand_by()
        except BaseException:
            self._silence.unreadable()
            raise
        return self.term is not None

    @property
    def pauses(self) -> Pauses:
        """What is wished of the flow's topics, as far as the state topic was read."""
        return self._state.pauses

    @property
    def pause_report(self) -> PauseReport | None:
        """What the state topic says last of paused topics, whoever has written that; None: nothing that counts."""
        return self._state.pause_report

    def publish(self, record: StateRecord) -> None:
        """Say something as the leader; it does not count if another leads by then.

        Raises
        ------
        KafkaProblem
            if it cannot be written now.
        """
        self._append([record])

    def release(self, report: RunReport, *, is_settled: bool) -> None:
        """Lead, or stand by, no longer.

        Raises
        ------
        KafkaProblem
            if that cannot be written now.
        """
        if self.term is not None and self.claim is not None:
            self._append([report.record(), claim_record(self.claim.released(self._former_left, is_settled=is_settled))])
            self.term = None
        elif self._identity.engine in self._state.standbys:
            self._append([no_standby_record(self._identity.engine)])

    def close(self) -> None:
        """Close the connections."""
        self._tail.close()
        self._writer.close()

    def _read(self) -> None:
        records = self._tail.poll()
        # Whoever leads writes again what was lost; kept, it would keep deletions from being noticed from now on.
        self._tail.loss = None
        if self._tail.has_begun_anew:
            self._state = FlowState()
        if self._tail.topic_id != self._topic_id:
            self._state = self._state.in_new_topic() if self._topic_id else self._state
            self._topic_id = self._tail.topic_id
        for record in records:
            if record.key is not None and record.key.startswith(_KEYS):
                # An engine that was frozen may report late that all was well.
                term = term_of(record.headers) if record.key == _REPORT else None
                self._state.apply(record.key, record.value, term)
        self.claim = self._state.claim
        if not self._is_ours(self.claim):
            self.term = None
        if self.claim is not None and self.claim.engine != self._identity.engine:
            self.differs_in = differing(self.settings, self.claim.settings)

    def _is_ours(self, claim: Claim | None) -> bool:
        return claim is not None and claim.engine == self._identity.engine

    def _may_bid(self, asked_at: float) -> bool:
        claim = self.claim
        if claim is None or claim.is_released or self._is_ours(claim) or claim.term == 0:
            return True
        silent_seconds = self._silence.look(claim, asked_at, steady_seconds())
        # By its own file it may write for longer than by this engine's.
        return silent_seconds > max(self._timeout_seconds, claim.timeout_seconds) or self._has_died(claim)

    def _has_died(self, claim: Claim) -> bool:
        """Whether the engine was a process of this very machine and container that is there no more."""
        if not self._identity.place or claim.place != self._identity.place:
            return False
        try:
            os.kill(claim.pid, 0)
            return psutil.Process(claim.pid).status() == psutil.STATUS_ZOMBIE
        except ProcessLookupError:
            return True
        except (PermissionError, psutil.Error):
            # It is another user's, or may not be seen.
            return False

    def _bid(self) -> None:
        former = self.claim
        me = self._identity
        # A flow that nobody has led has no former engine either.
        was_settled = former is not None and former.is_released and former.is_settled
        former_seconds = self._timeout_seconds
        if former is not None:
            former_seconds = max(former_seconds, former.timeout_seconds, former.former_seconds)
        is_over = former is None or was_settled
        self._former_until = -math.inf if is_over else steady_seconds() + former_seconds
        bid = Claim(
            me.engine,
            (former.term if former else 0) + 1,
            is_confirmed=False,
            host=me.host,
            pid=me.pid,
            place=me.place,
            settings=self.settings,
            timeout_seconds=self._timeout_seconds,
            former_seconds=self._former_left,
        )
        self._append([claim_record(bid)])
        self._read()
        if self._is_ours(self.claim) and self.claim is not None:
            self.term = self.claim.term
            self.was_settled, self.former_seconds = was_settled, former_seconds
            run, by = self._state.run, digest_of(self.settings)
            # Who has claimed the flow last may have reported nothing of its own.
            self.was_untroubled_at_ms = run.was_untroubled_at_ms if run is not None and by == run.settings else None
            self._renew_at = 0.0

    @property
    def _former_left(self) -> float:
        """For how many seconds more it may be the time of the leaders before."""
        return max(0.0, self._former_until - steady_seconds())

    def _renew(self, report: RunReport) -> None:
        assert self.claim is not None
        assert self.term is not None
        sent_at = steady_seconds()
        forgotten = [no_standby_record(each) for each in self._forgotten(sent_at)]
        renewed = replace(self.claim.renewed(self._former_left), settings=self.settings)
        self._append([claim_record(renewed), report.record(), *forgotten])
        # Another engine may have bid before it arrived: then it does not count.
        self._read()
        if self.term is not None:
            self.renewed_at = sent_at
            self._renew_at = sent_at + min(_RENEWAL_SECONDS, _RENEWAL_SHARE * self._timeout_seconds)

    def _forgotten(self, now: float) -> list[str]:
        """Return the engines that stand by no longer, by this engine's own clock."""
        self._signal = {
            each.engine: (each.at_ms, now if self._signal.get(each.engine, (0, now))[0] != each.at_ms else received_at)
            for each in self._state.standbys.values()
            for received_at in [self._signal.get(each.engine, (0, now))[1]]
        }
        gone = [engine for engine, (_, received_at) in self._signal.items() if now - received_at > _FORGOTTEN_SECONDS]
        return [*gone, *({self._identity.engine} & self._signal.keys())]

    def _stand_by(self) -> None:
        me = self._identity
        self._append([Standby(me.engine, me.host, me.pid, now_ms(), self.differs_in).record()])
        self._stand_by_at = steady_seconds() + _STANDBY_SECONDS

    def _append(self, records: list[StateRecord]) -> None:
        self._writer.append(self._topic, 0, stamped(records, self.term, now_ms()))


def _place() -> str:
    """Return what is the same for processes that see one another's ids, empty where that cannot be known."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    return ""
