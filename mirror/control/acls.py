"""ACLs on the target: planned from the source's, created, and removed again if this engine has created them.

What this engine creates is recorded in the flow's state topic, after it was created and only if it was not there
before. Nothing else is ever removed: not what people or MirrorMaker have created, and not what was there already.

Invariants:

(a) An ACL goes on record after it was created, and only if it was not there before. A crash in between makes it
    somebody else's, which is never removed: the safe mistake.
(b) A source that lists no ACL at all has revoked nothing. It is more likely a cluster set up anew on a bad day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from mirror.config.settings import FlowSettings
from mirror.control.acl_rules import Names, carry, could_give, resources
from mirror.control.flow_tick import RecordingTick
from mirror.control.tick import TickReport
from mirror.kafka.acls import AclListing, NoAuthorizer, create_acls, delete_acls, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import AccessDenied
from mirror.model.acl import Acl, Pattern, Resource
from mirror.model.counts import are, counted
from mirror.model.grouped import grouped
from mirror.model.state_values import acl_record

# Of so many refusals for one reason each ACL is named; thousands would not fit into the flow's report.
_NAMED_PER_REASON = 20
# Of denials that are carried over so many are named in a note.
_NAMED_DENIALS = 3


class AclAction(StrEnum):
    """What is done about one ACL."""

    CREATE = "create"
    KEEP = "already there"
    REMOVE = "remove"
    FORGET = "forget: gone from the target"
    LEAVE = "leave"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class AclDecision:
    """What is done about one ACL, and why.

    Attributes
    ----------
    acl
        the one on the target; to SKIP, the one on the source.
    origin
        the one on the source that it follows from.
    key
        the setting that would decide otherwise.
    """

    action: AclAction
    acl: Acl
    origin: Acl | None
    reason: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class AclPlan:
    """What is done about all ACLs of a flow, what cannot be done, and what else there is to know."""

    decisions: tuple[AclDecision, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, *actions: AclAction) -> list[AclDecision]:
        """Return the decisions of these kinds."""
        return [decision for decision in self.decisions if decision.action in actions]

    def rows(self) -> list[dict[str, str]]:
        """Return the plan as rows of a table: acl, action, detail. What is there already is left out."""
        rows = [
            _row(str(each.acl), each.action, f"{each.reason}; {each.key}" if each.key else each.reason)
            for each in self.decisions
            if each.action is not AclAction.KEEP
        ]
        return [*rows, *(_row("", "problem", text) for text in self.problems)]


@dataclass(frozen=True, slots=True)
class AclOutcome:
    """What came of one decision; ``problem`` says why it was not carried out."""

    decision: AclDecision
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AclEnds:
    """What must be known of both clusters before ACLs are planned."""

    source: AclListing | NoAuthorizer
    target: AclListing | NoAuthorizer
    names: Names = Names()  # noqa: RUF009  # frozen


def read_acls(source: Cluster, target: Cluster, settings: FlowSettings) -> AclEnds:
    """Read the ACLs of both ends, and the names that those of the source may be about.

    Raises
    ------
    ClusterError
        if one of them does not tell.
    """
    kinds = resources(settings)
    upstream = describe_acls(source, kinds)
    if isinstance(upstream, NoAuthorizer):
        return AclEnds(upstream, AclListing(frozenset()))
    topics = frozenset(name for name in source.topics() if settings.replicates(name))
    has_group_prefixes = any(
        acl.resource is Resource.GROUP and acl.pattern is Pattern.PREFIXED for acl in upstream.acls
    )
    groups = [each.group for each in source.groups()] if has_group_prefixes else []
    followed = frozenset(group for group in groups if settings.group_filter.matches(group))
    return AclEnds(upstream, describe_acls(target, kinds), Names(topics, followed))


def plan_acls(ends: AclEnds, created: Mapping[Acl, Acl], settings: FlowSettings) -> AclPlan:
    """Return what is to be done on the target so that its ACLs follow the source's.

    Parameters
    ----------
    created
        what this engine has created on the target, with the ACL on the source that it followed from.
    """
    source, target, flow = ends.source, ends.target, settings.flow
    if isinstance(source, NoAuthorizer):
        note = f"no ACLs are carried over: {flow.source} has no authorizer, so there are none (ACL-07)"
        return AclPlan(notes=(note,))
    if isinstance(target, NoAuthorizer):
        note = (
            f"no ACLs are carried over: {flow.target} has no authorizer, so what {flow.source} keeps from people is "
            f"open to everybody on {flow.target}; set authorizer.class.name there"
        )
        return AclPlan(notes=(note,))
    wanted: dict[Acl, AclDecision] = {}
    skipped = []
    for acl in sorted(source.acls):
        carried = carry(acl, ends.names, settings)
        for copy in carried.acls:
            is_there = copy in target.acls
            action = AclAction.KEEP if is_there else AclAction.CREATE
            wanted.setdefault(copy, AclDecision(action, copy, acl, carried.reason))
        if not carried.acls and carried.is_of_flow:
            skipped.append(AclDecision(AclAction.SKIP, acl, acl, carried.reason, carried.key))
    former, problems = _former(created, wanted, source.acls, target.acls, settings)
    unknown = tuple(f"{text}, which this version does not know: it is not carried over" for text in source.unknown)
    notes = (*_notes(skipped, settings), *_denied_writers(wanted.values(), settings), *unknown)
    return AclPlan((*wanted.values(), *former, *skipped), problems, notes)


def apply_acls(plan: AclPlan, target: Cluster) -> tuple[AclOutcome, ...]:
    """Create and delete what the plan says."""
    creates, removes = plan.of(AclAction.CREATE), plan.of(AclAction.REMOVE)
    return (
        *_outcomes(creates, lambda acls: create_acls(target, acls)),
        *_outcomes(removes, lambda acls: delete_acls(target, acls)),
        *(AclOutcome(each) for each in plan.of(AclAction.FORGET)),
    )


class AclsTick(RecordingTick):
    """Keeps the ACLs on the target in step with the source's (``sync.topic.acls``); ``plan`` is that of last time."""

    about = "ACLs"
    plan = AclPlan()

    def tick(self) -> TickReport:
        """Run one round: read both ends, plan, apply, record."""
        self.plan = AclPlan()
        return replace(super().tick(), notes=self.plan.notes)

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        try:
            ends = read_acls(self.source, self.target, self.settings)
        except AccessDenied as denied:
            return 0, (f"{denied}; grant it, or set sync.topic.acls.enabled = false",)
        self.plan = plan_acls(ends, self.log.poll().acls, self.settings)
        outcomes = apply_acls(self.plan, self.target)
        done = [outcome.decision for outcome in outcomes if outcome.problem is None]
        records = [acl_record(each.acl, each.origin if each.action is AclAction.CREATE else None) for each in done]
        self._record(records, at_ms)
        failures = _located((each for each in outcomes if each.problem is not None), self.target.alias)
        changed = [each for each in done if each.action is not AclAction.FORGET]
        return len(changed), (*self.plan.problems, *failures)


