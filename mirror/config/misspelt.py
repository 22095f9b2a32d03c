"""Keys that nobody reads and that look like a known one written wrongly, or like those of a cluster that is not there.

MirrorMaker 2 takes any key, silently: below a flow or a cluster it may be a plugin's (CFG-090), elsewhere it has no
effect (CFG-078). So a key is refused only if it is nearly the name of a known one, below a flow that has no classes of
its own; whatever else nobody here reads is told, with what may have been meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirror.config.definitions import (
    CLIENT_KEYS,
    CONNECTOR_KEYS,
    ENGINE,
    ENGINE_OF_A_FLOW,
    EXACTLY_ONCE,
    FILTERS,
    MIRROR_MAKER,
    OLD_EXCLUDES,
    RETENTION,
    WORKER,
    own_class,
)
from mirror.config.mirror_maker import PASSED_TO_WORKERS, MirrorMakerConfig
from mirror.config.providers import CONFIG_PROVIDERS
from mirror.model.flow import Flow

# Below it two names have little in common: "group.id" and "groups" come to 0.71, "topic" and "topics" to 0.91.
_ALIKE = 0.8
# Short, and nothing is refused for them: "eats" and "east" come to 0.75.
_ALIKE_ALIASES = 0.7
# Workers and clients have hundreds of keys that are not known here.
_ALIKE_OF_A_CLUSTER = 0.9
_OF_PLUGINS = (
    *("topic.filter.class", "group.filter.class", "config.property.filter.class", "replication.policy.class"),
    *("forwarding.admin.class", "metric.reporters"),
)
_CLIENTS = ("producer.", "consumer.", "admin.")
_OPEN_TO_A_FLOW = (
    *_CLIENTS,
    *("source.", "target.", "transforms.", "predicates.", "topic.creation.", "mirror."),
    *(CONFIG_PROVIDERS, "replication.policy.", "key.converter.", "value.converter.", "header.converter."),
)
_OPEN_AT_THE_TOP = (
    *(*PASSED_TO_WORKERS, CONFIG_PROVIDERS, "mirror.", *_CLIENTS),
    *("rest.", "listeners.", "access.control.", "response.http.", "transforms.", "predicates.", "topic.creation."),
)
_OF_A_FLOW = frozenset(
    {
        *CONNECTOR_KEYS, *FILTERS, *RETENTION, *EXACTLY_ONCE, *ENGINE_OF_A_FLOW, *OLD_EXCLUDES.values(),
        *("offsets.storage.topic", "use.incremental.alter.configs", "add.source.alias.to.metrics"),
    }
)  # fmt: skip
_OF_THE_TOP = frozenset({*CONNECTOR_KEYS, *MIRROR_MAKER, *RETENTION, *ENGINE, *FILTERS, *CLIENT_KEYS})
# Other settings of Connect's workers that come near to a name above.
_OTHER_WORKER_KEYS = frozenset(
    {
        "admin.listeners",
        "client.id",
        "group.id",
        "metrics.num.samples",
        "plugin.path",
        "retry.backoff.ms",
        "tasks.max.ms",
    }
)


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A key that nobody reads, what is to be said of it, and whether the file is refused for it."""

    key: str
    message: str
    is_refused: bool = False


def misspelt(config: MirrorMakerConfig) -> Iterator[Misspelt]:
    """Yield the keys of a file that nobody reads and that may have been meant otherwise, in their order."""
    aliases = config.clusters
    flows = [Flow(source, target) for source in aliases for target in aliases if source != target]
    for key in dict.fromkeys(entry.key for entry in config.file.entries):
        flow = next((each for each in flows if key.startswith(f"{each}.")), None)
        alias = next((each for each in aliases if key.startswith(f"{each}.")), None)
        found = None
        if flow is not None:
            found = _below_flow(config, flow, key)
        elif "->" in key:
            found = _of_no_flow(key, flows)
        elif alias is not None:
            found = _below_cluster(key, alias)
        elif key not in _OF_THE_TOP:
            found = _at_the_top(key, aliases)
        if found is not None:
            yield found


def nearest(name: str, known: Iterable[str], alike: float = _ALIKE) -> str | None:
    """Return the name among ``known`` that ``name`` is most like, None if it is like none."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=alike)), None)


def _below_flow(config: MirrorMakerConfig, flow: Flow, key: str) -> Misspelt | None:
    name = key.removeprefix(f"{flow}.")
    if name in _OF_A_FLOW or name.startswith(_OPEN_TO_A_FLOW):
        return None
    near = nearest(name, _OF_A_FLOW)
    if near is None:
        return Misspelt(key, "is not a key that is read here; a class of one's own may read it")
    return Misspelt(key, f"there is no such key; did you mean {flow}.{near}?", not _has_plugins(config, flow))


def _has_plugins(config: MirrorMakerConfig, flow: Flow) -> bool:
    """Tell whether a class of one's own could read keys that nobody else knows."""
    given = (config.resolved.get(form, "") for name in _OF_PLUGINS for form in (f"{flow}.{name}", name))
    return any(own_class(value.strip()) is not None for value in given)


def _of_no_flow(key: str, flows: list[Flow]) -> Misspelt:
    prefix, _, name = key.partition("->")
    target = name.partition(".")[0]
    near = nearest(f"{prefix}->{target}", map(str, flows), _ALIKE_ALIASES)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(map(str, flows)) or 'no flows'}"
    return Misspelt(key, f"has no effect: {prefix}->{target} is not a flow between these clusters; {hint}")


def _below_cluster(key: str, alias: str) -> Misspelt | None:
    name = key.removeprefix(f"{alias}.")
    if name in _OTHER_WORKER_KEYS | CLIENT_KEYS | WORKER.keys() or name.startswith((*_CLIENTS, *PASSED_TO_WORKERS)):
        return None
    if name in CONNECTOR_KEYS - CLIENT_KEYS - {"header.converter", "config.providers", "metric.reporters"}:
        return Misspelt(key, f"has no effect below a cluster; write it for a flow, A->{alias}.{name}")
    near = nearest(name, {*CLIENT_KEYS, *WORKER}, _ALIKE_OF_A_CLUSTER)
    return Misspelt(key, f"there is no such key; did you mean {alias}.{near}?", True) if near is not None else None


def _at_the_top(key: str, aliases: tuple[str, ...]) -> Misspelt | None:
    if key.startswith(_OPEN_AT_THE_TOP) or key in _OTHER_WORKER_KEYS | WORKER.keys():
        return None
    alias, _, name = key.partition(".")
    if name in CLIENT_KEYS or name.startswith(_CLIENTS):
        near = nearest(alias, aliases, _ALIKE_ALIASES)
        hint = f"did you mean {near}.{name}?" if near else f"there are {', '.join(aliases)}"
        return Misspelt(key, f"has no effect: {alias} is not among clusters; {hint}")
    near = nearest(key, _OF_THE_TOP)
    return Misspelt(key, f"there is no such key; did you mean {near}?", True) if near is not None else None
