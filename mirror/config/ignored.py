"""What stands in a file and has no effect, or another than it looks like, as in MirrorMaker 2, which does not tell.

Keys of the wrong level (CFG-025, CFG-078), of the wrong producer (CFG-087, WANT-15), those that lose (CFG-086), and
misspelt ones (CFG-090), and logins that no protocol asks for.
"""

from __future__ import annotations

import regex

from mirror.config import first_position
from mirror.config.connector_keys import CONNECTOR_KEYS
from mirror.config.definitions import MIRROR_MAKER, OLD_EXCLUDES, RETENTION
from mirror.config.engine_keys import ENGINE
from mirror.config.mirror_maker import PASSED_TO_WORKERS, MirrorMakerConfig
from mirror.config.misspelt import misspelt
from mirror.config.private_keys import broken_keys
from mirror.config.properties import PropertiesFile
from mirror.config.providers import CONFIG_PROVIDERS
from mirror.config.unused_security import unused_security
from mirror.model.flow import Flow
from mirror.model.topics import Generation

#: Why lines of a private key are keys of the file.
NOT_OF_THE_KEY = (
    "the lines behind it are read as keys of their own; end each line of a private key but the last with \\n\\"
)
_GENERATION = "mirror.compatibility"
_READ_PREFIXES = (
    *(CONFIG_PROVIDERS, "replication.policy", "mirror.", *PASSED_TO_WORKERS),
    *("rest.", "listeners", "access.control.", "response.http.", "admin.listeners"),
)
_OF_A_FLOW = ("use.defaults.from", "transforms.", "predicates.", "transaction.boundary", "exactly.once.support")
_OLD_NAMES = {old: new for new, old in OLD_EXCLUDES.items()}
_GONE = ("use.incremental.alter.configs", "add.source.alias.to.metrics")
_CLIENT = regex.compile(r"(producer|consumer|admin)\..+")
_SYNCS_PRODUCER = regex.compile(r"(source\.|target\.)?producer\.(?!override\.)(?<name>.+)")
_CONSUMER = regex.compile(r"consumer\.(?<name>.+)")


def ignored(config: MirrorMakerConfig) -> tuple[str, ...]:
    """Return a line for people for each entry that a later one overrules, and for each such key."""
    file = config.file
    last, broken = {entry.key: entry for entry in file.entries}, broken_keys(file.entries)
    return (
        *broken_key_messages(file),
        *(
            f"{file.path}:{each.line}: {each.key} has no effect: line {last[each.key].line} gives it another value"
            for each in file.entries
            if each.value != last[each.key].value and each.line not in broken
        ),
        *(f"{file.path}:{file.line_of(key)}: {key} {why}" for key, why in ignored_keys(config).items()),
    )


def broken_key_messages(file: PropertiesFile) -> tuple[str, ...]:
    """Return a line for people for each private key whose lines are keys of the file."""
    begun = dict.fromkeys(broken_keys(file.entries).values())
    return tuple(f"{file.path}:{line}: the private key ends with that line: {NOT_OF_THE_KEY}" for line in begun)


def ignored_keys(config: MirrorMakerConfig) -> dict[str, str]:
    """Return what is to be said of each such key, in the order of the file; nothing of what is secret itself."""
    aliases = config.clusters
    flows = [Flow(source, target) for source in aliases for target in aliases if source != target]
    found = {}
    without_effect = dict(unused_security(config)) | {each.key: each.message for each in misspelt(config)}
    broken = broken_keys(config.file.entries)
    for key in dict.fromkeys(entry.key for entry in config.file.entries if entry.line not in broken):
        flow = next((each for each in flows if key.startswith(f"{each}.")), None)
        name = key.removeprefix(f"{flow}.")
        message: str | None
        if key in without_effect:
            message = without_effect[key]
        elif name in _OLD_NAMES:
            if ENGINE[_GENERATION].value(config.resolved) == Generation.V3_9.value:
                continue
            message = (
                f"has no effect, as in MirrorMaker 2 since 4.0; write {_OLD_NAMES[name]}, or set "
                f"{_GENERATION} = {Generation.V3_9.value}"
            )
        elif _is_duration(config, key):
            message = "counts as earliest here: a partition without a position begins at its start"
        elif name in _GONE:
            message = "has no effect, as in MirrorMaker 2 since 4.0; remove it"
        elif flow is not None:
            message = _of_a_flow(config, flow, name)
        elif "->" in key or any(key.startswith(f"{alias}.") for alias in aliases) or _is_read(key):
            continue
        else:
            message = f"has no effect at the top level, as in MirrorMaker 2; write it for {_owner(key, flows)}"
        if message is not None:
            found[key] = message
    return found


def _is_read(key: str) -> bool:
    known = key in CONNECTOR_KEYS or key in MIRROR_MAKER or key in ENGINE or key in RETENTION
    return known or key == "bootstrap.servers" or key.startswith(_READ_PREFIXES)


def _of_a_flow(config: MirrorMakerConfig, flow: Flow, name: str) -> str | None:
    syncs = _SYNCS_PRODUCER.fullmatch(name)
    if syncs:
        return (
            "is for the producer of offset syncs alone, as in MirrorMaker 2; for the one of the records write "
            f"{flow}.producer.override.{syncs['name']}"
        )
    consumer = _CONSUMER.fullmatch(name)
    values, wins = config.file.values, f"{flow.source}.{name}"
    if consumer and wins in values and values[wins] != values[f"{flow}.{name}"]:
        return f"loses to {wins}, as in MirrorMaker 2; to win write {flow}.source.{name}"
    return None


def _is_duration(config: MirrorMakerConfig, key: str) -> bool:
    """Whether it says that a consumer begins some time before now, which is not done here."""
    is_of_a_consumer = key.endswith(f"consumer.{first_position.KEY}")
    return is_of_a_consumer and config.resolved[key].strip().startswith(first_position.BY_DURATION)


def _owner(key: str, flows: list[Flow]) -> str:
    """Say where the key would be read, by the first flow there could be."""
    flow = flows[0] if flows else Flow("A", "B")
    if key.startswith(_OF_A_FLOW):
        return f"a flow: {flow}.{key}"
    if _CLIENT.fullmatch(key):
        return f"a cluster: {flow.target}.{key}"
    return f"the cluster or flow that it is about: {flow.target}.{key}, or {flow}.{key}"
