"""Groups that the filters of a flow leave out although they read its topics: nobody mirrors where they stand."""

from __future__ import annotations

from collections.abc import Callable

from mirror.config.settings import FlowSettings
from mirror.control.unknown_positions import GroupPositions
from mirror.kafka.answers import Found
from mirror.model.shadow import is_shadow

#: How consoles name their groups.
CONSOLE = "console-consumer-"


def is_of_tools(group: str) -> bool:
    """Tell whether a group is one of tools alone, which goes on nowhere: a console's, or that of a rehearsal."""
    return group.startswith(CONSOLE) or is_shadow(group)


def left_out_groups(
    read: GroupPositions, settings: FlowSettings, is_copied: Callable[[str], bool]
) -> Found[str, tuple[str, ...]]:
    """Return those of the groups that the flow leaves out, with the topics in which they have positions (CKP-01).

    Parameters
    ----------
    read
        where groups of the source stand; of whom it does not tell that is among the problems.
    is_copied
        says which topics of the source are meant: groups without a position in one of them are not returned.
    """
    found: Found[str, tuple[str, ...]] = Found()
    for group, positions in sorted(read.items()):
        topics = sorted({each.topic for each in (*positions, *positions.problems) if is_copied(each.topic)})
        if topics and not settings.group_filter.matches(group):
            found[group] = tuple(topics)
    found.problems |= {group: why for group, why in read.problems.items() if not settings.group_filter.matches(group)}
    return found
