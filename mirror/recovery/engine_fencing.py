"""Making sure that an engine that is gone, or seems so, writes nothing more: the flow is led for a moment, and fenced.

An engine that was frozen finds its term over and its producer fenced when it thaws (ADR 8), whether or not another
engine has taken the flow over by then.

Invariants:

(a) Nothing is left in a copy with the source's offsets: the marker of a fence would take the next record's (ADR 13),
    and the copy could not go on once the flow is resumed. There the right to write has to run out first.
"""

from __future__ import annotations

import uuid
from contextlib import closing

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.tick import now_ms
from mirror.engine.committed_copies import reaching_further
from mirror.engine.election import Election, Identity
from mirror.engine.flow_producers import FlowProducers
from mirror.engine.flow_runtime import REFUSED_SECONDS
from mirror.engine.late_writes import FORMER_OFFSETS, KEEPS_OFFSETS
from mirror.engine.lease import LEASE_SHARE, Lease
from mirror.engine.same_offsets_fence import Refusing, refuse_same_offsets
from mirror.engine.translated_copies import TranslatedCopies
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, paused_of
from mirror.model.state_values import RunReport, pause_report_record
from mirror.same_offsets.chain import has_written

_NO_REPORT = "no engine's report was on record"
_NOT_COMPARED = "the engine ended, or was stopped, before it had said how far it had copied"


