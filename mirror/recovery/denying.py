"""Denying writes to the old cluster as a part of a failover (``--fence``), and admitting them again on the way back.

By ACLs alone: where a cluster has no authorizer, or whoever fails over may not change ACLs, nothing is denied, and the
step says what is in force instead. What is added is on record in the run directory before it is, and is taken back
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mirror.atomic_file import write_atomically
from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.evidence.facts import Json
from mirror.kafka.acls import NoAuthorizer, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import KafkaProblem
from mirror.model.acl import Resource
from mirror.model.counts import counted
from mirror.model.verdict import Verdict
from mirror.recovery.fence import CREATED_SINCE, FencePlan, apply_fence, lift_fence, plan_fence
from mirror.recovery.fence import is_denied as is_fenced
from mirror.recovery.fence_record import FenceRecord
from mirror.recovery.step_facts import named
from mirror.recovery.steps import Known, NotTakenBack, Result, Step, passing

DENY, ADMIT = "deny writes", "admit writes"
RECORD = "fence.json"
_BY = "mirror failover --fence"
_INSTEAD = "in force is only that its applications were stopped, and that its logs are watched"


@dataclass(frozen=True, slots=True)
class Denied:
    """What has become of denying writes.

    Attributes
    ----------
    is_denied
        whether nobody but super users can write to what the flow copies.
    still_written
        who was seen writing all the same, in words for people.
    unseen
        where nobody could look whether it is denied, or whether somebody writes all the same, and why, for people.
    """

    is_denied: bool
    detail: str
    still_written: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class Denying(Protocol):
    """How writes to the source of a flow are denied and admitted again."""

    @property
    def adds(self) -> bool:
        """Whether this run is to deny writes itself; otherwise it answers for what a run given up has denied."""
        ...

    def plan(self) -> tuple[str, ...]:
        """Say, for people, what would be denied and what that would hold up; changes nothing."""
        ...

    def deny(self) -> Denied:
        """Deny them; where that cannot be, nothing is left behind."""
        ...

    def admit(self) -> str:
        """Take back exactly what was added; return, for people, what was done. Raises `NotTakenBack`."""
        ...

    def deny_again(self) -> str:
        """Deny what was admitted, as before; return, for people, what was done. Raises `NotTakenBack`."""
        ...


@dataclass(frozen=True, slots=True)
class AclDenying:
    """Denies by ACLs on the topics that a flow copies.

    Attributes
    ----------
    record
        the file in which it stands what is added.
    earlier
        those of runs that were given up: what they have denied is taken back as well.
    adds
        see `Denying`.
    copied
        the topics that are on record as copied, whether or not the source shows them.
    """

    settings: MirrorSettings
    chosen: FlowSettings
    record: Path
    earlier: tuple[Path, ...] = ()
    adds: bool = True
    copied: frozenset[str] = frozenset()

    def plan(self) -> tuple[str, ...]:
        """See `Denying`."""
        source = self.chosen.flow.source
        if not self.adds:
            return (f"a run that is given up may have denied writes to {source}; {self._whose()}",)
        try:
            found = self._plan()
        except KafkaProblem as problem:
            return (f"nothing will be denied on {source}: {problem}; {_INSTEAD}",)
        if found.by_quotas:
            return (f"nothing will be denied on {source}, which has no authorizer; {_INSTEAD}",)
        what = f"DENY WRITE for everybody on {counted(len(found.fenced), 'topic')} of {source}"
        left = f"; open to: {'; '.join(found.open_to)}"
        return (f"{what}, until --take-back or the failback{left}", *found.lacking, *found.warnings)

    def deny(self) -> Denied:
        """See `Denying`."""
        source = self.chosen.flow.source
        if not self.adds:
            return self._found()
        try:
            plan = self._plan()
            if plan.by_quotas:
                return Denied(False, f"{source} has no authorizer, so nothing is denied; {_INSTEAD}")
            if not plan.fenced:
                return Denied(False, f"{source} has no topic that is denied: {named(_since(plan))}; {_INSTEAD}")
            kept_of(self.record).unlink(missing_ok=True)
            done = apply_fence(plan, self.settings, self.record, quiet_seconds=1.0)
        except KafkaProblem as problem:
            return Denied(False, f"nothing is denied on {source}: {problem}; {_INSTEAD}{self._left()}")
        if done.problems:
            return Denied(
                False, f"writes to {source} cannot be denied: {'; '.join(done.problems)}; {_INSTEAD}{self._left()}"
            )
        message = f"nobody but super users may write to {counted(len(plan.fenced), 'topic')} of {source}, verified"
        message = f"{message}; on record in {', '.join(map(str, (self.record, *self.earlier)))}"
        if since := _since(plan):
            message = f"{message}; not denied: {named(since)}"
        written = done.watched.messages() if done.watched.written else ()
        hidden = [f"{topic} is not shown (grant Describe on it)" for topic in plan.unseen]
        # What is not shown is named.
        watched = replace(done.watched, lacking=None) if hidden else done.watched
        unseen = (*hidden, *(watched.messages() if not written else ()))
        return Denied(not (since or hidden), message, written, unseen)

    def admit(self) -> str:
        """See `Denying`."""
        source = self.chosen.flow.source
        records = [each for each in (self.record, *self.earlier) if each.exists()]
        if not (records or self.earlier or kept_of(self.record).exists()):
            return f"nothing was denied on {source}"
        try:
            removed = [acl for each in records for acl in self._lift(each)]
            left = self._unexplained()
        except (KafkaProblem, ConfigError, OSError) as problem:
            raise NotTakenBack(f"writes to {source} are still denied: {problem}") from None
        if left:
            away = [str(each) for each in (self.record, *self.earlier) if not is_here(each)]
            where = f", or on record in {named(away)}, which is not here (mirror fence --lift --record)" if away else ""
            raise NotTakenBack(
                f"writes to {named(left)} of {source} are still denied, by what nothing on record here has added: see "
                f"to who has{where}; {counted(len(removed), 'ACL')} removed"
            )
        if not records:
            return f"nothing is denied on {source}"
        return f"writes to {source} are admitted again, exactly as before: {counted(len(removed), 'ACL')} removed"

    def deny_again(self) -> str:
        """See `Denying`."""
        source = self.chosen.flow.source
        again = [each for each in (self.record, *self.earlier) if is_here(each)]
        try:
            for each in again:
                if not each.exists():
                    kept_of(each).replace(each)
                done = apply_fence(self._plan(each), self.settings, each, quiet_seconds=0.0)
                if done.problems:
                    raise NotTakenBack(f"writes to {source} are admitted: {'; '.join(done.problems)}")
        except (KafkaProblem, ConfigError, OSError) as problem:
            raise NotTakenBack(f"writes to {source} are admitted, and cannot be denied again: {problem}") from None
        return f"writes to {source} are denied again" if again else f"nothing was denied on {source}"

    def _plan(self, record: Path | None = None) -> FencePlan:
        source = self.chosen.flow.source
        meant = self.chosen.replicates
        return plan_fence(
            self.settings, source, record or self.record, by=_BY, selects=meant, known={*filter(meant, self.copied)}
        )

    def _found(self) -> Denied:
        """Return what is denied by others' records."""
        source = self.chosen.flow.source
        try:
            topics = denied_topics(self.settings, self.chosen)
        except KafkaProblem as problem:
            return Denied(False, f"whether writes to {source} are denied is not known: {problem}; {self._whose()}")
        if not topics:
            return Denied(False, f"nothing is denied on {source}")
        return Denied(True, f"everybody is denied to write to {named(topics)} of {source}; {self._whose()}")

    def _whose(self) -> str:
        return (
            f"what {named([str(each) for each in self.earlier])} names is taken back with this run, or by its failback"
        )

    def _lift(self, record: Path) -> tuple[str, ...]:
        """Take back what a record names, and keep it, so that it can be denied again; return the ACLs."""
        write_atomically(kept_of(record), record.read_text(encoding="utf-8"))
        found = lift_fence(self.settings, self.chosen.flow.source, record)
        if found.problems:
            raise NotTakenBack(f"writes to {found.record.cluster} are still denied: {'; '.join(found.problems)}")
        return found.put_back

    def _unexplained(self) -> list[str]:
        """Return the topics that are denied although they were not, by all records, before the first of them."""
        records = (self.record, *self.earlier)
        kept = [FenceRecord.load(kept_of(each)) for each in records if kept_of(each).exists()]
        added = {acl.name for each in kept for acl in each.acls}
        is_whole = all(map(is_here, self.earlier))
        before = {name for each in kept for name in each.denied_before} - added if is_whole else set()
        return [each for each in denied_topics(self.settings, self.chosen) if each not in before]

    def _left(self) -> str:
        """Take back what was added before it failed; say if that cannot be."""
        if not self.record.exists():
            return ""
        with suppress(NotTakenBack, ConfigError, OSError, KafkaProblem):
            self._lift(self.record)
            return ""
        return f". What was added before that is on record in {self.record}: mirror fence --lift --record"


