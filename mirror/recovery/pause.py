"""Pausing and resuming a flow: a wish on record on its target, and what whoever leads the flow says of it.

The wish outlives engines. A pause is confirmed once nothing more is appended to the copies of the paused topics; the
positions on record are final then, but for those that are named. The cut of a failover is such a wish, beside those
that people have made by hand.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.control.gaps import iso_time
from mirror.control.liveness import StandbyWatch
from mirror.control.tick import now_ms
from mirror.control.topics import create_state_topic
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.kafka.problems import ClusterError, KafkaProblem
from mirror.model.counts import counted
from mirror.model.failover import Phase
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, PauseWish, limit_words, paused_of
from mirror.model.position import Position
from mirror.model.state_record import stamped, state_topic
from mirror.model.state_values import pause_record
from mirror.model.verdict import Verdict
from mirror.recovery.cut_log_ends import log_ends
from mirror.recovery.engine_fencing import EngineFencing, report_without_engine
from mirror.waiting import WaitTimeout, wait_until

_NAMED = 3
# An engine says it at once, and a failover waits for it.
_LOOK_SECONDS = 0.2
_NOBODY = "no engine leads the flow"
_NEVER_LED = "no engine has ever led the flow; a Java MirrorMaker would know nothing of a pause"


@dataclass(frozen=True, slots=True)
class PausePlan:
    """What a pause, or the end of one, would change; nothing is written yet.

    Attributes
    ----------
    topics
        a regular expression for topics of the source; None: all of them.
    is_pause
        whether they are to be paused; otherwise they are to be copied again.
    changed
        the topics on record that would be paused, or copied, and are not now.
    leader
        the engine that leads the flow, in words for people; None: none does, as far as is known.
    is_matched
        whether any topic on record is meant.
    paused
        what is paused then, in words for people.
    ends_cut
        of which failover or failback it ends the cut, with its run, in words for people; None: of none.
    """

    flow: Flow
    topics: str | None
    is_pause: bool
    changed: tuple[str, ...] = ()
    leader: str | None = None
    is_matched: bool = True
    paused: tuple[str, ...] = ()
    ends_cut: str | None = None

    @property
    def warning(self) -> str | None:
        """What it means that the cut is ended, in words for people."""
        if self.ends_cut is None:
            return None
        source, target = self.flow.source, self.flow.target
        return (
            f"this ends the cut of {self.ends_cut}: {self.flow} copies on what is written on {source} to where "
            f"applications are on {target}, and a failback no longer finds all that was written there since. "
            "mirror failback is the way back; --topics '.*' ends pauses by hand alone"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the form that ``--dry-run --json`` prints."""
        return {
            "verdict": Verdict.UNKNOWN.value,
            "flow": str(self.flow),
            "topics": self.topics,
            "changed": list(self.changed),
            "leader": self.leader,
            "ends_cut": self.ends_cut,
        }


@dataclass(frozen=True, slots=True)
class PausedPosition:
    """How far a partition of a paused topic is copied, by what is on record.

    ``open_end``: why the copy may reach further than that; None when it does not. ``may_arrive``: why something that
    was sent before may still be appended behind it, although nobody sends anything more; None: the target refuses it.
    """

    source: TopicPartition
    upstream: int
    copy: TopicPartition
    downstream: int
    open_end: str | None = None
    may_arrive: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return a row of ``mirror pause --json``."""
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "last_mirrored_upstream": self.upstream - 1 if self.upstream else None,
            "upstream_next": self.upstream,
            "downstream_topic": self.copy.topic,
            "downstream_next": self.downstream,
            "open_end": self.open_end,
            "may_arrive": self.may_arrive,
        }


@dataclass(frozen=True, slots=True)
class _WishOutcome:
    """What has become of a wish to pause topics of a flow, or to copy them again.

    Attributes
    ----------
    confirmed_by
        of a pause who says that nothing more is sent, and what was sent before refused, but for :attr:`Paused.late`:
        the engine that leads the flow, or that none does; of its end the engine that copies again; None: nobody yet.
    has_engine
        whether an engine leads the flow, which goes on with what is not paused; otherwise the next one honours it.
    problem
        why it is not confirmed, or what of it is open.
    is_superseded
        whether somebody has wished otherwise since.
    """

    flow: Flow
    wish: PauseWish
    confirmed_by: str | None = None
    has_engine: bool = False
    problem: str | None = None
    is_superseded: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether what was wished has come about."""
        return Verdict.PASS if self.problem is None else Verdict.FAIL

    def as_json(self) -> dict[str, Any]:
        """Return the form that ``mirror pause --json`` and ``mirror resume --json`` print."""
        return {
            "verdict": self.verdict.value,
            "flow": str(self.flow),
            "topics": self.wish.topics,
            "confirmed_by": self.confirmed_by,
            "engine_runs": self.has_engine,
            **self._details(),
            "problem": self.problem,
        }

    def _details(self) -> dict[str, Any]:
        """Return what only this outcome has."""
        return {}


