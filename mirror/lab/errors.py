"""What can go wrong with a lab, as one family: every message says what happened, where, and what to do."""

from __future__ import annotations


class LabError(RuntimeError):
    """Something about the clusters to practise on, or the processes around them."""


class BadRequest(LabError):
    """What was asked for cannot be, whatever the machine's state."""


class BrokerError(LabError):
    """A broker did not start or stop; the message holds what it said last."""


class ClusterRefusal(LabError):
    """A cluster refuses what it is asked, because of what kind of cluster it is."""


class ProviderUnavailable(LabError):
    """Clusters of this kind are not available on this machine."""
