"""Who may do what by the ACLs of a cluster, as Kafka's own authorizer decides it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from mirror.model.acl import EVERY_NAME, EVERYBODY, Acl, Operation, Pattern, Permission, Resource

# What an operation lets one do besides.
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


class AclCheck:
    """Answers by ACLs: a denial counts before every allowance, and super users may do everything.

    ``allows_if_none``: what no ACL is about is open to everybody (``allow.everyone.if.no.acl.found``).
    """

    def __init__(
        self, acls: Collection[Acl], super_users: Collection[str] = (), *, allows_if_none: bool = False
    ) -> None:
        """Decide by these ACLs."""
        self._super_users = frozenset(super_users)
        self._allows_if_none = allows_if_none
        self._named: dict[tuple[Resource, str], list[Acl]] = defaultdict(list)
        self._prefixed: dict[Resource, list[Acl]] = defaultdict(list)
        for acl in acls:
            if acl.pattern is Pattern.PREFIXED:
                self._prefixed[acl.resource].append(acl)
            else:
                self._named[acl.resource, acl.name].append(acl)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Tell whether ``principal`` may do it from ``host``; ``*`` is every host, and then it must be so from each."""
        if principal in self._super_users:
            return True
        is_any = is_allowed = False
        enough = {operation, Operation.ALL} | _IMPLIED_BY.get(operation, frozenset())
        for acl in self._about(resource, name):
            is_any = True
            if acl.principal not in (principal, EVERYBODY):
                continue
            if acl.permission is Permission.DENY:
                # A denial of one operation denies no other that it would imply, and one from some hosts is one.
                if acl.operation in (operation, Operation.ALL) and (
                    host == EVERY_NAME or acl.host in (host, EVERY_NAME)
                ):
                    return False
            elif acl.operation in enough and acl.host in (host, EVERY_NAME):
                is_allowed = True
        return is_allowed or (self._allows_if_none and not is_any)

    def _about(self, resource: Resource, name: str) -> Iterator[Acl]:
        yield from self._named.get((resource, name), ())
        if name != EVERY_NAME:
            yield from self._named.get((resource, EVERY_NAME), ())
        yield from (acl for acl in self._prefixed[resource] if name.startswith(acl.name))