@dataclass(frozen=True, slots=True)
class Paused(_WishOutcome):
    """What has become of a wish to pause topics of a flow.

    Attributes
    ----------
    positions
        of each partition of the topics that are paused by then, how far it is copied; final if confirmed and without
        an open end.
    """

    positions: tuple[PausedPosition, ...] = ()

    @property
    def open_ends(self) -> Mapping[TopicPartition, str]:
        """The partitions whose copies may reach further than is on record, and why."""
        return {each.source: each.open_end for each in self.positions if each.open_end is not None}

    @property
    def late(self) -> Mapping[TopicPartition, str]:
        """The partitions to whose copies something may still be appended that was sent before, and why."""
        return {each.source: each.may_arrive for each in self.positions if each.may_arrive is not None}

    @property
    def limit(self) -> str | None:
        """What the confirmation does not promise, in words for people; None: it promises all."""
        return limit_words(self.late) if self.confirmed_by is not None else None

    @property
    def verdict(self) -> Verdict:
        """PASS: nothing more is appended, and the positions are final. UNKNOWN: of some that is not known."""
        if self.confirmed_by is None:
            return Verdict.FAIL
        return Verdict.UNKNOWN if self.open_ends or self.late else Verdict.PASS

    def _details(self) -> dict[str, Any]:
        return {"positions": [each.as_json() for each in self.positions], "limit": self.limit}


@dataclass(frozen=True, slots=True)
class Resumed(_WishOutcome):
    """What has become of a wish to copy topics of a flow again; by the next engine where none leads the flow."""


def plan_pause(
    settings: MirrorSettings, flow: FlowSettings, topics: str | None = None, *, is_pause: bool = True
) -> PausePlan:
    """Say what a pause, or its end, would change, by what is on record on the target.

    Raises
    ------
    ValueError
        if ``topics`` is no regular expression.
    KafkaProblem
        if the target cannot be read.
    """
    wish = _wish(topics, "", is_pause=is_pause)
    with closing(_log(settings, flow)) as log:
        try:
            state = log.observe()
        except NeverRun:
            state = FlowState()
    after = state.pauses.with_wish(wish)
    ends_cut = None
    if _ends_cut(wish):
        after, ends_cut = after.without_cut(), _whose_cut(state)
    names = sorted({source.topic for source in state.positions})
    changed = tuple(name for name in names if state.pauses.is_paused(name) != after.is_paused(name))
    is_matched = topics is None or any(map(wish.speaks_of, names))
    return PausePlan(flow.flow, topics, is_pause, changed, _leader(state), is_matched, after.descriptions(), ends_cut)


def pause(
    settings: MirrorSettings,
    flow: FlowSettings,
    topics: str | None = None,
    *,
    timeout_seconds: float,
    by: str = "mirror",
    awaits_open_ends: bool = True,
    is_cut: bool = False,
) -> Paused:
    """Pause topics of a flow; return when that is confirmed, or ``timeout_seconds`` have passed.

    The engine that leads the flow is told through the target. Where it is silent, or gone, and no other stands by, the
    flow is led from here for a moment, so that nothing that it has sent, or sends should it go on, is appended.

    Parameters
    ----------
    topics
        a regular expression that whole names of topics on the source match; None: all topics, also later ones.
    by
        who wants it, for people who look at the status.
    awaits_open_ends
        whether to wait also until it is known of each partition how far it is copied. After a crash of the engine that
        takes the source; without it, it is enough that nothing more is appended.
    is_cut
        whether it is that of a failover or a failback, of all topics: pauses by hand are not concerned.

    Raises
    ------
    ValueError
        if ``topics`` is no regular expression.
    KafkaProblem
        if the target does not take the wish; whether it is on record is not known then.
    """
    with closing(_Waiting(settings, flow, _wish(topics, by, is_pause=True, is_cut=is_cut))) as waiting:
        waiting.put_on_record()
        found = waiting.until(lambda: waiting.look(awaits_open_ends=awaits_open_ends), timeout_seconds)
        assert isinstance(found, Paused)
        return found


