"""What a reader of MirrorMaker's side topics is given: the keys of Java's ``MirrorClientConfig`` (section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirror.config.clients import with_prefix_taken_off
from mirror.config.connector_keys import CONNECTORS, Connector
from mirror.config.definition import BadValue
from mirror.config.definitions import CLIENT_KEYS
from mirror.config.engine_keys import ENGINE
from mirror.config.errors import ConfigError, Mistakes
from mirror.config.mirror_maker import MirrorMakerConfig, resolve_like_a_connector
from mirror.config.policies import replication_policy
from mirror.config.properties import read
from mirror.config.providers import ProviderProblem
from mirror.config.security_keys import SECURITY
from mirror.model.references import Unusable
from mirror.model.topics import Generation, ReplicationPolicy

_POLICY, _ADMIN = "replication.policy.class", "forwarding.admin.class"
_GENERATION = "mirror.compatibility"
_DEFINITIONS = {
    **SECURITY,
    **{name: CONNECTORS[Connector.SOURCE][name] for name in (_POLICY, _ADMIN)},
    _GENERATION: ENGINE[_GENERATION],
}


@dataclass(frozen=True, slots=True)
class MirrorClientSettings:
    """How to read a cluster that is the target of flows.

    Parameters
    ----------
    alias
        what the cluster is called in messages
    admin, consumer
        Java client properties: addresses and security, the only ones that such a client keeps
    policy
        how copies and side topics are named
    """

    alias: str
    admin: Mapping[str, str]
    consumer: Mapping[str, str]
    policy: ReplicationPolicy

    @classmethod
    def of(cls, properties: Mapping[str, str], alias: str = "cluster") -> MirrorClientSettings:
        """Read the properties of one cluster: ``bootstrap.servers``, security, ``replication.policy.*``.

        ``admin.`` and ``consumer.`` before a key give that client its own. The Identity policy takes
        ``source.cluster.alias`` for the source of every topic.

        Raises
        ------
        ConfigError
            for each value that cannot be used, no ``bootstrap.servers``, or a placeholder that is not available.
        """
        try:
            values = resolve_like_a_connector(properties)
        except ProviderProblem as problem:
            raise ConfigError(None, None, problem.key, problem.message) from problem
        mistakes = Mistakes()
        for name, definition in _DEFINITIONS.items():
            try:
                definition.value(values)
            except BadValue as problem:
                mistakes.note((ConfigError(None, None, name, str(problem)),))
        mistakes.refuse()
        admin, consumer = (_client(values, f"{kind}.") for kind in ("admin", "consumer"))
        if not admin.get("bootstrap.servers") or not consumer.get("bootstrap.servers"):
            raise ConfigError(None, None, "bootstrap.servers", "say where the cluster is: host:port, host:port")
        generation = Generation(_DEFINITIONS[_GENERATION].value(values))
        try:
            policy = replication_policy(values, _DEFINITIONS[_POLICY].value(values), generation)
        except Unusable as problem:
            raise ConfigError(None, None, _POLICY, str(problem)) from problem
        return cls(alias, admin, consumer, policy)

    @classmethod
    def of_file(cls, path: Path, alias: str) -> MirrorClientSettings:
        """Read how to reach cluster ``alias`` of a ``connect-mirror-maker.properties`` (CFG-102).

        The policy is that of the top level, as in Java; what a flow sets for itself (``A->B.replication.policy.…``)
        does not count here.

        Raises
        ------
        ConfigError
            for what is wrong with the file, or a cluster it does not name.
        """
        config = MirrorMakerConfig.of(read(path))
        if alias not in config.clusters:
            raise ConfigError(path, None, "clusters", f"there is no {alias}; there are {', '.join(config.clusters)}")
        return cls.of(config.replace_placeholders({**config.file.values, **config.cluster(alias)}), alias)


def _client(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    merged = {**values, **with_prefix_taken_off(values, prefix)}
    return {key: value for key, value in merged.items() if key in CLIENT_KEYS}
