"""Users of the source who could not log in on the target (``mirror.acls.scram.users``).

Kafka tells names and mechanisms of SCRAM users, never passwords nor what is derived from them. So users cannot be
mirrored by asking the cluster: what can be done is to say who is missing before somebody needs to log in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror.control.flow_tick import FlowTick
from mirror.kafka.users import scram_users

_NAMED = 50


@dataclass(frozen=True, slots=True)
class MissingUser:
    """A user who can log in on the source with a mechanism, and not on the target."""

    name: str
    mechanism: str

    def row(self) -> dict[str, str]:
        """Return it as a row of a table: user, action, detail."""
        detail = (
            f"has no {self.mechanism} credentials on the target, and Kafka does not tell passwords: create them there, "
            "kafka-configs --alter --entity-type users"
        )
        return {"user": self.name, "action": "create by hand", "detail": detail}


def missing_users(
    source: Mapping[str, frozenset[str]], target: Mapping[str, frozenset[str]]
) -> tuple[MissingUser, ...]:
    """Return who can log in on the source and not, or not in the same way, on the target; by name."""
    return tuple(
        MissingUser(name, mechanism)
        for name in sorted(source)
        for mechanism in sorted(source[name] - target.get(name, frozenset()))
    )


class UsersTick(FlowTick):
    """Looks for users who are missing on the target; each is a problem until it is there."""

    about = "users"

    def _round(self, _: int) -> tuple[int, tuple[str, ...]]:
        missing = missing_users(scram_users(self.source), scram_users(self.target))
        target = self.settings.flow.target
        messages = [
            f"user {each.name} cannot log in on {target}: no {each.mechanism} credentials there; create them by hand"
            for each in missing[:_NAMED]
        ]
        if len(missing) > _NAMED:
            messages.append(f"and {len(missing) - _NAMED} more cannot log in on {target}: mirror plan FILE lists them")
        return 0, tuple(messages)
