"""Keys that nobody reads and that look like a known one written wrongly, or like those of a cluster that is not there.

MirrorMaker 2 takes any key, silently: below a flow or a cluster it may be a plugin's (CFG-090), elsewhere it has no
effect (CFG-078). So a key is refused only if it is nearly the name of a known one, below a flow that has no classes of
its own; whatever else nobody here reads is reported, with what may have been meant.

Invariants:

(a) Java takes any key: below a flow it may be a plugin's. Only a near miss of a known name, where there is no plugin
    of one's own, is refused (``config/misspelt.py``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mirror.config.connector_keys import CONNECTOR_KEYS
from mirror.config.definition import own_class
from mirror.config.definitions import CLIENT_KEYS, EXACTLY_ONCE, FILTERS, MIRROR_MAKER, OLD_EXCLUDES, RETENTION, WORKER
from mirror.config.engine_keys import ENGINE, ENGINE_OF_A_FLOW
from mirror.config.mirror_maker import PASSED_TO_WORKERS, MirrorMakerConfig
from mirror.config.providers import CONFIG_PROVIDERS
from mirror.config.transforms import keys_of_predicate, keys_of_transform
from mirror.config.worker_keys import CLIENT_ONLY_KEYS, WORKER_KEYS
from mirror.model.flow import Flow
from mirror.model.patterns import parse_list

# Below it two names have little in common: "group.id" and "groups" come to 0.71, "topic" and "topics" to 0.91.
_ALIKE = 0.8
# Short, and nothing is refused for them: "eats" and "east" come to 0.75.
_ALIKE_ALIASES = 0.7
# Of the hundreds of keys of workers and clients many are nearly another one; what is less alike is reported, not
# refused.
_ALIKE_OF_A_CLUSTER = 0.9
_MOST_MEANT = 3
_OF_PLUGINS = (
    *("topic.filter.class", "group.filter.class", "config.property.filter.class", "replication.policy.class"),
    *("forwarding.admin.class", "metric.reporters"),
)
_CLIENTS = ("producer.", "consumer.", "admin.")
_CLIENT_OF_A_FLOW = re.compile(r"(?:source\.|target\.)?(?:producer|consumer|admin)\.(?:override\.)?")
_CONVERTERS = ("key.converter.", "value.converter.", "header.converter.")
_POLICY = "replication.policy."
_OPEN_TO_A_FLOW = (
    *_CLIENTS,
    *(f"{end}.{part}" for end in ("source", "target") for part in ("cluster.", *_CLIENTS)),
    *("topic.creation.", "mirror.", CONFIG_PROVIDERS, *_CONVERTERS),
)
_OPEN_TO_A_CLUSTER = (
    *(*_CLIENTS, CONFIG_PROVIDERS, *_CONVERTERS, "listeners.", "metrics.context."),
    *("offset.storage.", "config.storage.", "status.storage."),
)
_OPEN_AT_THE_TOP = (
    *(*PASSED_TO_WORKERS, CONFIG_PROVIDERS, "mirror.", *_CLIENTS),
    *("rest.", "listeners.", "access.control.", "response.http.", "transforms.", "predicates.", "topic.creation."),
)
# Of producers, consumers and admin clients; who reads other keys there is a class of one's own.
_OF_A_CLIENT = WORKER_KEYS | CLIENT_ONLY_KEYS | CLIENT_KEYS
_OF_A_FLOW = frozenset(
    {
        *CONNECTOR_KEYS, *FILTERS, *RETENTION, *EXACTLY_ONCE, *ENGINE_OF_A_FLOW, *OLD_EXCLUDES.values(),
        *("offsets.storage.topic", "use.incremental.alter.configs", "add.source.alias.to.metrics"),
    }
)  # fmt: skip
_OF_THE_TOP = frozenset({*CONNECTOR_KEYS, *MIRROR_MAKER, *RETENTION, *ENGINE, *FILTERS, *CLIENT_KEYS})


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
        if (cut := _cut_flow(config, key)) is not None:
            found = cut
        elif flow is not None:
            found = _below_flow(config, flow, key)
        elif "->" in key:
            found = _of_no_flow(key, flows)
        elif alias is not None:
            found = _below_cluster(key, alias)
        elif key not in _OF_THE_TOP:
            found = _at_the_top(config, flows, key)
        if found is not None:
            yield found


def nearest(name: str, known: Iterable[str], alike: float = _ALIKE) -> str | None:
    """Return the name among ``known`` that ``name`` is most like, None if it is like none."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=alike)), None)


