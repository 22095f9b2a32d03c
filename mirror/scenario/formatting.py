"""Figures in words, the same in the terminal, the report and the page."""

from __future__ import annotations

from mirror.evidence.statistics import Spread
from mirror.proof.findings import Era
from mirror.scenario.declaration import Replicator, Tolerated
from mirror.scenario.summary import Line

NOT_MEASURED = "-"
NAMES = {Replicator.MIRROR: "mirror", Replicator.MM2: "Java MM2"}
# The columns of `figures`.
FIGURES = ("wrong in the copies", "losses", "read again", "skipped", "RPO", "RTO")


def figures(line: Line) -> tuple[str, ...]:
    """Return what was measured, a cell for each of `FIGURES`."""
    return (
        anomalies(line),
        losses(line),
        read_again(line),
        skipped(line),
        spread(line.rpo_seconds, " s"),
        spread(line.rto_seconds, " s"),
    )


def links(line: Line) -> str:
    """Return how long each link of the recovery time took at the median; nothing where nobody failed over."""
    return ", ".join(f"{name} {found.median:,.1f} s" for name, found in line.rto_links)


def conditions(tolerated: Tolerated) -> str:
    """Return under which conditions an anomaly is tolerated, to be put behind its name."""
    messages = ["if the replicator says which"] if tolerated.if_told else []
    if tolerated.least_bytes:
        messages.append(f"of records of {tolerated.least_bytes:,} bytes or more")
    if tolerated.eras != frozenset(Era):
        messages.append(f"of records sent {' or '.join(era for era in Era if era in tolerated.eras)} the fault")
    if tolerated.cluster is not None:
        messages.append(f"on {tolerated.cluster}")
    return "".join(f", {each}" for each in messages)


def spread(found: Spread | None, unit: str = "", digits: int = 1) -> str:
    """Return a median, and where runs differ the smallest and the largest."""
    return NOT_MEASURED if found is None else found.describe(lambda value: f"{value:,.{digits}f}") + unit


def read_again(line: Line) -> str:
    """Return how many records groups were handed again, and what had been said of that."""
    return spread(line.redelivered, digits=0) + _forecast(line.forecast_redelivered, "up to ")


def skipped(line: Line) -> str:
    """Return how many records groups were not handed, and what had been said of that."""
    return spread(line.skipped, digits=0) + _forecast(line.forecast_skipped)


def _forecast(found: Spread | None, limit: str = "") -> str:
    return "" if found is None else f" (forecast: {limit}{spread(found, digits=0)})"


def anomalies(line: Line) -> str:
    """Return what is wrong in the copies, by kind."""
    return ", ".join(f"{count:,} {name}" for name, count in line.anomalies) or "none"


def losses(line: Line) -> str:
    """Return what is missing for good, and whether somebody said so."""
    messages = [f"{line.silent:,} silent"] if line.silent else []
    messages += [f"{line.told:,} told"] if line.told else []
    return ", ".join(messages) or "none"


def verdict(line: Line) -> str:
    """Return the verdict and, where there were several runs, in how many of them it was the one to have."""
    found = share(line)
    return f"{line.verdict.value} ({found})" if found else line.verdict.value


def share(line: Line) -> str:
    """Return in how many of several runs the verdict was the one to have; nothing of a single run."""
    found = line.as_expected
    if line.runs == 1 or found is None:
        return ""
    return f"{round(found.value * line.runs)}/{line.runs} as they should be, 95 % [{found.low:.2f}, {found.high:.2f}]"
