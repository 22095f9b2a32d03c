"""Denying writes to the old cluster as a part of a failover (``--fence``), and admitting them again on the way back.

By ACLs alone: where a cluster looks at none, or whoever fails over may not change them, nothing is denied, and the step
says what is in force instead. What is added is on record in the run directory before it is, and is taken back exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.evidence.facts import Json
from mirror.kafka.acls import NoAuthorizer, describe_acls
from mirror.kafka.channel import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.kafka.cluster import Cluster, ClusterError
from mirror.model.acl import Resource
from mirror.model.counts import counted
from mirror.model.verdict import Verdict
from mirror.recovery.fence import FencePlan, apply_fence, lift_fence, plan_fence
from mirror.recovery.fence import is_denied as is_fenced
from mirror.recovery.steps import Known, NotTakenBack, Result, Step

DENY, ADMIT = "deny writes", "admit writes"
RECORD = "fence.json"
_BY = "mirror failover --fence"
_INSTEAD = "in force is only that its applications were stopped, and that its logs are watched"
_AWAY = (ClusterError, BrokerRefused, ConnectionFailed, LeaderUnknown)


@dataclass(frozen=True, slots=True)
class Denied:
    """What has become of denying writes.

    Attributes
    ----------
    is_denied
        whether nobody but super users can write to what the flow copies.
    still_written
        who was seen writing all the same, in words for people.
    """

    is_denied: bool
    detail: str
    still_written: tuple[str, ...] = ()


class Denying(Protocol):
    """How writes to the source of a flow are denied and admitted again."""

    def plan(self) -> tuple[str, ...]:
        """Say, for people, what would be denied and what that would hold up; changes nothing."""
        ...

    def deny(self) -> Denied:
        """Deny them; where that cannot be, nothing is left behind."""
        ...

    def admit(self) -> str:
        """Take back exactly what was added; return, for people, what was done. Raises `NotTakenBack`."""
        ...


@dataclass(frozen=True, slots=True)
class AclDenying:
    """Denies by ACLs on the topics that a flow copies; ``record`` is the file in which it stands what was added."""

    settings: MirrorSettings
    chosen: FlowSettings
    record: Path

    def plan(self) -> tuple[str, ...]:
        """See `Denying`."""
        source = self.chosen.flow.source
        try:
            found = self._plan()
        except _AWAY as problem:
            return (f"nothing will be denied on {source}: {problem}; {_INSTEAD}",)
        if found.by_quotas:
            return (f"nothing will be denied on {source}, which looks at no ACLs; {_INSTEAD}",)
        what = f"DENY WRITE for everybody on {counted(len(found.fenced), 'topic')} of {source}"
        left = f"; open to: {'; '.join(found.open_to)}"
        return (f"{what}, until it is taken back or led home{left}", *found.warnings)

    def deny(self) -> Denied:
        """See `Denying`."""
        source = self.chosen.flow.source
        try:
            plan = self._plan()
            if plan.by_quotas:
                return Denied(False, f"{source} looks at no ACLs, so nothing is denied; {_INSTEAD}")
            done = apply_fence(plan, self.settings, self.record, quiet_seconds=1.0)
        except _AWAY as problem:
            return Denied(False, f"nothing is denied on {source}: {problem}; {_INSTEAD}{self._left()}")
        if done.problems:
            return Denied(
                False, f"writes to {source} cannot be denied: {'; '.join(done.problems)}; {_INSTEAD}{self._left()}"
            )
        said = f"nobody but super users may write to {counted(len(plan.fenced), 'topic')} of {source}, verified"
        return Denied(True, f"{said}; on record in {self.record}", done.watched.said() if done.watched.written else ())

    def admit(self) -> str:
        """See `Denying`."""
        source = self.chosen.flow.source
        if not self.record.exists():
            return f"nothing was denied on {source}"
        try:
            found = lift_fence(self.settings, source, self.record)
        except (*_AWAY, ConfigError) as problem:
            raise NotTakenBack(f"writes to {source} are still denied: {problem}") from None
        if found.problems:
            raise NotTakenBack(f"writes to {source} are still denied: {'; '.join(found.problems)}")
        return (
            f"writes to {source} are admitted again, exactly as before: {counted(len(found.put_back), 'ACL')} removed"
        )

    def _plan(self) -> FencePlan:
        return plan_fence(self.settings, self.chosen.flow.source, self.record, by=_BY, selects=self.chosen.replicates)

    def _left(self) -> str:
        """Take back what was added before it failed; say if that cannot be."""
        if not self.record.exists():
            return ""
        with suppress(NotTakenBack):
            self.admit()
            return ""
        return f". What was added before that is on record in {self.record}: mirror fence --lift --record"


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


def deny_step(source: str, denying: Denying, guarded: Callable[[Callable[[], str]], Callable[[], str]]) -> Step:
    """Return the step that denies writes; ``guarded`` keeps what takes it back from being done once others go on."""

    def act(_: Known) -> Result:
        found = denying.deny()
        facts: dict[str, Json] = {"denied": found.is_denied}
        if found.still_written:
            told = f"{found.detail}, and somebody writes all the same: {'; '.join(found.still_written)}"
            return Result(Verdict.FAIL, told, facts)
        return Result(Verdict.PASS if found.is_denied else Verdict.UNKNOWN, found.detail, facts)

    doing = f"deny writes to {source} by ACLs, on record before, and look that nothing is written"
    return Step(DENY, doing, act, undo=guarded(denying.admit), is_of_its_moment=True)


def admit_step(source: str, denying: Denying) -> Step:
    """Return the step of the way home that takes back what a failover has denied."""

    def act(_: Known) -> Result:
        try:
            return Result(Verdict.PASS, denying.admit())
        except NotTakenBack as problem:
            return Result(Verdict.FAIL, str(problem))

    return Step(ADMIT, f"take back what denies writes to {source}", act)


def is_denied(known: Known) -> bool:
    """Tell whether writes are denied, by what the step has found."""
    facts: Mapping[str, Json] = known.get(DENY, {})
    return facts.get("denied") is True
