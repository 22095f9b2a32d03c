"""What has changed in a file that an engine runs by: what it takes in while it runs, and what needs a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mirror.config.definitions import OLD_EXCLUDES
from mirror.config.engine_keys import ENGINE
from mirror.config.explained import Effect, explain
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.settings import FlowSettings, MirrorSettings

_SELECTION = ("topic_filter",)
_CONFIGS = ("config_property_filter",)
_GROUPS = ("group_filter",)
_DISCOVERY = ("refresh_topics", "refresh_topics_interval_seconds", "discovery_seconds")
_SWITCHES: Final = (
    *("refresh.groups", "sync.group.offsets", "sync.topic.configs", "sync.topic.acls", "emit.checkpoints"),
    "emit.heartbeats",
)

# What control plane and epochs look up each time they begin anew; by key, without the flow before it. All else is held
# on to by somebody: connections, producers, Spark, records of the state topic.
OF_A_FLOW: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("topics", "topics.exclude", OLD_EXCLUDES["topics.exclude"], "topic.filter.class"), _SELECTION),
    **dict.fromkeys(("groups", "groups.exclude", OLD_EXCLUDES["groups.exclude"], "group.filter.class"), _GROUPS),
    **dict.fromkeys(
        (
            *("config.properties.exclude", OLD_EXCLUDES["config.properties.exclude"]),
            *("config.property.filter.class", "use.defaults.from"),
        ),
        _CONFIGS,
    ),
    **dict.fromkeys(
        ("refresh.topics.enabled", "refresh.topics.interval.seconds", "mirror.discovery.seconds"), _DISCOVERY
    ),
    **{f"{name}.interval.seconds": (f"{name.replace('.', '_')}_interval_seconds",) for name in _SWITCHES},
    # A flow that is off runs for its heartbeats alone: whether there is one goes by their switch.
    **{f"{name}.enabled": (name.replace(".", "_"),) for name in _SWITCHES if name != "emit.heartbeats"},
    "heartbeats.replication.enabled": ("heartbeats_replication",),
    "metric.names.formats": ("source_metric_names", "checkpoint_metric_names"),
    "offset.lag.max": ("offset_lag_max",),
    "replication.factor": ("replication_factor",),
    **{name: ("acls",) for name in ENGINE if name.startswith("mirror.acls.")},
}
OF_THE_ENGINE: Final[Mapping[str, str]] = {
    "mirror.commit.interval.ms": "commit_interval_seconds",
    "mirror.discovery.seconds": "discovery_seconds",
    "mirror.epoch.seconds": "epoch_seconds",
    "mirror.status.cliff.seconds": "cliff_seconds",
}


@dataclass(frozen=True, slots=True)
class Changed:
    """A key whose value is another one; ``line`` is where it stands now, None: no more."""

    line: int | None
    key: str

    def __str__(self) -> str:
        """Return the key and its place."""
        return f"{self.key}, which is gone" if self.line is None else f"line {self.line}, {self.key}"


def in_effect(running: MirrorSettings, new: MirrorSettings) -> MirrorSettings:
    """Return the settings of an engine that has run by ``running`` and takes in what it can of ``new``."""
    if running.engine.generation is not new.engine.generation:
        # By which all the rest is read.
        return replace(running, ignored=new.ignored)
    flows = tuple(_in_effect(each, new.flow(each.flow)) for each in running.flows)
    engine = replace(running.engine, **{name: getattr(new.engine, name) for name in OF_THE_ENGINE.values()})
    return replace(running, flows=flows, engine=engine, ignored=new.ignored)


def _in_effect(running: FlowSettings, new: FlowSettings | None) -> FlowSettings:
    if new is None:
        return running
    names = {name for fields in OF_A_FLOW.values() for name in fields}
    return replace(running, **{name: getattr(new, name) for name in names})


def changed_keys(before: MirrorMakerConfig, now: MirrorMakerConfig) -> tuple[list[Changed], list[Changed]]:
    """Return which keys of a file say something else than before: those taken in, and those that need a restart.

    Both by their lines; what has no effect here is neither.
    """
    old, new = before.file.values, now.file.values
    is_other = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    is_read_otherwise = "mirror.compatibility" in is_other
    taken, waiting = set[Changed](), set[Changed]()
    known = {f"flow {flow}" for flow in before.flows if flow in now.flows}
    for config in (before, now):
        for entry in explain(config):
            if entry.key not in is_other or entry.effect is Effect.NONE:
                continue
            is_of_running = entry.scope in known or not entry.scope.startswith("flow ")
            can_be_taken = is_of_running and not is_read_otherwise and entry.name in {*OF_A_FLOW, *OF_THE_ENGINE}
            (taken if can_be_taken else waiting).add(Changed(now.file.line_of(entry.key), entry.key))
    return _in_order(taken), _in_order(waiting)


def _in_order(found: set[Changed]) -> list[Changed]:
    return sorted(found, key=lambda each: (each.line is None, each.line or 0, each.key))
