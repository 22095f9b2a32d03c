"""What MirrorMaker 2 would run, or silently ignore, and this engine refuses before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator

import regex

from mirror.config.connector_keys import CONNECTOR_KEYS, Connector
from mirror.config.engine_keys import ENGINE, ENGINE_OF_A_FLOW
from mirror.config.errors import ConfigError, Mistakes
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.misspelt import misspelt, nearest
from mirror.config.secret_rules import HIDDEN
from mirror.config.secrets import shown
from mirror.model.flow import Flow
from mirror.model.patterns import parse_list

_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_ADDRESS = regex.compile(r"([0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")


def require_usable(config: MirrorMakerConfig) -> None:
    """Refuse a file that cannot be mirrored from.

    Raises
    ------
    ConfigError
        naming all that is wrong, with line and key.
    """
    mistakes, switches = Mistakes(), [*_unknown_keys(config), *_unknown_clusters(config)]
    # A switch that is misspelt, or of an unknown cluster, is why no flow is enabled.
    mistakes.note(switches or _without_flow(config))
    for alias in config.clusters:
        with mistakes.noted():
            mistakes.note(_wrong_addresses(config, alias))
    for flow in config.flows:
        mistakes.note(_given_aliases(config, flow))
        with mistakes.noted():
            mistakes.note(_unsupported(config, flow))
    mistakes.refuse()


def _unknown_keys(config: MirrorMakerConfig) -> Iterator[ConfigError]:
    """Yield keys that look like the engine's own and are none, unless a cluster is called so; and misspelt ones."""
    for entry in config.file.entries:
        if entry.key.startswith("mirror.") and entry.key not in ENGINE and "mirror" not in config.clusters:
            near = nearest(entry.key, ENGINE)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(ENGINE)}"
            yield config.file.error(entry.key, f"there is no such key; {hint}")
        for flow in config.flows:
            name = entry.key.removeprefix(f"{flow}.")
            if name != entry.key and name.startswith("mirror.") and name not in ENGINE_OF_A_FLOW:
                message = f"a flow has no such key of its own; there are {', '.join(sorted(ENGINE_OF_A_FLOW))}"
                yield config.file.error(entry.key, message)
    for each in misspelt(config):
        if each.is_refused:
            yield config.file.error(each.key, each.message)


def _unknown_clusters(config: MirrorMakerConfig) -> Iterator[ConfigError]:
    """Yield enabled flows of a cluster that is not listed; MirrorMaker 2 would never start them.

    Their other settings are left alone, as MirrorMaker 2 does: an alias may hold dots, so they may be anything.
    """
    known = ", ".join(config.clusters)
    for entry in config.file.entries:
        flow = _switched_flow(entry.key)
        if flow is None or config.resolved[entry.key].lower() != "true":
            continue
        for alias in (flow.source, flow.target):
            if alias not in config.clusters:
                message = f"the cluster {alias!r} is not among clusters ({known}); add it there or mend the name"
                yield config.file.error(entry.key, message)
        if flow.source == flow.target:
            yield config.file.error(entry.key, "a flow needs two clusters; name another source or target")


def _switched_flow(key: str) -> Flow | None:
    """Return the flow ``A->B`` if ``key`` is its switch ``A->B.enabled``, not that of something it does."""
    pair, dot, _ = key.rpartition(".enabled")
    if not dot or any(name != "enabled" and key.endswith(f".{name}") for name in CONNECTOR_KEYS):
        return None
    try:
        return Flow.parse(pair)
    except ValueError:
        return None


def _wrong_addresses(config: MirrorMakerConfig, alias: str) -> Iterator[ConfigError]:
    key = f"{alias}.bootstrap.servers"
    servers = parse_list(config.replace_placeholders(config.cluster(alias)).get("bootstrap.servers", ""))
    if not servers:
        place = key if config.file.line_of(key) is not None else "clusters"
        yield ConfigError(
            config.file.path,
            config.file.line_of(place),
            key,
            f"the cluster {alias!r} has no bootstrap servers; add {key} = HOST:PORT",
        )
    for server in servers:
        match = _ADDRESS.fullmatch(server)
        if match is None or not match[2] or not 0 <= int(match[3]) <= 65535:
            place = key if config.file.line_of(key) is not None else "bootstrap.servers"
            # Who logs in does not stand before an address here, but may well have been written there; and behind a
            # backslash too many comes what is in the next line.
            written = ",".join(servers)
            is_open = "@" not in written and shown(key, written) == written
            what = repr(server) if is_open else HIDDEN
            yield config.file.error(place, f"{what} is not an address; write HOST:PORT")


def _without_flow(config: MirrorMakerConfig) -> list[ConfigError]:
    """Return why no flow is enabled."""
    if any(config.connector(flow, Connector.SOURCE)["enabled"].strip().lower() == "true" for flow in config.flows):
        return []
    switches = [(entry.key, config.resolved[entry.key]) for entry in config.file.entries if _switched_flow(entry.key)]
    first, second = (*config.clusters, "A", "B")[:2]
    return [
        config.file.error(key, f"{value!r} is neither true nor false; write one of them")
        for key, value in switches
        if value.strip().lower() not in ("true", "false")
    ] or [config.file.error("clusters", f"no flow is enabled; add, for instance, {first}->{second}.enabled = true")]


def _given_aliases(config: MirrorMakerConfig, flow: Flow) -> Iterator[ConfigError]:
    values = config.connector(flow, Connector.SOURCE)
    for key, alias in (("source.cluster.alias", flow.source), ("target.cluster.alias", flow.target)):
        if values[key].strip() != alias:
            yield config.file.error(
                config.key_of(flow, key, values[key]), "an alias is given by clusters alone; remove the key"
            )


def _unsupported(config: MirrorMakerConfig, flow: Flow) -> Iterator[ConfigError]:
    """Yield converters other than of bytes (CFG-012): records are copied as they are here."""
    worker = config.worker(flow)
    for connector in Connector:
        values = config.replace_placeholders(config.connector(flow, connector))
        for key in _CONVERTERS:
            given = values.get(key, worker[key]).strip()
            if given != _BYTES:
                message = f"{given!r} would re-encode records; the only one here is {_BYTES}"
                yield config.file.error(config.key_of(flow, key, given), message)
