"""What has changed in a file that an engine runs by: what it takes in while it runs, and what needs a restart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mirror.config.connector_keys import CONNECTORS
from mirror.config.definitions import FILTERS, OLD_EXCLUDES
from mirror.config.engine_keys import ENGINE, ENGINE_ALONE
from mirror.config.explained import Effect, explain
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.settings import FlowSettings, MirrorSettings

_LIVE: Final = [each for keys in (*CONNECTORS.values(), FILTERS, ENGINE) for each in keys.values() if each.live]
LIVE: Final = frozenset(name for each in _LIVE for name in (each.name, OLD_EXCLUDES.get(each.name, each.name)))
"""The keys that are taken in, without the flow before them."""
_OF_THE_ENGINE: Final = {each.field.partition(".")[0] for each in _LIVE if each.name in ENGINE_ALONE}
_OF_A_FLOW: Final = {
    *(each.field.partition(".")[0] for each in _LIVE if each.field and each.name not in ENGINE_ALONE),
    *(field for each in _LIVE for field in each.shapes),
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
    engine = replace(running.engine, **{name: getattr(new.engine, name) for name in _OF_THE_ENGINE})
    return replace(running, flows=flows, engine=engine, ignored=new.ignored)


def _in_effect(running: FlowSettings, new: FlowSettings | None) -> FlowSettings:
    if new is None:
        return running
    return replace(running, **{name: getattr(new, name) for name in _OF_A_FLOW})


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
            can_be_taken = is_of_running and not is_read_otherwise and entry.name in LIVE
            (taken if can_be_taken else waiting).add(Changed(now.file.line_of(entry.key), entry.key))
    return _in_order(taken), _in_order(waiting)


def _in_order(found: set[Changed]) -> list[Changed]:
    return sorted(found, key=lambda each: (each.line is None, each.line or 0, each.key))