def resume(
    settings: MirrorSettings,
    flow: FlowSettings,
    topics: str | None = None,
    *,
    timeout_seconds: float,
    by: str = "mirror",
    is_cut: bool = False,
) -> Resumed:
    """Have topics of a flow copied again; return when the engine has taken that in, at once if none leads the flow.

    Parameters are those of :func:`pause`. With ``is_cut`` the cut of a failover is ended and nothing else; without it,
    and of all topics, every pause by hand and the cut.

    Raises
    ------
    ValueError
        if ``topics`` is no regular expression.
    KafkaProblem
        if the target does not take the wish; whether it is on record is not known then.
    """
    wish = _wish(topics, by, is_pause=False, is_cut=is_cut)
    with closing(_Waiting(settings, flow, wish)) as waiting:
        if not waiting.has_run():
            return Resumed(flow.flow, wish)
        waiting.put_on_record()
        found = waiting.until(waiting.look_for_end, timeout_seconds)
        assert isinstance(found, Resumed)
        if found.problem is None and waiting.is_cut():
            message = f"{flow.flow} is cut by a failover: nothing is copied until the failover is taken back"
            found = replace(found, problem=f"{message}, or failed back (mirror failback), or all is resumed by hand")
        return found


class _Waiting:
    """A wish that is put on record, and what becomes of it."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings, wish: PauseWish) -> None:
        self._settings = settings
        self._flow = flow
        self._wish = wish
        self._log = _log(settings, flow)
        self._offset = -1
        self._fencing: EngineFencing | None = None
        self._standbys = StandbyWatch()

    def has_run(self) -> bool:
        """Whether there is a state topic: without one nothing is paused."""
        try:
            self._log.poll()
        except NeverRun:
            return False
        return True

    def is_cut(self) -> bool:
        """Whether the flow is cut by a failover, also if that lies behind an open transaction."""
        return self._log.observe().pauses.is_cut

    def put_on_record(self) -> None:
        """Append the wish to the state topic, which is created if the flow has never run."""
        alias, topic, made_at_ms = self._flow.flow.target, state_topic(self._flow.flow.source), self._wish.at_ms
        wishes = [self._wish]
        if _ends_cut(self._wish) and self.is_cut():
            wishes.insert(0, _wish(None, self._wish.by, is_pause=False, is_cut=True))
        with Cluster.connect(self._settings.clusters[alias]) as target:
            is_there, problems = create_state_topic(target, self._flow)
            if not is_there:
                raise ClusterError(alias, f"create {topic}", "; ".join(problems))
            if self._wish.is_cut and self._wish.is_pause:
                wishes = [self._wish] = [self._with_log_ends(target)]
        with closing(LogWriter(self._flow.target_producer, alias=alias)) as writer:
            content = stamped(map(pause_record, wishes), None, made_at_ms)
            self._offset = writer.append(topic, 0, content) + len(wishes) - 1

    def _with_log_ends(self, target: Cluster) -> PauseWish:
        """Return the wish to cut the flow with where the target's logs end; a cut that is in force goes on.

        What is written behind them since is found by offsets: its times may be from before the cut.
        """
        cut = self._log.observe().pauses.cut
        if cut is not None:
            return self._wish.continuing(cut)
        settings = self._settings.clusters[self._flow.flow.target]
        found = log_ends(target, settings, self._flow.policy)
        return self._wish if found is None else replace(self._wish, log_ends=found.ends, log_ids=found.ids)

    def until(self, look: Callable[[], Paused | Resumed], timeout_seconds: float) -> Paused | Resumed:
        """Look until it is over; return what was seen last."""
        seen: list[Paused | Resumed] = []

        def is_over() -> bool:
            seen.append(look())
            return seen[-1].problem is None or seen[-1].is_superseded

        with suppress(WaitTimeout):
            wait_until(
                is_over,
                f"the engine that leads {self._flow.flow} to report it",
                timeout_seconds=timeout_seconds,
                longest_pause_seconds=_LOOK_SECONDS,
            )
        return seen[-1]

    def look(self, *, awaits_open_ends: bool) -> Paused:
        """Look whether the pause is confirmed; see to it where no engine can."""
        nothing = Paused(self._flow.flow, self._wish)
        try:
            state = self._log.poll()
            nothing = replace(nothing, has_engine=self._leader(state) is not None)
            if self._is_superseded(state):
                return replace(nothing, problem=self._superseded(state), is_superseded=True)
            report, leader = self._report(state)
        except KafkaProblem as problem:
            return replace(nothing, problem=str(problem))
        if report is None:
            return replace(nothing, problem=self._silence(state))
        positions = _positions(self._flow, self._wish, state, report)
        busy = sorted(each for each in report.busy if self._wish.speaks_of(each.topic))
        if busy:
            message = (
                f"what was sent to the copies of {counted(len(busy), 'partition')} may still arrive: {_named(busy)}"
            )
            return replace(nothing, positions=positions, problem=message)
        nobody = _NEVER_LED if state.claim is None else _NOBODY
        found = replace(nothing, confirmed_by=leader or nobody, has_engine=leader is not None, positions=positions)
        # What no engine looks up stays open.
        if awaits_open_ends and found.open_ends and leader is not None:
            source, why = next(iter(found.open_ends.items()))
            message = f"{counted(len(found.open_ends), 'position')} not final yet, the first that of {source}: {why}"
            return replace(found, problem=message)
        return found

    def look_for_end(self) -> Resumed:
        """Look whether the engine that leads the flow, if one does, has taken it in."""
        nothing = Resumed(self._flow.flow, self._wish)
        try:
            state = self._log.poll()
        except KafkaProblem as problem:
            return replace(nothing, problem=str(problem))
        leader, report = self._leader(state), state.leaders_pause_report
        nothing = replace(nothing, has_engine=leader is not None)
        if self._is_superseded(state):
            return replace(nothing, problem=self._superseded(state), is_superseded=True)
        if self._is_read and state.pauses.obscure is not None:
            return replace(nothing, problem="; ".join(state.pauses.descriptions()))
        if report is not None and self._is_taken_in(state, report):
            return replace(nothing, confirmed_by=leader)
        return replace(nothing, problem=self._silence(state)) if leader or not self._is_read else nothing

    @property
    def _is_read(self) -> bool:
        """Whether the state topic is read up to the wish: a transaction that is open before it hides it."""
        return self._log.position > self._offset

    def _is_taken_in(self, state: FlowState, report: PauseReport) -> bool:
        """Whether who leads the flow knows that it is over; of the end of a cut no record tells, but that none is left.

        A report that is older than that end is not in the state any more.
        """
        if self._wish.is_cut:
            return self._is_read and all(map(state.wishes.has, report.wishes))
        return self._wish.wish in report.wishes

    def _is_superseded(self, state: FlowState) -> bool:
        if self._wish.is_cut and not self._wish.is_pause:
            return self._is_read and state.wishes.is_cut
        return self._is_read and not state.wishes.has(self._wish.wish)

    def _superseded(self, state: FlowState) -> str:
        pauses = state.wishes
        newest = pauses.cut if self._wish.is_cut else next(reversed(pauses.wishes), None)
        return f"somebody has paused or resumed since: {newest}" if newest else "somebody has taken it back"

    def _report(self, state: FlowState) -> tuple[PauseReport | None, str | None]:
        """Return what is said of the paused topics by who knows of this wish, and which engine leads the flow."""
        leader, report = self._leader(state), state.leaders_pause_report
        if not self._is_read or (report is not None and self._wish.wish not in report.wishes):
            report = None
        if report is not None and not any(
            self._wish.speaks_of(each.topic) for each in (*report.busy, *report.unsettled)
        ):
            return report, leader
        if self._is_read and (state.claim is None or (state.claim.is_released and state.claim.is_settled)):
            return report_without_engine(_NOBODY, state), None
        if self._standbys.standing_by(state.standbys.values()):
            # That one takes the flow over, and finds out how far it is copied.
            self._end_fencing()
            return report, leader
        if self._fencing is None:
            self._fencing = EngineFencing(self._flow, self._settings.engine.leader_timeout_seconds)
        # Who has said that something is open may be gone by now.
        fenced = self._fencing.try_once(self._log)
        return (fenced, None) if fenced is not None else (report, leader)

    def _leader(self, state: FlowState) -> str | None:
        """Return which engine leads the flow; whoever leads it from here is none."""
        is_here = self._fencing is not None and state.claim is not None and state.claim.engine == self._fencing.engine
        return None if is_here else _leader(state)

    def _silence(self, state: FlowState) -> str:
        if not self._is_read:
            topic = state_topic(self._flow.flow.source)
            return (
                f"the record of it lies behind a transaction in {topic} on {self._flow.flow.target} that has not "
                "ended: what an engine has answered is not known; mirror status shows what keeps it from ending that"
            )
        leader = self._leader(state)
        if leader is not None:
            return f"{leader}, which leads the flow, has not confirmed it; earlier versions know nothing of pauses"
        return "no engine leads the flow, and something that one has sent before may still arrive"

    def close(self) -> None:
        """Close the connections."""
        try:
            self._end_fencing()
        finally:
            self._log.close()

    def _end_fencing(self) -> None:
        if self._fencing is not None:
            fencing, self._fencing = self._fencing, None
            with suppress(KafkaProblem):
                fencing.close()


def _wish(topics: str | None, by: str, *, is_pause: bool, is_cut: bool = False) -> PauseWish:
    """Return a wish that every engine understands."""
    content = PauseWish(uuid.uuid4().hex, topics, is_pause, by, now_ms()).content()
    return PauseWish.of(topics, content, is_cut=is_cut)


def _ends_cut(wish: PauseWish) -> bool:
    """Whether everything is copied again, by somebody's word, also what a failover has cut."""
    return not wish.is_pause and wish.topics is None and not wish.is_cut