def _cut_flow(config: MirrorMakerConfig, key: str) -> Misspelt | None:
    """Return that a key is the beginning of a flow's, ``A -> B.topics``: Java ends a key at a blank or ``=``."""
    source, arrow = (key.removesuffix("->"), "") if key.endswith("->") else (key, "-?>")
    rest = re.match(rf"{arrow}\s*([^\s=:]+\.[a-z.]+)", config.resolved[key])
    is_alias = source in config.clusters or not ("." in source or source in _OF_THE_TOP)
    if rest is None or not is_alias or "->" in source:
        return None
    message = f"a blank or sign ends the key here, so that it is of no flow; write {source}->{rest[1]} without blanks"
    return Misspelt(key, message, is_refused=True)


def _below_flow(config: MirrorMakerConfig, flow: Flow, key: str) -> Misspelt | None:
    name = key.removeprefix(f"{flow}.")
    client = _CLIENT_OF_A_FLOW.match(name)
    if client is not None:
        return _of_a_client(f"{flow}.{client[0]}", key)
    if name in _OF_A_FLOW or name.startswith(_OPEN_TO_A_FLOW):
        return None
    has_plugins = _has_plugins(config, flow)
    if name.startswith(_POLICY) and has_plugins:
        return None
    for kind, keys_of in (("transforms", keys_of_transform), ("predicates", keys_of_predicate)):
        if name.startswith(f"{kind}."):
            return _below_chain(config, flow, key, kind, keys_of)
    if name in WORKER_KEYS:
        # Spelt as it should be, so that no other key is meant, however alike.
        own = ", unless a class of one's own reads it" if has_plugins else ""
        message = (
            f"has no effect below a flow, as in MirrorMaker 2{own}: it is the worker's; write {flow.target}.{name}"
        )
        return Misspelt(key, message)
    near = nearest(name, _OF_A_FLOW)
    if near is None:
        return Misspelt(key, _without_effect(f"{flow}.", name, _OF_A_FLOW))
    return Misspelt(key, f"there is no such key; did you mean {flow}.{near}?", not has_plugins)


def _below_chain(
    config: MirrorMakerConfig, flow: Flow, key: str, kind: str, keys_of: Callable[[str], frozenset[str]]
) -> Misspelt | None:
    """Look at a key of a transform or predicate, which are read of those that are named in the list of their kind."""
    forms = (f"{flow}.{kind}", kind)
    listed = parse_list(next((config.resolved[form] for form in forms if form in config.resolved), ""))
    alias = max((each for each in listed if key.startswith(f"{flow}.{kind}.{each}.")), key=len, default=None)
    if alias is None:
        there = f"there are {', '.join(listed)}" if listed else "there is none"
        return Misspelt(key, f"has no effect: it is of none of those that {flow}.{kind} names; {there}")
    prefix = f"{flow}.{kind}.{alias}."
    known, name = keys_of(config.resolved.get(f"{prefix}type", "")), key.removeprefix(prefix)
    if name in known:
        return None
    near = nearest(name, known)
    if near is not None:
        return Misspelt(key, f"there is no such key; did you mean {prefix}{near}?", is_refused=True)
    return Misspelt(key, f"is not a key that is read here; {prefix[:-1]} has {', '.join(sorted(known))}")


def _has_plugins(config: MirrorMakerConfig, flow: Flow) -> bool:
    """Tell whether a class of one's own could read keys that nobody else knows."""
    given = (config.resolved.get(form, "") for name in _OF_PLUGINS for form in (f"{flow}.{name}", name))
    return any(own_class(value.strip()) is not None for value in given)


