"""``docs/scenarios.md``: what each scenario shows and what was measured last, made from the scenarios and results.

Run as ``python -m mirror.scenario.page RESULTS PAGE``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mirror.scenario import words
from mirror.scenario.declaration import Scenario
from mirror.scenario.files import SCENARIOS
from mirror.scenario.series import read_results
from mirror.scenario.summary import Line, summarise

_HEAD = """\
# Scenarios

Made by `make scenarios` from the files in `scenarios/` and the results of the last series; not to be edited.

Every scenario runs for real: brokers, replicator and applications are processes, faults are signals, cut links, full
disks. Every record that an application sent is written down outside the clusters, every log is read to its end, and the
two are joined. The same seed decides the same plan for this engine and for Java MirrorMaker 2, which both run from the
same properties file. *Wrong in the copies* counts records that are lost, duplicated, reordered or altered there;
*stranded* ones are the tail that was not copied when the source died. A loss is *told* when the replicator itself names
the offsets, and *silent* when nobody does. *Read again* and *skipped* are records of groups.

"""
_COLUMNS = (
    "",
    "verdict",
    "runs",
    "acked",
    "wrong in the copies",
    "losses",
    "read again",
    "skipped",
    "RPO",
    "RTO",
)


def render(scenarios: Sequence[Scenario], lines: Sequence[Line]) -> str:
    """Return the page."""
    parts = [_HEAD]
    for scenario in scenarios:
        parts.append(f"## {scenario.name}\n\n{scenario.shows}\n\n")
        if scenario.must_fail:
            parts.append("It holds a defect on purpose: FAIL is the verdict it must have.\n\n")
        for each in scenario.tolerated:
            condition = ", if the replicator says which" if each.if_told else ""
            parts.append(f"* tolerated in {each.where}: {each.anomaly}{condition} ({each.because})\n")
        if scenario.tolerated:
            parts.append("\n")
        own = [line for line in lines if line.scenario == scenario.name]
        parts.append(_table(own) if own else "Not measured yet.\n")
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _table(lines: Sequence[Line]) -> str:
    rows = [
        (
            words.NAMES[line.replicator],
            words.verdict(line),
            str(line.runs),
            f"{line.acked:,}",
            words.anomalies(line),
            words.losses(line),
            words.spread(line.redelivered, digits=0),
            words.spread(line.skipped, digits=0),
            words.spread(line.rpo_seconds, " s"),
            words.spread(line.rto_seconds, " s"),
        )
        for line in lines
    ]
    head = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(results: Path, page: Path) -> None:
    """Write the page."""
    scenarios = [SCENARIOS.load(path) for path in SCENARIOS.files(SCENARIOS.folder())]
    page.write_text(render(scenarios, summarise(read_results(results))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
