"""How verdicts look in a terminal."""

from __future__ import annotations

from mirror.model.verdict import Verdict

VERDICT_STYLES = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.UNKNOWN: "bold yellow"}
"""Style of each verdict, in rich's words."""