def kept_of(record: Path) -> Path:
    """Return where the record of a fence is kept when it is lifted, for as long as it may be denied again."""
    return record.with_name(f"{record.name}.lifted")


def is_here(record: Path) -> bool:
    """Tell whether it is known here what a fence has added, be it in force or lifted."""
    return record.exists() or kept_of(record).exists()


def _since(plan: FencePlan) -> list[str]:
    return [f"{topic}: {why}" for topic, why in plan.left_open.items() if why == CREATED_SINCE]


def denied_topics(settings: MirrorSettings, chosen: FlowSettings) -> list[str]:
    """Return the topics of the source that a flow copies and to which everybody is denied to write.

    Raises
    ------
    ClusterError
        if the source does not answer, or does not tell its ACLs.
    """
    with Cluster.connect(settings.clusters[chosen.flow.source]) as cluster:
        listing = describe_acls(cluster, [Resource.TOPIC])
        if isinstance(listing, NoAuthorizer):
            return []
        return [each for each in sorted(cluster.topics()) if chosen.replicates(each) and is_fenced(each, listing.acls)]


def deny_step(source: str, denying: Denying, guarded: Callable[[Callable[[], Result]], Callable[[], Result]]) -> Step:
    """Return the step that denies writes; ``guarded`` keeps what takes it back from being done once others go on."""

    def act(_: Known) -> Result:
        found = denying.deny()
        facts: dict[str, Json] = {"denied": found.is_denied}
        if found.still_written:
            message = f"{found.detail}, and somebody writes all the same: {'; '.join(found.still_written)}"
            return Result(Verdict.FAIL, message, facts)
        if found.unseen:
            message = f"{found.detail}; nobody could look at: {named(found.unseen)}"
            return Result(Verdict.UNKNOWN, message, facts)
        return Result(Verdict.PASS if found.is_denied or not denying.adds else Verdict.UNKNOWN, found.detail, facts)

    doing = f"deny writes to {source} by ACLs, on record before, and look that nothing is written"
    if not denying.adds:
        doing = f"state what a run that is given up has denied on {source}: this run answers for it"
    return Step(DENY, doing, act, undo=guarded(passing(denying.admit)), is_of_its_moment=True)


def admit_step(source: str, denying: Denying, guarded: Callable[[Callable[[], Result]], Callable[[], Result]]) -> Step:
    """Return the step of a failback that takes back what a failover has denied; ``guarded`` as of `deny_step`."""

    def act(_: Known) -> Result:
        try:
            return Result(Verdict.PASS, denying.admit())
        except NotTakenBack as problem:
            return Result(Verdict.FAIL, str(problem))

    return Step(ADMIT, f"take back what denies writes to {source}", act, undo=guarded(passing(denying.deny_again)))


def is_denied(known: Known) -> bool:
    """Tell whether writes are denied, by what the step has found."""
    facts: Mapping[str, Json] = known.get(DENY, {})
    return facts.get("denied") is True
