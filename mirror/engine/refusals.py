"""Why an engine does not start, with the place in the file that says so."""

from __future__ import annotations

from mirror.config.errors import ConfigError


class SameCluster(ConfigError):
    """Source and target of a flow are one cluster: replicating would never end."""


class TooFewBrokers(ConfigError):
    """A topic that a flow cannot begin without is to have more replicas than its cluster has brokers."""


class NotReachable(ConfigError):
    """A cluster does not answer at the address that the file gives."""
