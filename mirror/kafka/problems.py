"""What a cluster, a broker or the way there can answer instead of doing what it was asked: one tree of exceptions.

    KafkaProblem
        ConnectionFailed            a broker or cluster that is not reached, or lets nobody in (``is_refusal``)
        RequestFailed               one thing that a cluster which answers was asked about
            LeaderUnknown           a partition that nobody leads
                LeaderAway          a partition whose leader is not reached
            BrokerRefused           an error code; rights that are lacking are ``is_denied``
                LogTruncated        a log that is not the one any more that was read (`mirror.kafka.log`)
            FetchFailed             an error code for a whole fetch (`mirror.kafka.wire`)
        ClusterError                a request of :class:`~mirror.kafka.cluster.Cluster` as a whole
            ClusterUnreachable      also a ConnectionFailed
            AccessDenied

A client property that cannot be honoured, `mirror.kafka.security.UnsupportedSetting`, is none of these: whoever takes a
cluster that does not answer for one that is gone must not take a mistake in the file for that.
"""

from __future__ import annotations

import kafka.errors

from mirror.kafka import codes
from mirror.model.portable import Portable


class KafkaProblem(Portable):
    """Kafka did not do what it was asked; what failed is in the text, in words for people.

    Whoever copies catches it and tries again; a command tells it and ends with exit code 3.
    """


class ConnectionFailed(KafkaProblem):
    """A broker could not be reached or hung up; names the cluster, the broker and the reason.

    Attributes
    ----------
    alias
        the cluster's; empty if it is not about one.
    is_refusal
        whether a broker answered, and let nobody in with these credentials.
    """

    def __init__(self, text: str, alias: str = "", *, is_refusal: bool = False) -> None:
        super().__init__(text)
        self.alias, self.is_refusal = alias, is_refusal


class RequestFailed(KafkaProblem):
    """Of one thing that was asked about there is no answer, although the cluster is there."""


class LeaderUnknown(RequestFailed):
    """A partition has no leader now, or does not exist."""


class LeaderAway(LeaderUnknown):
    """The leader that the cluster names of a partition is not reached; perhaps another one is elected."""


class BrokerRefused(RequestFailed):
    """A broker answered a request with an error: ``what`` was asked, ``error`` is kafka-python's class for it."""

    def __init__(self, what: str, error: int | type[BaseException], right: str = "") -> None:
        """Name what was asked and the error, by its code, and if rights are lacking the ``right`` it takes."""
        self.what = what
        self.error = kafka.errors.for_code(error) if isinstance(error, int) else error
        name, more = self.error.__name__, ""
        if self.code is not None:
            name, more = codes.name(self.code), codes.hint(self.code, right)
        super().__init__(f"{what}: {name}{more}")

    @property
    def is_denied(self) -> bool:
        """Whether rights are lacking."""
        return self.code in codes.DENIED

    @property
    def code(self) -> int | None:
        """The error's number in the protocol; None if it was not reported with one."""
        return getattr(self.error, "errno", None)

    @property
    def is_gone(self) -> bool:
        """Whether what was asked for is not there any more: offsets that the log has no longer, or the topic."""
        return self.code in (codes.OFFSET_OUT_OF_RANGE, codes.UNKNOWN_TOPIC)


class ClusterError(KafkaProblem):
    """A cluster refused a request as a whole."""

    def __init__(self, alias: str, doing: str, reason: str) -> None:
        KafkaProblem.__init__(self, f"cluster {alias}: {doing}: {reason}")
        self.alias, self.doing, self.reason = alias, doing, reason


class ClusterUnreachable(ClusterError, ConnectionFailed):
    """Nobody answered at a cluster's addresses, or not in time, or not as is needed, or the connection was refused.

    Attributes
    ----------
    is_for_people
        whether waiting does not help, as far as can be known: nobody has such a host's name, the login or the broker's
        certificate is refused, the broker is of a version that cannot be used.
    """

    def __init__(
        self, alias: str, bootstrap: str, reason: str, *, is_for_people: bool = False, is_refusal: bool = False
    ) -> None:
        # Reasons name their addresses; one needs no second mention.
        ClusterError.__init__(self, alias, f"connecting to {bootstrap}", reason.removeprefix(f"{bootstrap}: "))
        self.bootstrap, self.reason = bootstrap, reason
        self.is_for_people, self.is_refusal = is_for_people or is_refusal, is_refusal


class AccessDenied(ClusterError):
    """The cluster knows who asks and does not allow it."""