def _of_no_flow(key: str, flows: list[Flow]) -> Misspelt:
    for flow in flows:
        rest = key.removeprefix(str(flow))
        if rest[1:] in _OF_A_FLOW and rest[0] in ",;/":
            return Misspelt(key, f"a dot ends the flow; did you mean {flow}.{rest[1:]}?", is_refused=True)
    prefix, _, name = key.partition("->")
    target = name.partition(".")[0]
    near = nearest(f"{prefix}->{target}", map(str, flows), _ALIKE_ALIASES)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(map(str, flows)) or 'no flows'}"
    return Misspelt(key, f"has no effect: {prefix}->{target} is not a flow between these clusters; {hint}")


def _below_cluster(key: str, alias: str) -> Misspelt | None:
    name = key.removeprefix(f"{alias}.")
    if name.startswith(_CLIENTS):
        return _of_a_client(f"{alias}.{name.partition('.')[0]}.", key)
    if name in WORKER_KEYS | CLIENT_KEYS or name.startswith(_OPEN_TO_A_CLUSTER):
        return None
    if name in CLIENT_ONLY_KEYS:
        forms = " or ".join(f"{alias}.{client}{name}" for client in _CLIENTS[:2])
        return Misspelt(key, f"is for the worker's own topics alone, as in MirrorMaker 2; for the copy write {forms}")
    if name in CONNECTOR_KEYS:
        return Misspelt(key, f"has no effect below a cluster; write it for a flow, A->{alias}.{name}")
    read = {*CLIENT_KEYS, *WORKER}
    near = nearest(name, read, _ALIKE_OF_A_CLUSTER)
    if near is None:
        return Misspelt(key, _without_effect(f"{alias}.", name, read))
    return Misspelt(key, f"there is no such key; did you mean {alias}.{near}?", is_refused=True)


def _of_a_client(prefix: str, key: str) -> Misspelt | None:
    """Look at a key of a client: those know hundreds, and take any, as Kafka's do with a warning."""
    name = key.removeprefix(prefix)
    if name in _OF_A_CLIENT:
        return None
    near = nearest(name, sorted(_OF_A_CLIENT))
    hint = f"; did you mean {prefix}{near}?" if near else ""
    return Misspelt(key, f"has no effect: Kafka's clients have no {name}{hint}")


def _without_effect(prefix: str, name: str, known: Iterable[str]) -> str:
    """Say that a key is not read, and what of ``known`` is like it, or has it as its beginning or end."""
    known = sorted(known)
    near = nearest(name, known)
    meant = [each for each in known if each == near or each.startswith(f"{name}.") or each.endswith(f".{name}")]
    hint = f"; did you mean {' or '.join(f'{prefix}{each}' for each in meant[:_MOST_MEANT])}?" if meant else ""
    return f"is not a key that is read here, though a class of one's own may read it{hint}"


def _at_the_top(config: MirrorMakerConfig, flows: list[Flow], key: str) -> Misspelt | None:
    aliases = config.clusters
    if key.startswith(_POLICY):
        if any(_has_plugins(config, flow) for flow in flows):
            return None
        near = nearest(key, _OF_THE_TOP)
        if near is None:
            return Misspelt(key, _without_effect("", key, _OF_THE_TOP))
        return Misspelt(key, f"there is no such key; did you mean {near}?", is_refused=True)
    if key.startswith(_OPEN_AT_THE_TOP) or key in WORKER_KEYS:
        return None
    alias, _, name = key.partition(".")
    if name in CLIENT_KEYS or name.startswith(_CLIENTS):
        near = nearest(alias, aliases, _ALIKE_ALIASES)
        hint = f"did you mean {near}.{name}?" if near else f"there are {', '.join(aliases)}"
        return Misspelt(key, f"has no effect: {alias} is not among clusters; {hint}")
    near = nearest(key, _OF_THE_TOP)
    return Misspelt(key, f"there is no such key; did you mean {near}?", True) if near is not None else None
