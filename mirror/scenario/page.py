"""``docs/scenarios.md``: what each scenario shows and what was measured last, made from the scenarios and results.

The results are kept beside the page, in ``scenarios.json``: a series that runs some of the scenarios replaces what is
known of those, and the page is always what `render` makes of that file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirror.scenario import formatting
from mirror.scenario.declaration import Replicator, Scenario
from mirror.scenario.outcome import RunOutcome
from mirror.scenario.series import read_results, write_results
from mirror.scenario.summary import Line, summarise

_HEAD = """\
# Scenarios

Made by `make scenarios` from the files in `scenarios/` and the results of the last series; not to be edited.

Every scenario runs for real: brokers, replicator and applications are processes, faults are signals, cut links, full
disks. Every record that an application sent is written down outside the clusters, every log is read to its end, and the
two are joined. The same seed decides the same plan for this engine and for Java MirrorMaker 2, which both run from the
same properties file. *Wrong in the copies* counts records that are lost, duplicated, reordered or altered there;
*stranded* ones are the tail that was not copied when the source died. A loss is *told* when the replicator itself names
the offsets, and *silent* when nobody does. *Read again* and *skipped* are records of groups, with what was forecast of
them just before the disaster from the exact positions, which this engine alone keeps: all that a group may have read
and not committed by then. What it reads in the moment between comes on top. What groups of this engine read again from
before where they were moved from, or although they had committed it longer before the fault than the RPO promises, is
*rewound*: a failure. Java MirrorMaker 2 promises no bound, so its groups are only counted. A figure of several runs is
the median, with [the smallest, the largest] behind it where they differ.

"""
_COLUMNS = ("", "verdict", "runs", "acked", *formatting.FIGURES)


def render(scenarios: Sequence[Scenario], lines: Sequence[Line]) -> str:
    """Return the page."""
    parts = [_HEAD]
    for scenario in scenarios:
        parts.append(f"## {scenario.name}\n\n{scenario.shows}\n\n")
        if scenario.must_fail:
            parts.append(
                "It holds a defect on purpose: FAIL is the verdict it must have, for that and nothing else.\n\n"
            )
        parts += [
            f"* tolerated in {each.where}: {each.anomaly}{formatting.conditions(each)} ({each.because})\n"
            for each in scenario.tolerated
        ]
        if scenario.tolerated:
            parts.append("\n")
        own = [line for line in lines if line.scenario == scenario.name]
        parts.append(_table(own) if own else "Not measured yet.\n")
        messages = [
            f"* {formatting.NAMES[line.replicator]}: {links}\n" for line in own if (links := formatting.links(line))
        ]
        if messages:
            parts.append("\nLinks of the RTO, at the median:\n\n" + "".join(messages))
        if Replicator.MM2 not in scenario.replicators:
            parts.append("\nIt is about this engine alone.\n")
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _table(lines: Sequence[Line]) -> str:
    rows = [
        (
            formatting.NAMES[line.replicator],
            formatting.verdict(line),
            str(line.runs),
            f"{line.acked:,}",
            *formatting.figures(line),
        )
        for line in lines
    ]
    head = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_page(page: Path, scenarios: Sequence[Scenario], outcomes: Sequence[RunOutcome]) -> None:
    """Write the page of all ``scenarios``, with these outcomes in place of what was known of the same runs."""
    results = results_of(page)
    known = read_results(results) if results.is_file() else ()
    again = {(outcome.scenario, outcome.replicator) for outcome in outcomes}
    names = {scenario.name for scenario in scenarios}
    kept = [each for each in known if (each.scenario, each.replicator) not in again and each.scenario in names]
    write_results(results, [*kept, *outcomes])
    page.write_text(render(scenarios, summarise(read_results(results))), encoding="utf-8")


def results_of(page: Path) -> Path:
    """Return the file of results that a page is made from."""
    return page.with_suffix(".json")
