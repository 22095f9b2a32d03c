"""Which logs a record belongs to: the one it was sent to, and every copy that flows make of it, over detours too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirror.config.settings import FlowSettings
from mirror.model.flow import Flow
from mirror.proof.delivery import Place, Route


@dataclass(frozen=True, slots=True)
class CopyRoute:
    """A route to a copy and the flows it leads over, in order."""

    route: Route
    over: tuple[Flow, ...]


def copy_routes(flows: Iterable[FlowSettings], sent: Iterable[Place]) -> tuple[CopyRoute, ...]:
    """Return the routes from the places that applications send to, to every copy.

    A copy of a copy is one where the flows let it through; no log is reached twice.
    """
    enabled = [flow for flow in flows if flow.enabled]
    found: list[CopyRoute] = []
    for place in dict.fromkeys(sent):
        reached = {place}
        waiting: list[tuple[Place, tuple[Flow, ...]]] = [(place, ())]
        while waiting:
            here, over = waiting.pop(0)
            for flow in enabled:
                if flow.flow.source != here.cluster or not flow.replicates(here.topic):
                    continue
                copy = Place(flow.flow.target, flow.copy_of(here.topic))
                if copy not in reached:
                    reached.add(copy)
                    found.append(CopyRoute(Route(place, copy), (*over, flow.flow)))
                    waiting.append((copy, (*over, flow.flow)))
    return tuple(found)


def names_on(cluster: str, topics: Sequence[str], routes: Iterable[CopyRoute], own: Iterable[Place]) -> list[str]:
    """Return the names under which records of these topics are to be found on a cluster: their own, and the copies'."""
    names = [place.topic for place in own if place.cluster == cluster and place.topic in topics]
    names += [
        each.route.kept.topic
        for each in routes
        if each.route.kept.cluster == cluster and each.route.sent.topic in topics
    ]
    return list(dict.fromkeys(names))