def _whose_cut(state: FlowState) -> str | None:
    """Return, for people, which runs on record a flow is cut by; None: it is not cut."""
    if (cut := state.pauses.cut) is None:
        return None
    runs = [
        f"{'the failback' if each.phase is Phase.RETURNING else 'the failover'} {each.run} ({each.mode}, "
        f"{each.phase} since {iso_time(each.at_ms)}, {each.where})"
        for each in state.failovers.values()
    ]
    return " and ".join(runs) or f"a failover of which nothing else is on record ({cut})"


def _log(settings: MirrorSettings, flow: FlowSettings) -> FlowLog:
    target = flow.flow.target
    return FlowLog(settings.clusters[target].client, state_topic(flow.flow.source), alias=target)


def _leader(state: FlowState) -> str | None:
    claim = state.claim
    return None if claim is None or claim.is_released else f"engine {claim.where}"


def _named(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partitions[:_NAMED])) + (" and others" if len(partitions) > _NAMED else "")


def _positions(
    flow: FlowSettings, wish: PauseWish, state: FlowState, report: PauseReport
) -> tuple[PausedPosition, ...]:
    # What is said of one without a position is all that is known of it.
    messages = (*report.busy, *report.unsettled, *report.unrefused)
    nothing = dict.fromkeys(messages, Position(0, 0, 0, complete=False))
    known = nothing | state.positions
    paused = paused_of(state.pauses, known)
    message = "what was sent to its copy may still arrive"
    return tuple(
        PausedPosition(
            source,
            position.upstream,
            TopicPartition(position.target or flow.copy_of(source.topic), source.partition),
            position.downstream,
            message if source in report.busy else report.unsettled.get(source),
            report.weakness if source in report.unrefused else None,
        )
        for source, position in sorted(known.items())
        # What the file no longer selects is copied by nobody, and compared by nobody.
        if source in paused and wish.speaks_of(source.topic) and flow.replicates(source.topic)
    )
