"""The layers of a properties file, put together as MirrorMaker 2's dedicated mode does (CFG-070 to CFG-103).

Everything here is properties in, properties out: which clusters and flows there are, and what their worker and their
three connectors get. The words of the result are Java's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from mirror.config.connector_keys import CONNECTOR_KEYS, Connector
from mirror.config.definition import BadValue
from mirror.config.definitions import CLIENT_KEYS, MIRROR_MAKER, RETENTION
from mirror.config.engine_keys import ENGINE_OF_A_FLOW
from mirror.config.errors import Mistakes
from mirror.config.properties import PropertiesFile
from mirror.config.providers import CONFIG_PROVIDERS, ProviderProblem, providers, replace_placeholders
from mirror.model.flow import Flow

_CLIENTS = ("producer", "consumer", "admin")
PASSED_TO_WORKERS = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
)
_BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONNECTOR_PACKAGE = "org.apache.kafka.connect.mirror"


@dataclass(frozen=True, slots=True)
class MirrorMakerConfig:
    """A properties file of dedicated mode.

    Parameters
    ----------
    file
        as read, placeholders in place
    resolved
        the same with placeholders replaced
    """

    file: PropertiesFile
    resolved: Mapping[str, str]

    @classmethod
    def of(cls, file: PropertiesFile) -> MirrorMakerConfig:
        """Resolve the placeholders and check the keys of the top level.

        Raises
        ------
        ConfigError
            for a value of the wrong type, a missing ``clusters``, a provider or placeholder that is not available.
        """
        raw = file.values
        try:
            resolved = resolve_like_a_connector(raw)
        except ProviderProblem as problem:
            raise file.error(problem.key, problem.message) from problem
        config, mistakes = cls(file, resolved), Mistakes()
        for name in MIRROR_MAKER:
            with mistakes.noted():
                config.top_level(name)
        mistakes.refuse()
        return config

    def top_level(self, name: str) -> Any:
        """Return the value of a key of the top level.

        Raises
        ------
        ConfigError
            for a value that cannot be used, or a required key that is missing.
        """
        try:
            return MIRROR_MAKER[name].value(self.resolved)
        except BadValue as problem:
            raise self.file.error(name, str(problem)) from problem

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return the cluster aliases in the order of the file; duplicates collapse (CFG-070)."""
        return tuple(dict.fromkeys(self.top_level("clusters")))

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Return every pair whose flow is enabled, or whose heartbeats are (CFG-075, DED-07)."""
        everywhere = self._is_true("emit.heartbeats.enabled", otherwise=True)
        return tuple(
            Flow(source, target)
            for source, target in permutations(self.clusters, 2)
            if self._is_true(f"{source}->{target}.enabled", otherwise=False)
            or self._is_true(f"{source}->{target}.emit.heartbeats.enabled", otherwise=everywhere)
        )

    def cluster(self, alias: str) -> dict[str, str]:
        """Return the properties of cluster ``alias``, placeholders in place (CFG-080).

        Connection and security settings are copied to the three kinds of clients where those do not say otherwise;
        after the cluster's own come those of the top level (CFG-074).
        """
        values = self._with_prefix_taken_off(f"{alias}.")
        for layer in (dict(values), self.file.values):
            for key in sorted(CLIENT_KEYS & layer.keys()):
                for client in _CLIENTS:
                    values.setdefault(f"{client}.{key}", layer[key])
                values.setdefault(key, layer[key])
        return values

    def worker(self, flow: Flow) -> dict[str, str]:
        """Return the settings of the Connect worker of ``flow``, placeholders replaced (CFG-077, CFG-081, DED-01..11).

        Raises
        ------
        ConfigError
            for a placeholder that cannot be read.
        """
        values = self.cluster(flow.target)
        for prefix in PASSED_TO_WORKERS:
            values |= self._with_prefix(prefix)
        values = self.replace_placeholders(values)
        values |= self._with_prefix(CONFIG_PROVIDERS)
        defaults = {
            "client.id": str(flow),
            "group.id": f"{flow.source}-mm2",
            "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
            "status.storage.topic": f"mm2-status.{flow.source}.internal",
            "config.storage.topic": f"mm2-configs.{flow.source}.internal",
            "key.converter": _BYTE_ARRAY_CONVERTER,
            "value.converter": _BYTE_ARRAY_CONVERTER,
            "header.converter": _BYTE_ARRAY_CONVERTER,
        }
        return defaults | values

    def engine(self, flow: Flow) -> dict[str, str]:
        """Return what only this engine reads for ``flow``: of the top level, and what the flow has differently."""
        own = {name: self.resolved.get(f"{flow}.{name}") for name in ENGINE_OF_A_FLOW | RETENTION}
        return {**self.resolved, **{name: value for name, value in own.items() if value is not None}}

    def connector(self, flow: Flow, connector: Connector) -> dict[str, str]:
        """Return the settings of one connector of ``flow``, placeholders in place (CFG-103)."""
        values = {key: value for key, value in self.file.values.items() if key in CONNECTOR_KEYS}
        values |= self._with_prefix(CONFIG_PROVIDERS)
        values |= self._with_prefix("replication.policy")
        for end, alias in (("source", flow.source), ("target", flow.target)):
            for key, value in self.cluster(alias).items():
                values[f"{end}.{key}" if key.startswith(_CLIENTS) else f"{end}.cluster.{key}"] = value
        values.setdefault("name", connector.value)
        values.setdefault("connector.class", f"{_CONNECTOR_PACKAGE}.{connector}")
        values.setdefault("source.cluster.alias", flow.source)
        values.setdefault("target.cluster.alias", flow.target)
        values |= self._with_prefix_taken_off(f"{flow}.")
        values.setdefault("enabled", "false")
        return values

    def key_of(self, flow: Flow, name: str, value: str | None) -> str:
        """Return the key of the file that gives ``flow`` the setting ``name`` its value; ``name`` if there is none."""
        forms = [form for form in (f"{flow}.{name}", name, f"{flow.target}.{name}") if form in self.resolved]
        return next((form for form in forms if self.resolved[form] == value), forms[0] if forms else name)

    def replace_placeholders(self, values: Mapping[str, str]) -> dict[str, str]:
        """Replace the placeholders in ``values`` as the worker does (CFG-102).

        Raises
        ------
        ConfigError
            for a provider or placeholder that is not available.
        """
        try:
            return replace_placeholders(values, providers(self.top_level(CONFIG_PROVIDERS), self.resolved))
        except ProviderProblem as problem:
            raise self.file.error(problem.key, problem.message) from problem

    def _is_true(self, key: str, *, otherwise: bool) -> bool:
        """Read a switch as strictly as the driver does: anything but ``true`` is false (CFG-075)."""
        return self.resolved[key].lower() == "true" if key in self.resolved else otherwise

    def _with_prefix(self, prefix: str) -> dict[str, str]:
        return {key: value for key, value in self.file.values.items() if key.startswith(prefix)}

    def _with_prefix_taken_off(self, prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): value for key, value in self._with_prefix(prefix).items() if key != prefix}


def resolve_like_a_connector(values: Mapping[str, str]) -> dict[str, str]:
    """Replace the placeholders in ``values`` by the providers these very values name.

    Java takes the names as they stand between the commas here: after ``a, b`` there is no provider ``b``. (Workers
    trim the names.)

    Raises
    ------
    ProviderProblem
        for a provider or placeholder that is not available.
    """
    return replace_placeholders(values, providers(values.get(CONFIG_PROVIDERS, "").split(","), values))