def _former(
    created: Mapping[Acl, Acl],
    wanted: Collection[Acl],
    source: Collection[Acl],
    target: Collection[Acl],
    settings: FlowSettings,
) -> tuple[list[AclDecision], tuple[str, ...]]:
    """Decide about what this engine has created and the source no longer gives.

    When the source lists no ACL at all, it looks more like a cluster that was set up anew than like revocations, and
    nothing is removed: on a bad day that is the cluster that everybody needs the target for.
    """
    kinds, flow = resources(settings), settings.flow
    decisions, withheld = [], 0
    for acl, origin in sorted(created.items()):
        if acl in wanted or acl.resource not in kinds:
            continue
        if acl not in target:
            decisions.append(AclDecision(AclAction.FORGET, acl, origin, f"somebody has removed it from {flow.target}"))
        elif any(could_give(each, acl, settings) for each in source):
            reason = f"{origin} stands on {flow.source}, though the flow no longer carries it over"
            decisions.append(AclDecision(AclAction.LEAVE, acl, origin, reason))
        elif not settings.acls.remove_revoked:
            reason, key = f"{origin} was revoked on {flow.source}", "mirror.acls.remove.revoked = true"
            decisions.append(AclDecision(AclAction.LEAVE, acl, origin, reason, key))
        elif not source:
            withheld += 1
            decisions.append(AclDecision(AclAction.LEAVE, acl, origin, f"{flow.source} lists no ACLs at all"))
        else:
            decisions.append(AclDecision(AclAction.REMOVE, acl, origin, f"{origin} was revoked on {flow.source}"))
    if not withheld:
        return decisions, ()
    problem = (
        f"{flow.source} lists no ACLs at all, so the {withheld} that this flow has put on {flow.target} are not "
        f"removed: was {flow.source} set up anew? If all were revoked on purpose, remove them on {flow.target} by hand"
    )
    return decisions, (problem,)


def _notes(skipped: Iterable[AclDecision], settings: FlowSettings) -> list[str]:
    """Say how many ACLs a setting keeps from being carried over."""
    counts = Counter((each.reason, each.key) for each in skipped if each.key)
    return [
        f"{counted(count, 'ACL')} of {settings.flow.source} {are(count)} not carried over: {reason}; "
        f"{key} does, and mirror plan FILE "
        "lists them"
        for (reason, key), count in sorted(counts.items())
    ]


def _denied_writers(wanted: Iterable[AclDecision], settings: FlowSettings) -> list[str]:
    """Name the writers who are denied the copies because the source denies them the originals, in one note.

    Whether that is a rule, or fences producers by name before a failover, only people know. What denies everybody, as
    `mirror fence` does, is never carried over.
    """
    denials = sorted(each.acl for each in wanted if each.acl.denies_writes)
    if not denials:
        return []
    named = ", ".join(map(str, denials[:_NAMED_DENIALS]))
    more = (
        f" and {len(denials) - _NAMED_DENIALS} more, which mirror plan FILE lists" if denials[_NAMED_DENIALS:] else ""
    )
    flow = settings.flow
    message = (
        f"{counted(len(denials), 'denial')} of writes {are(len(denials))} carried over from {flow.source}, as in "
        f"MirrorMaker 2: {named}{more}. After a failover they hold on {flow.target} too: if they only fence producers "
        f"of {flow.source}, use mirror fence, whose denials are left out, or remove them on {flow.target}"
    )
    return [message]


def _outcomes(
    decisions: list[AclDecision], act: Callable[[list[Acl]], Mapping[Acl, str | None]]
) -> tuple[AclOutcome, ...]:
    problems = act([each.acl for each in decisions]) if decisions else {}
    return tuple(AclOutcome(each, problems[each.acl]) for each in decisions)


def _located(failures: Iterable[AclOutcome], alias: str) -> list[str]:
    """Name each ACL that could not be created or removed, and why (ACL-08)."""
    messages = []
    for reason, decisions in grouped((str(each.problem), each.decision) for each in failures).items():
        named = decisions[:_NAMED_PER_REASON]
        messages += [f"cannot {each.action} on {alias}: {each.acl}: {reason}" for each in named]
        if len(decisions) > len(named):
            messages.append(
                f"and {len(decisions) - len(named)} ACLs more on {alias}, which mirror plan FILE lists: {reason}"
            )
    return messages


def _row(acl: str, action: str, detail: str) -> dict[str, str]:
    return {"acl": acl, "action": action, "detail": detail}
