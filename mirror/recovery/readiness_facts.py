"""What must be known of both sides of a flow before anybody can say whether a failover would work now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

from mirror.config.settings import FlowSettings
from mirror.control.checkpoints import Checkpoints
from mirror.control.flow_status import FlowStatus
from mirror.kafka.acls import AclListing, NoAuthorizer
from mirror.kafka.brokers import Offered
from mirror.kafka.cluster_model import GroupListing, Topic
from mirror.model.acl import QuotaKey
from mirror.model.partition import TopicPartition
from mirror.recovery.group_moves import MovePlan

T = TypeVar("T")

Configs: TypeAlias = Mapping[str, str]
"""The values in force, by setting."""


@dataclass(frozen=True, slots=True)
class NotSeen:
    """Something that could not be looked at: what, why, where, and what to do so that it can be."""

    what: str
    reason: str
    where: str
    mend: str


class NotLookedAt(Exception):
    """A rule needs to know what could not be looked at."""

    def __init__(self, not_seen: NotSeen) -> None:
        super().__init__(not_seen.reason)
        self.not_seen = not_seen


def seen(fact: T | NotSeen) -> T:
    """Return a fact.

    Raises
    ------
    NotLookedAt
        if it is not known.
    """
    if isinstance(fact, NotSeen):
        raise NotLookedAt(fact)
    return fact


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster.

    Attributes
    ----------
    bootstrap
        its addresses, for commands.
    brokers
        the ids of those that are up.
    topics
        all of them, Kafka's own too.
    configs
        of the topics that are copied, of the copies, of the topics of the same names, and of Kafka's own, the settings
        in force; a topic whose settings could not be read has none, and is among what was ``partly`` seen.
    settings
        of the brokers: all values that a setting has.
    quotas, users, groups, acls, offered, transactions
        as the cluster tells them; ``users`` are those of SCRAM, with their mechanisms, ``transactions`` the
        transactional ids with their states.
    partly
        what of all this is missing here and there.
    """

    alias: str
    bootstrap: str
    cluster_id: str
    brokers: tuple[int, ...]
    topics: Mapping[str, Topic]
    configs: Mapping[str, Configs] = field(default_factory=dict)
    settings: Mapping[str, frozenset[str]] | NotSeen = field(default_factory=dict)
    acls: AclListing | NoAuthorizer | NotSeen = AclListing(frozenset())  # noqa: RUF009  # frozen
    quotas: Mapping[QuotaKey, float] | NotSeen = field(default_factory=dict)
    users: Mapping[str, frozenset[str]] | NotSeen = field(default_factory=dict)
    groups: tuple[GroupListing, ...] | NotSeen = ()
    offered: Offered | NotSeen = Offered()  # noqa: RUF009  # frozen
    transactions: Mapping[str, str] | NotSeen = field(default_factory=dict)
    partly: tuple[NotSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of the flow, and those that it leaves out.

    Attributes
    ----------
    moves
        what would become of each position that the flow follows if the groups were moved now.
    checkpoints, checkpoints_before
        the last ones on the target, read after the positions of the groups and before them: a group at work goes on
        meanwhile.
    left_out
        consumer groups of the source that the flow does not follow, with those topics of the flow that they read.
    read_elsewhere
        topics that the flow does not copy, with the groups that the flow follows and that read them.
    """

    moves: MovePlan | NotSeen
    checkpoints: Checkpoints | NotSeen = field(default_factory=dict)
    checkpoints_before: Checkpoints | NotSeen = field(default_factory=dict)
    left_out: Mapping[str, tuple[str, ...]] | NotSeen = field(default_factory=dict)
    read_elsewhere: Mapping[str, tuple[str, ...]] | NotSeen = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the logs of the copied partitions begin and end on the source."""

    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Both sides of a flow at one moment.

    Attributes
    ----------
    copies
        the topics of applications that the flow copies, by their names on the source, with the names of their copies.
        Where the source does not answer, those that are known to have been copied.
    aliases
        of all clusters that the file names.
    own_principal
        whom the flow logs in as, None if that does not show: its rights are not those of an application.
    file
        the name of the properties file, for commands.
    parked
        how many records the target holds that it found too large.
    rpo_seconds
        how far the copy may be behind.
    """

    settings: FlowSettings
    source: Side | NotSeen
    target: Side | NotSeen
    status: FlowStatus | NotSeen
    copies: Mapping[str, str]
    groups: Groups
    ends: Ends | NotSeen = Ends()  # frozen
    parked: int | NotSeen = 0
    aliases: frozenset[str] = frozenset()
    own_principal: str | None = None
    file: str = "FILE"
    rpo_seconds: float = 30.0

    @property
    def flow(self) -> str:
        """The flow as the file and commands name it."""
        return str(self.settings.flow)

    @cached_property
    def originals(self) -> dict[str, str]:
        """The topics of the target that producers will write to, by their names on the source.

        Applications keep the names of their topics. Under the default policy those are not the copies: a topic of the
        same name must be there beside them. What is itself the copy of another cluster's topic, nobody writes to.
        """
        policy = self.settings.policy
        return {
            name: name
            for name, copy in self.copies.items()
            if copy == name or not (policy.can_detect_cycles and policy.topic_source(name) in self.aliases)
        }

    @cached_property
    def twins(self) -> list[tuple[str, str]]:
        """The topics of the source with those of the target that stand for them: each copy, and what is written to."""
        pairs = [*self.copies.items(), *self.originals.items()]
        return list(dict.fromkeys(pairs))
