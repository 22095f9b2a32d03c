"""ACLs: who may, or may not, do what with which topics, groups and transactional ids; and the quotas of clients."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

EVERY_NAME = "*"
"""As the name of a LITERAL pattern it stands for all names, as a host for all hosts."""
EVERYBODY = "User:*"
"""The principal that stands for all."""


class Resource(IntEnum):
    """What an ACL is about, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """Whether an ACL names something or what names begin with."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What may be done or not."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether it is allowed or forbidden."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One ACL: ``principal``, from ``host``, may or may not do ``operation``."""

    resource: Resource
    pattern: Pattern
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def is_wildcard(self) -> bool:
        """Whether it is about all names."""
        return self.pattern is Pattern.LITERAL and self.name == EVERY_NAME

    @property
    def denies_writes(self) -> bool:
        """Whether it keeps somebody from writing to topics."""
        return (
            self.resource is Resource.TOPIC
            and self.permission is Permission.DENY
            and self.operation in (Operation.WRITE, Operation.ALL)
        )

    @property
    def is_fence(self) -> bool:
        """Whether it keeps everybody, from everywhere, from writing to topics: what fences a cluster's writers."""
        return self.denies_writes and (self.principal, self.host) == (EVERYBODY, EVERY_NAME)

    @property
    def key(self) -> list[Any]:
        """Return what tells it from every other, in a form for JSON: the words that Kafka's tools use."""
        return [
            self.resource.name,
            self.pattern.name,
            self.name,
            self.principal,
            self.host,
            self.operation.name,
            self.permission.name,
        ]

    @classmethod
    def of_key(cls, key: list[Any]) -> Acl:
        """Return the ACL of a :attr:`key`.

        Raises
        ------
        KeyError, ValueError
            if it is none.
        """
        resource, pattern, name, principal, host, operation, permission = key
        return cls(
            Resource[resource],
            Pattern[pattern],
            name,
            principal,
            host,
            Operation[operation],
            Permission[permission],
        )

    def __str__(self) -> str:
        """Return it as a line for people."""
        prefixed = "prefix " if self.pattern is Pattern.PREFIXED else ""
        what = self.resource.name.lower().replace("_", " ")
        host = "" if self.host == EVERY_NAME else f" from {self.host}"
        return (
            f"{self.permission.name} {self.operation.name} on {what} {prefixed}{self.name} for {self.principal}{host}"
        )


QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: pairs of kind (``user``, ``client-id``, ``ip``) and name, None for the default, sorted."""


@dataclass(frozen=True, slots=True)
class QuotaKey:
    """One limit of one entity, such as ``producer_byte_rate`` of a user."""

    entity: QuotaEntity
    limit: str

    def __str__(self) -> str:
        """Return it as a line for people."""
        whom = ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in self.entity)
        return f"{self.limit} of {whom}"
