"""ACLs of a cluster: read, created and deleted one by one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from mirror.kafka import codes
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import AccessDenied
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource

_ANY = 1

# What a broker says of one item: error code, message, value.
_Reply: TypeAlias = tuple[int, str | None, Any]


@dataclass(frozen=True, slots=True)
class AclListing:
    """The ACLs of a cluster.

    Attributes
    ----------
    acls
        those that could be read.
    unknown
        in words, those of a kind that this version knows nothing of.
    """

    acls: frozenset[Acl]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoAuthorizer:
    """The cluster has no authorizer: it keeps no ACLs, and everybody may do everything (ACL-07)."""

    alias: str


def describe_acls(cluster: Cluster, resources: Collection[Resource]) -> AclListing | NoAuthorizer:
    """Return all ACLs on resources of these kinds, whatever their pattern.

    Raises
    ------
    AccessDenied
        if the cluster does not tell us.
    ClusterError
        if it does not answer.
    """
    doing = "reading its ACLs"

    def ask(asked: Sequence[Resource]) -> dict[Resource, _Reply]:
        return {resource: _described(cluster, resource) for resource in asked}

    found: Found[Resource, Any] = cluster.ask_each(doing, resources, ask)
    for problem in found.problems.values():
        raise AccessDenied(cluster.alias, doing, problem)
    if any(isinstance(listed, NoAuthorizer) for listed in found.values()):
        return NoAuthorizer(cluster.alias)
    listings = list(found.values())
    return AclListing(
        frozenset(acl for listing in listings for acl in listing.acls),
        tuple(text for listing in listings for text in listing.unknown),
    )


def create_acls(cluster: Cluster, acls: Collection[Acl]) -> dict[Acl, str | None]:
    """Create ACLs and return of each why it was not, None if it was; one that is there already is no problem."""

    def ask(asked: Sequence[Acl]) -> dict[Acl, _Reply]:
        creations = [
            CreateAclsRequest.AclCreation(
                resource_type=int(acl.resource),
                resource_name=acl.name,
                resource_pattern_type=int(acl.pattern),
                principal=acl.principal,
                host=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in asked
        ]
        results = cluster.send(CreateAclsRequest(creations=creations)).results
        return {
            acl: (each.error_code, _explained(each.error_code, each.error_message, "ALTER"), None)
            for acl, each in zip(asked, results, strict=True)
        }

    return _problems(cluster.ask_each("creating ACLs", acls, ask), acls)


def delete_acls(cluster: Cluster, acls: Collection[Acl]) -> dict[Acl, str | None]:
    """Delete exactly these ACLs and return of each why it was not; one that is not there is no problem."""

    def ask(asked: Sequence[Acl]) -> dict[Acl, _Reply]:
        filters = [
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=int(acl.resource),
                resource_name_filter=acl.name,
                pattern_type_filter=int(acl.pattern),
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in asked
        ]
        results = cluster.send(DeleteAclsRequest(filters=filters)).filter_results
        return {acl: _deleted(each) for acl, each in zip(asked, results, strict=True)}

    return _problems(cluster.ask_each("deleting ACLs", acls, ask), acls)


def _described(cluster: Cluster, resource: Resource) -> _Reply:
    response = cluster.send(
        DescribeAclsRequest(
            resource_type_filter=int(resource),
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
    )
    code = response.error_code
    if code == codes.SECURITY_DISABLED:
        return 0, None, NoAuthorizer(cluster.alias)
    acls, unknown = set(), []
    for each in response.resources if code == 0 else ():
        for entry in each.acls:
            try:
                pattern, operation = Pattern(each.pattern_type), Operation(entry.operation)
                permission = Permission(entry.permission_type)
            except ValueError as problem:
                what = resource.name.lower().replace("_", " ")
                unknown.append(f"an ACL on {what} {each.resource_name} for {entry.principal}: {problem}")
            else:
                acls.add(Acl(resource, pattern, each.resource_name, entry.principal, entry.host, operation, permission))
    return code, _explained(code, response.error_message, "DESCRIBE"), AclListing(frozenset(acls), tuple(unknown))


def _deleted(result: Any) -> _Reply:
    failed = next((each for each in result.matching_acls if each.error_code), result)
    return failed.error_code, _explained(failed.error_code, failed.error_message, "ALTER"), None


def _explained(code: int, message: str | None, needed: str) -> str | None:
    """Say which right is lacking where the broker says only that one is."""
    return f"needs {needed} on the cluster" if code in codes.DENIED else message


def _problems(found: Found[Acl, None], acls: Collection[Acl]) -> dict[Acl, str | None]:
    return {acl: found.problems.get(acl) for acl in acls}
