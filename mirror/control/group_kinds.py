"""Groups of kinds whose state no checkpoint holds (GOS-09): people are told that nothing of them reaches the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mirror.config.settings import FlowSettings
from mirror.kafka.cluster_model import GroupListing
from mirror.model.counts import first_of

_MOST_NAMED = 5


def unmirrored_groups(listed: Iterable[GroupListing], settings: FlowSettings) -> tuple[str, ...]:
    """Name the groups of a source that pass the group filter and are not mirrored for their kind, and say why."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in listed:
        if each.unmirrored_kind is not None and settings.group_filter.matches(each.group):
            found[each.unmirrored_kind].append(each.group)
    return tuple(
        f"{kind} match the flow's groups and are not mirrored: {first_of(sorted(groups), _MOST_NAMED)}; their state is "
        f"no position of a consumer, so no checkpoint holds it: set on {settings.flow.target} where they begin before "
        "their members start there"
        for kind, groups in sorted(found.items())
    )
