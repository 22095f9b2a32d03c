"""What a cluster can answer instead of doing what it was asked."""

from __future__ import annotations

from mirror.model.portable import Portable


class ClusterError(Portable):
    """A cluster refused a request as a whole."""

    def __init__(self, alias: str, doing: str, reason: str) -> None:
        self.alias = alias
        self.doing = doing
        self.reason = reason
        super().__init__(f"cluster {alias}: {doing}: {reason}")


class ClusterUnreachable(ClusterError):
    """Nobody answered at a cluster's addresses, or not in time, or not as is needed, or the connection was refused.

    Attributes
    ----------
    is_for_people
        whether waiting does not help, as far as can be told: nobody has such a host's name, the login or the broker's
        certificate is refused, the broker is of a version that cannot be used.
    """

    def __init__(self, alias: str, bootstrap: str, reason: str, *, is_for_people: bool = False) -> None:
        # Reasons name their addresses; one needs no second mention.
        super().__init__(alias, f"connecting to {bootstrap}", reason.removeprefix(f"{bootstrap}: "))
        self.bootstrap, self.reason, self.is_for_people = bootstrap, reason, is_for_people


class AccessDenied(ClusterError):
    """The cluster knows who asks and does not allow it."""
