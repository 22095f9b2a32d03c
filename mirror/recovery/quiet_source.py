"""Making sure that nobody writes to the source of a planned move any more, and fixing where its logs end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mirror.evidence.facts import Json
from mirror.kafka.problems import KafkaProblem
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.recovery.denying import is_denied
from mirror.recovery.flow_ends import FlowEnds
from mirror.recovery.step_facts import named, positions_named, rows_of
from mirror.recovery.steps import Known, Result
from mirror.recovery.unlisted import removed_there
from mirror.waiting import WaitTimeout, wait_until

# The step that stops the applications.
STOP = "stop"


@dataclass(frozen=True, slots=True)
class QuietSource:
    """The source of a move, and how long its logs are watched.

    Attributes
    ----------
    quiet, tried, slow
        as `mirror.recovery.move.Times` has them: `quiet`, `fence` and `slow`, in seconds.
    """

    ends: FlowEnds
    quiet: float
    tried: float
    slow: float
    monotonic: Callable[[], float]

    def look(self, known: Known) -> Result:
        """Watch until it is quiet, or it is known who still writes; ``known`` is what the steps before have found."""
        quiet = self._ended()
        if isinstance(quiet, Result):
            return quiet
        # What may not be seen may grow; what was deleted does not.
        removed_there(self.ends, self.ends.copied().positions, quiet)
        writers = self.ends.writers()
        # Of a burst no interval is known: if whoever runs the applications says that they are stopped, so it is. Who
        # sends at known intervals is waited for all the same: denials do not hold up super users.
        is_settled = is_confirmed(known) or is_denied(known)
        awaited = [each for each in writers.recent if not (is_settled and each.interval_ms is None)]
        most = max((each.silence(self.quiet, self.slow) for each in awaited), default=0.0)
        # Some send at long intervals: one that still does is to be seen doing so.
        if most > self.quiet and (written := self._written_within(most, quiet)):
            return self._still_written(written, most)
        if unended := self.ends.open_transactions():
            detail = (
                f"transactions are open on {self.ends.flow.source}, and how they end is not known: {named(unended)}"
            )
            return Result(Verdict.FAIL, detail)
        groups = {each.group for each in self.ends.plan_groups(ask_source=True).positions}
        if members := self._readers(sorted(groups), is_settled=is_settled):
            detail = f"somebody still reads on {self.ends.flow.source}: {named(members)}"
            return Result(Verdict.FAIL, detail)
        silent = max(most, self.quiet)
        message = f"no log of {counted(len(quiet), 'partition')} grew for {silent:g} s, and no transaction is open"
        writer_messages = writers.messages()
        facts: dict[str, Json] = {"ends": rows_of(quiet), "writers": list(writer_messages)}
        if writers.unknown:
            which = named([f"{each} ({why})" for each, why in sorted(writers.unknown.items())])
            detail = (
                f"{message}; who has written lately is not reported of {which}: look after their leaders, and try again"
            )
            return Result(Verdict.UNKNOWN, detail, facts)
        doubtful = [str(each) for each in writers.recent if each.is_doubtful(self.slow)]
        doubtful += writers.unread()
        if doubtful and not is_settled:
            detail = (
                f"{message}; nobody has confirmed that the applications are stopped, and who may write on at longer "
            )
            detail += f"intervals: {named(doubtful)}"
            return Result(Verdict.UNKNOWN, f"{detail}; deny it by ACLs (--fence), or wait and try again", facts)
        return Result(Verdict.PASS, message + _wrote_last(writer_messages), facts)

    def _readers(self, groups: Sequence[str], *, is_settled: bool) -> Sequence[str]:
        """Return who reads; once applications are stopped for certain, members that brokers remember are waited for.

        Static members (`group.instance.id`, KIP-345) do not leave, and killed ones cannot: they stay until their
        session times out.
        """
        members = self.ends.members(groups)
        if not (members and is_settled):
            return members
        try:
            wait_until(
                lambda: self.ends.members(groups),
                f"the groups to have no members on {self.ends.flow.source}",
                timeout_seconds=self.tried,
                until=lambda found: not found,
            )
        except WaitTimeout:
            left = self.ends.members(groups)
            return [f"{each}, also {self.tried:g} s after the applications were stopped" for each in left]
        return ()

    def who_writes(self) -> str | None:
        """Return who still writes although somebody says that nobody does; None: nobody, or the source does not tell.

        Where the source cannot be asked at all, there is nothing but that word.
        """
        try:
            found = self._ended()
        except KafkaProblem:
            return None
        return found.detail if isinstance(found, Result) else None

    def _ended(self) -> dict[TopicPartition, int] | Result:
        """Wait until no log of the source has grown for a while; return where they end, or who still writes."""
        last: dict[TopicPartition, int] = {}
        quiet_since = self.monotonic()
        moved: list[TopicPartition] = []

        def look() -> bool:
            nonlocal quiet_since
            ends = dict(self.ends.ends().ends)
            if ends != last:
                moved[:] = [each for each in sorted(ends) if last and ends[each] != last.get(each)]
                last.clear()
                last.update(ends)
                quiet_since = self.monotonic()
            return self.monotonic() - quiet_since >= self.quiet

        try:
            wait_until(
                look,
                f"the logs of {self.ends.flow.source} not to grow",
                timeout_seconds=self.tried,
                first_pause_seconds=0.2,
            )
        except WaitTimeout:
            return self._still_written(moved, self.tried)
        return last

    def _written_within(self, seconds: float, before: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Watch the logs of the source for so long, or until one grows; return which did."""
        began = self.monotonic()

        def look() -> tuple[list[TopicPartition], bool]:
            now = self.ends.ends().ends
            grown = [each for each in sorted(now) if now[each] != before.get(each, 0)]
            return grown, bool(grown) or self.monotonic() - began >= seconds

        found, _ = wait_until(
            look,
            f"a log of {self.ends.flow.source} to grow, or {seconds:.0f} s",
            timeout_seconds=2 * seconds + self.tried,
            until=lambda seen: seen[1],
        )
        return found

    def _still_written(self, moved: Sequence[TopicPartition], seconds: float) -> Result:
        grew = named([str(each) for each in moved])
        message = f"somebody still writes to {self.ends.flow.source}: {grew} grew within {seconds:.3g} s"
        who = self.ends.writers().messages(moved)
        return Result(Verdict.FAIL, f"{message}; who has written there lately: {named(who)}" if who else message)

    def grown(self, facts: Mapping[str, Json]) -> str | None:
        """Return which logs of the source do not end any more where they did when it was fenced; None: all do."""
        return self._growth_message(positions_named(facts, "ends"), self.ends.ends().ends)

    def _growth_message(self, fixed: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> str | None:
        grown = [
            f"{each} ended at {fixed.get(each, 0)}, and ends at {now[each]}"
            for each in sorted(now)
            if now[each] != fixed.get(each, 0)
        ]
        grown += [f"{each} ended at {fixed[each]}, and is not listed any more" for each in sorted(fixed.keys() - now)]
        return f"logs of {self.ends.flow.source} do not end where they did: {named(grown)}" if grown else None

    def grown_by_others(self, facts: Mapping[str, Json]) -> str | None:
        """Return what :meth:`grown` does, but for logs that only the flow back has appended to."""
        fixed, now = positions_named(facts, "ends"), self.ends.ends().ends
        longer = {each: (fixed[each], end) for each, end in now.items() if each in fixed and end > fixed[each]}
        by_others = self.ends.written_by_others(longer) if longer else {}
        # A topic that was deleted since is written to by nobody.
        not_by_others = {*removed_there(self.ends, fixed, now), *(longer.keys() - by_others.keys())}
        return self._growth_message(
            {each: end for each, end in fixed.items() if each not in not_by_others},
            {each: end for each, end in now.items() if each not in not_by_others},
        )


def _wrote_last(writers: Sequence[str]) -> str:
    return f"; who wrote last: {named(writers)}" if writers else ""


def without_writers(found: Result) -> str:
    """Return what the step found, for people, but for who wrote last: told once, when it was found."""
    writers = found.facts.get("writers")
    return found.detail.replace(_wrote_last(list(map(str, writers))), "") if isinstance(writers, list) else found.detail


def is_confirmed(known: Known) -> bool:
    """Tell whether who runs the applications has said that none of them writes there any more."""
    facts: Mapping[str, Json] = known.get(STOP, {})
    return facts.get("confirmed") is True
