"""Properties files of any flows, for tests that look at several at once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mirror.config.resolving import load
from mirror.config.settings import FlowSettings


def flows_of(*flows: str, more: str = "") -> tuple[FlowSettings, ...]:
    """Return the settings of these flows, enabled, of a file with more lines."""
    aliases = dict.fromkeys(alias for flow in flows for alias in flow.split("->"))
    lines = [f"clusters = {', '.join(aliases)}", *(f"{alias}.bootstrap.servers = {alias}:9092" for alias in aliases)]
    lines += [f"{flow}.enabled = true" for flow in flows]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "mirror.properties"
        file.write_text("\n".join([*lines, more]))
        found = {str(each.flow): each for each in load(file).flows}
    return tuple(found[flow] for flow in flows)