class EngineFencing:
    """Leads a flow that no engine leads any more until nothing that was sent before can arrive; then releases it."""

    def __init__(self, settings: FlowSettings, timeout_seconds: float) -> None:
        """Prepare for a flow whose leader may be silent for ``timeout_seconds``; nothing is written yet.

        Raises
        ------
        ConnectionFailed
            if the target cannot be reached.
        """
        self._settings = settings
        self._identity = Identity.of_this_process(uuid.uuid4().hex)
        self._timeout_seconds = timeout_seconds
        self._election = Election(
            settings.flow,
            settings.target_producer,
            settings.clients.checkpoints_consumer,
            self._identity,
            timeout_seconds=timeout_seconds,
            settings={},
            is_engine=False,
        )
        self._hold = FlowProducers(settings.flow, settings.target_producer, settings.transactions, slots=1)
        # The term in which the flow's producers were taken, and since when an engine before has no right to write.
        self._taken: tuple[int, Lease] | None = None
        # Whether an engine has led in between that is not on record: the state topic has lost its end, with all marks.
        self._has_lost: bool | None = None
        # What the engine that is gone last reported: what is reported from here is no engine's.
        self._reported: RunReport | None = None

    @property
    def engine(self) -> str:
        """By which id the flow is led from here."""
        return self._identity.engine

    def try_once(self, log: FlowLog) -> PauseReport | None:
        """Return what is to be known of the paused topics once no engine can write them, None as long as one may.

        To be called again and again: an engine counts as gone when it has not renewed its claim for a while, and what
        it has sent may be refused in some partitions later than in others.

        Raises
        ------
        KafkaProblem
            if the target does not answer, or does not let this be done.
        """
        if self._reported is None:
            run = log.poll().run
            self._reported = run.left_behind() if run is not None else RunReport("STOPPED", (_NO_REPORT,), now_ms())
        term = self._led_term()
        if term is None:
            return None
        if self._taken is None or self._taken[0] != term:
            # In another term engines may have written since.
            taken = self._hold.take(log, term)
            if self._has_lost is None:
                self._has_lost = not taken.is_next
            seconds, former_seconds = self._timeout_seconds, self._election.former_seconds
            self._taken = term, Lease(LEASE_SHARE * seconds, former_seconds=LEASE_SHARE * former_seconds)
        _, lease = self._taken
        flow, former = self._settings.flow, self._hold.unrefused
        was_settled = self._election.was_settled and not self._has_lost
        grace_seconds = REFUSED_SECONDS if former is not None and former.transactional_id else 0.0
        # Where copies have, or had, the source's offsets, it may have written as a producer that no fence reaches.
        is_refused = was_settled or (former is None and not has_written(flow, log.poll().writers))
        if not is_refused and not lease.is_alone(grace_seconds):
            # Nothing refuses what it sends; its right to write runs out by itself.
            return None
        state = log.poll()
        translated = TranslatedCopies()
        translated.begin(self._settings, state)
        kept = frozenset(each for each in state.positions if translated.pad_limit(self._settings, each) is not None)
        copies = {
            source: TopicPartition(position.target or self._settings.copy_of(source.topic), source.partition)
            for source, position in state.positions.items()
            if source not in kept
        }
        late = self._hold.fence(frozenset(copies.values()))
        known = {copy: state.positions[source] for source, copy in copies.items() if copy not in late}
        client = self._settings.target_producer
        former_copies = refuse_same_offsets(flow, client, known) if has_written(flow, state.writers) else Refusing()
        late |= former_copies.troubles
        weakness = "" if former is None else self._hold.weakness or self._hold.note or ""
        unrefused = kept | {source for source, copy in copies.items() if weakness or copy in former_copies.unrefused}
        report = report_without_engine(
            self._identity.engine,
            state,
            frozenset(source for source, copy in copies.items() if copy in late),
            frozenset() if was_settled else unrefused,
            weakness or (KEEPS_OFFSETS if kept else FORMER_OFFSETS),
            has_lost=bool(self._has_lost),
            behind=reaching_further(self._settings.flow, client, state, copies),
        )
        if self._led_term() != term:
            # All that took a while; another engine has taken the flow over meanwhile.
            return None
        if report.busy:
            # The flow is led on from here, until that is refused too or whoever asks gives up.
            return report
        self._election.publish(pause_report_record(report))
        # The marks of positions as settled are of a clean stop, which this is not.
        self._election.release(self._report(), is_settled=False)
        # Led once more, the producers are taken once more: another may have had them in between.
        self._taken = None
        return report

    def _led_term(self) -> int | None:
        """Return the term in which the flow is led from here, None if it is not."""
        leads = self._election.round(self._report)
        return self._election.term if leads else None

    def close(self) -> None:
        """Close the connections; a flow that is led still is released."""
        with closing(self._election):
            if self._election.term is not None:
                self._election.release(self._report(), is_settled=False)

    def _report(self) -> RunReport:
        """Return the report of the engine that is gone: that it stopped is not what happened now."""
        assert self._reported is not None
        return self._reported


def report_without_engine(
    who: str,
    state: FlowState,
    late: frozenset[TopicPartition] = frozenset(),
    unrefused: frozenset[TopicPartition] = frozenset(),
    weakness: str = "",
    *,
    has_lost: bool = False,
    behind: frozenset[TopicPartition] = frozenset(),
) -> PauseReport:
    """Return what is to be said of the paused topics of a flow that no engine leads.

    Parameters
    ----------
    late
        the partitions to whose copies something may still be appended that was sent before, until that is refused.
    unrefused
        those where the target would append what was sent before, should it arrive.
    weakness
        why it does not refuse that there.
    has_lost
        whether the state topic has lost its end, so that no mark of a position as the last one counts.
    behind
        the partitions whose positions were committed and are not the last ones.
    """
    is_clean = state.claim is None or (state.claim.is_released and state.claim.is_settled)
    paused = paused_of(state.pauses, state.positions)
    return PauseReport(
        who,
        tuple(each.wish for each in state.pauses.known),
        paused & late,
        {
            source: _NOT_COMPARED
            for source in sorted(paused - late)
            if has_lost
            or not (
                (state.positions[source].atomic and source not in behind)
                or (is_clean and state.positions[source].settled)
            )
        },
        (paused & unrefused) - late,
        weakness if (paused & unrefused) - late else "",
    )
