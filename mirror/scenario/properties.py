"""The replicator's file: an ordinary ``connect-mirror-maker.properties``, the same for whoever copies."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.lab import mm2
from mirror.scenario.declaration import Scenario

# What takes minutes by default takes seconds, for both: a scenario lasts half a minute.
_EAGER = {
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "2",
    "refresh.topics.interval.seconds": "2",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "tasks.max": "2",
}


def properties_text(scenario: Scenario, servers: Mapping[str, str]) -> str:
    """Return the text of the file; ``servers`` are the addresses to be used, by alias."""
    factor = min(3, *(site.brokers for site in scenario.sites), 3)
    lines = {"clusters": ", ".join(site.alias for site in scenario.sites)}
    lines |= {f"{alias}.bootstrap.servers": address for alias, address in servers.items()}
    lines |= {f"{flow}.enabled": "true" for flow in scenario.flows}
    lines |= {"topics": ".*", "groups": ", ".join(group.name for group in scenario.groups) or ".*"}
    lines |= dict.fromkeys(mm2.REPLICATION_FACTORS, str(factor))
    lines |= _EAGER | dict(scenario.properties)
    head = f"# The scenario {scenario.name}. Java MirrorMaker 2 runs from this file as it is.\n"
    return head + "".join(f"{key} = {value}\n" for key, value in lines.items())
