"""Client quotas on the target: those of users and client ids follow the source's (``mirror.acls.client.quotas``).

As with ACLs, only what this engine has set is ever changed or removed: it is recorded in the flow's state topic, and a
limit that somebody has given another value since is somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mirror.config.settings import FlowSettings
from mirror.control.flow_tick import RecordingTick
from mirror.kafka.users import alter_client_quotas, client_quotas
from mirror.model.acl import QuotaKey
from mirror.model.state_values import quota_record

_CARRIED_KINDS = {"user", "client-id"}


class QuotaAction(StrEnum):
    """What is done about one limit."""

    SET = "set"
    KEEP = "already there"
    REMOVE = "remove"
    FORGET = "forget: no longer as it was set"
    LEAVE = "leave"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class QuotaDecision:
    """What is done about one limit, and why; ``value`` is the source's, None if it has none."""

    action: QuotaAction
    key: QuotaKey
    value: float | None
    reason: str

    def row(self) -> dict[str, str]:
        """Return it as a row of a table: quota, action, detail."""
        value = "" if self.value is None else f"{self.value:g}: "
        return {"quota": str(self.key), "action": self.action, "detail": f"{value}{self.reason}"}


def plan_quotas(
    source: Mapping[QuotaKey, float],
    target: Mapping[QuotaKey, float],
    recorded: Mapping[QuotaKey, float],
    settings: FlowSettings,
) -> tuple[QuotaDecision, ...]:
    """Return for every limit of the source, and for every one that this engine has set, what is done on the target."""
    keys = sorted({*source, *recorded}, key=str)
    return tuple(_decide(key, source.get(key), target.get(key), recorded.get(key), settings) for key in keys)


class QuotasTick(RecordingTick):
    """Keeps the client quotas on the target in step with the source's."""

    about = "client quotas"

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        source, target = client_quotas(self.source), client_quotas(self.target)
        decisions = plan_quotas(source, target, self.log.poll().quotas, self.settings)
        changes = {each.key: each.value for each in decisions if each.action in (QuotaAction.SET, QuotaAction.REMOVE)}
        problems = alter_client_quotas(self.target, changes) if changes else {}
        done = {key: value for key, value in changes.items() if problems[key] is None}
        forgotten = {each.key: None for each in decisions if each.action is QuotaAction.FORGET}
        self._record([quota_record(key, value) for key, value in (done | forgotten).items()], at_ms)
        return len(done), tuple(
            f"cannot change on {self.target.alias}: {key}: {problem}" for key, problem in problems.items() if problem
        )


def _decide(
    key: QuotaKey, wanted: float | None, present: float | None, recorded: float | None, settings: FlowSettings
) -> QuotaDecision:
    source, target = settings.flow.source, settings.flow.target

    def decision(action: QuotaAction, reason: str) -> QuotaDecision:
        return QuotaDecision(action, key, wanted, reason)

    if not {kind for kind, _ in key.entity} <= _CARRIED_KINDS:
        return decision(QuotaAction.SKIP, f"addresses are not the same on {target}")
    if recorded is not None and present not in (recorded, wanted):
        return decision(QuotaAction.FORGET, f"somebody has changed it on {target}: it is theirs from now on")
    if wanted is None:
        if present is None:
            return decision(QuotaAction.FORGET, f"it is gone from {source} and {target}")
        if settings.acls.remove_revoked:
            return decision(QuotaAction.REMOVE, f"it is gone from {source}")
        return decision(QuotaAction.LEAVE, f"it is gone from {source}; mirror.acls.remove.revoked = true removes it")
    if present == wanted:
        return decision(QuotaAction.KEEP, f"{target} has the same")
    if present is None:
        return decision(QuotaAction.SET, f"{target} has none")
    if recorded is None:
        return decision(QuotaAction.LEAVE, f"{target} has {present:g}, which somebody else has set")
    return decision(QuotaAction.SET, f"it was {present:g} on {source}")
