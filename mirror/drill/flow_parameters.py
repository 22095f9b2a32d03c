"""What every runbook of a flow takes: one's own properties file, or practice clusters made for the run."""

from mirror.drill.conditions import ApplicationsOfFile, FlowOfFile, GroupPattern
from mirror.drill.runbook import Parameter

__all__ = ["FAILBACK", "FLOW", "FLOW_CONDITIONS", "MIGRATION_CONDITIONS", "MOVE", "MOVE_CONDITIONS"]

_FLOW = FlowOfFile("properties_file", "flow", "practice")

FLOW = (
    Parameter("properties_file", "", "", "the mirror's properties file, by its whole path"),
    Parameter("flow", "", "", "the flow, written east->west; not needed where the file has only one"),
    Parameter("practice", False, "", "make two practice clusters, applications and a mirror, and run on those"),
)
FLOW_CONDITIONS = (_FLOW,)

MOVE = (
    *FLOW,
    Parameter("groups", ".*", "", "regular expression: groups whose whole id matches are moved"),
    Parameter(
        "applications", "", "", "TOML file of commands that stop, start and probe the applications, by its whole path"
    ),
)
"""Of those that move applications."""
FAILBACK = (
    *MOVE,
    Parameter(
        "make_anew",
        False,
        "",
        "copies with the source's offsets, unchanged names: save what the standby lacks, make these topics anew",
    ),
    Parameter(
        "leave_behind",
        False,
        "",
        "save what others have written into copies on the standby, which no flow copies back, and go on",
    ),
)
"""Of the failback."""
MOVE_CONDITIONS = (*FLOW_CONDITIONS, GroupPattern("groups"), ApplicationsOfFile("applications", _FLOW))
_STARTS = ("start_group", "start_producers")
# On the old cluster a part that fails is started again.
_MOVES_PARTS = ApplicationsOfFile("applications", _FLOW, ("stop_group", "stop_producers", *_STARTS), _STARTS)
MIGRATION_CONDITIONS = (*FLOW_CONDITIONS, GroupPattern("groups"), _MOVES_PARTS)
"""Of the one that moves groups and producers by themselves."""
