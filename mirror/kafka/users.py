"""Users and quotas of a cluster: who can log in with SCRAM, and how much clients may send and fetch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)

from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterError
from mirror.model.acl import QuotaEntity, QuotaKey

_Reply: TypeAlias = tuple[int, str | None, Any]


class _Mechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


def scram_users(cluster: Cluster) -> dict[str, frozenset[str]]:
    """Return the users that can log in with SCRAM, each with its mechanisms, such as ``SCRAM-SHA-256``.

    Nothing tells their passwords, nor what is kept of them: they cannot be copied from here.

    Raises
    ------
    ClusterError
        if the cluster does not tell.
    """

    def ask() -> _Reply:
        # Asked with None, which also means all, a broker 4.3.1 that does not let us know never answers.
        response = cluster.send(DescribeUserScramCredentialsRequest(users=[]))
        users = {
            each.user: frozenset(_spelled(info.mechanism) for info in each.credential_infos)
            for each in response.results
        }
        return response.error_code, response.error_message, users

    found: dict[str, frozenset[str]] = _one(cluster, "reading its SCRAM users", ask)
    return found


def client_quotas(cluster: Cluster) -> dict[QuotaKey, float]:
    """Return every limit of every entity.

    Raises
    ------
    ClusterError
        if the cluster does not tell.
    """

    def ask() -> _Reply:
        response = cluster.send(DescribeClientQuotasRequest(components=[], strict=False))
        quotas = {
            QuotaKey(_entity(entry), each.key): each.value for entry in response.entries or () for each in entry.values
        }
        return response.error_code, response.error_message, quotas

    found: dict[QuotaKey, float] = _one(cluster, "reading its client quotas", ask)
    return found


def alter_client_quotas(cluster: Cluster, changes: Mapping[QuotaKey, float | None]) -> dict[QuotaKey, str | None]:
    """Set limits, or remove those given as None; return of each why that was not done, None if it was."""
    by_entity: dict[QuotaEntity, list[QuotaKey]] = defaultdict(list)
    for key in changes:
        by_entity[key.entity].append(key)

    def ask(asked: Sequence[QuotaEntity]) -> dict[QuotaEntity, _Reply]:
        entry = AlterClientQuotasRequest.EntryData
        entries = [
            entry(
                entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    entry.OpData(key=key.limit, value=changes[key] or 0.0, remove=changes[key] is None)
                    for key in by_entity[entity]
                ],
            )
            for entity in asked
        ]
        response = cluster.send(AlterClientQuotasRequest(entries=entries, validate_only=False))
        return {_entity(each): (each.error_code, each.error_message, None) for each in response.entries}

    found = cluster.ask_each("changing client quotas", by_entity, ask)
    return {key: found.problems.get(key.entity) for key in changes}


def _one(cluster: Cluster, doing: str, ask: Any) -> Any:
    found = cluster.ask_each(doing, [doing], lambda _: {doing: ask()})
    for problem in found.problems.values():
        raise ClusterError(cluster.alias, doing, problem)
    return found[doing]


def _entity(entry: Any) -> QuotaEntity:
    return tuple(sorted((each.entity_type, each.entity_name) for each in entry.entity))


def _spelled(mechanism: int) -> str:
    try:
        return _Mechanism(mechanism).name.replace("_", "-")
    except ValueError:
        return f"mechanism {mechanism}"
