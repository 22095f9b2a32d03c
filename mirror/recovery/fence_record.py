"""The record of a fence: what it adds to a cluster and what stood there before, in a file, written before any of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirror.atomic_file import write_new
from mirror.config.errors import ConfigError
from mirror.model.acl import Acl, QuotaKey

_KIND, _VERSION = "fence of a cluster", 1


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A limit as it was, None if there was none, and as the fence sets it."""

    before: float | None
    fenced: float


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """What a fence adds to one cluster: ACLs that were not there before, or other limits for clients.

    Attributes
    ----------
    cluster, cluster_id
        its alias in the file that was used, and its own id: aliases may name another cluster by the time it is lifted.
    by, at_ms
        who fenced it, and when, in ms since the epoch.
    denied_before
        topics that were denied to everybody already, by whatever else: they need no ACL of this fence.
    """

    cluster: str
    cluster_id: str
    by: str
    at_ms: int
    acls: tuple[Acl, ...] = ()
    quotas: Mapping[QuotaKey, QuotaChange] = field(default_factory=dict)
    denied_before: tuple[str, ...] = ()

    def save(self, path: Path) -> None:
        """Write it to a new file, forced to disk.

        Raises
        ------
        ConfigError
            if it cannot be written, or there is such a file.
        """
        content = {
            "kind": _KIND,
            "version": _VERSION,
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "by": self.by,
            "at_ms": self.at_ms,
            "acls": [each.key for each in self.acls],
            "quotas": [
                {
                    "entity": [list(part) for part in key.entity],
                    "limit": key.limit,
                    "before": change.before,
                    "fenced": change.fenced,
                }
                for key, change in self.quotas.items()
            ],
            "denied_before": list(self.denied_before),
        }
        try:
            write_new(path, json.dumps(content, indent=2) + "\n")
        except OSError as error:
            raise ConfigError(
                path, None, None, f"what the fence changes cannot be put on record here: {error}"
            ) from None

    @classmethod
    def load(cls, path: Path) -> FenceRecord:
        """Read the record of a fence.

        Raises
        ------
        ConfigError
            if the file cannot be read or is none of this version; it names the file.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(path, None, None, f"is no record of a fence that can be read: {error}") from None
        if not isinstance(content, dict) or content.get("kind") != _KIND or content.get("version") != _VERSION:
            raise ConfigError(path, None, None, f"is no record of a fence of version {_VERSION}")
        try:
            return cls(
                content["cluster"],
                content["cluster_id"],
                content["by"],
                content["at_ms"],
                tuple(Acl.of_key(each) for each in content["acls"]),
                {_key(each): QuotaChange(each["before"], float(each["fenced"])) for each in content["quotas"]},
                tuple(content.get("denied_before", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(path, None, None, f"is not whole: {error!r}") from None


def _key(content: Mapping[str, Any]) -> QuotaKey:
    return QuotaKey(tuple((kind, name) for kind, name in content["entity"]), content["limit"])
