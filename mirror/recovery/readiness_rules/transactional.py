"""Which transactions of the source are those of applications."""

from __future__ import annotations

import re

from mirror.recovery.readiness_facts import Facts, seen

# Of an engine without transactions (ADR 8), and of one with them, whose ids are those of MirrorMaker's tasks (EOS-04).
_MIRRORS = re.compile(r"mm2-state\..+|.+-Mirror(Source|Checkpoint|Heartbeat)Connector-\d+")


def applications_transactions(facts: Facts) -> dict[str, str]:
    """Return the transactional ids of applications on the source, with their states."""
    known = seen(seen(facts.source).transactions)
    return {name: state for name, state in known.items() if not _MIRRORS.fullmatch(name)}
