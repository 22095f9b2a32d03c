"""What several runs say together: a line a scenario and replicator, for tables, the report and the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mirror.evidence.statistics import Share, Spread, spread, wilson
from mirror.model.grouped import grouped
from mirror.model.verdict import Verdict, worst
from mirror.scenario.declaration import Judged, Replicator
from mirror.scenario.outcome import Figures, RunOutcome


@dataclass(frozen=True, slots=True)
class Line:
    """All runs of one scenario by one replicator.

    Attributes
    ----------
    as_expected
        the share of runs with the verdict that the scenario is to have, and what may be said of more runs.
    anomalies
        records by anomaly in the copies, over all runs.
    silent, told
        losses, over all runs.
    redelivered, skipped
        records of groups, a run.
    beside
        how what was found differs from a defect that was put in on purpose.
    rto_links
        the links of the chain that the recovery time consists of, in seconds, in order.
    forecast_redelivered, forecast_skipped
        what was said of that before the disaster; of the former, how many it may be.
    """

    scenario: str
    replicator: Replicator
    runs: int
    verdict: Verdict
    is_as_expected: bool
    as_expected: Share | None
    acked: int
    anomalies: tuple[tuple[str, int], ...]
    silent: int
    told: int
    torn: int | None
    redelivered: Spread | None
    skipped: Spread | None
    forecast_redelivered: Spread | None
    forecast_skipped: Spread | None
    rpo_seconds: Spread | None
    rpo_records: Spread | None
    rto_seconds: Spread | None
    reasons: tuple[str, ...]
    beside: tuple[str, ...] = ()
    rto_links: tuple[tuple[str, Spread], ...] = ()

    @property
    def wrong_records(self) -> int:
        """Records in the copies that are not once, whole, in order and unchanged there; the uncopied tail aside."""
        return sum(count for name, count in self.anomalies if name != "stranded")


def summarise(outcomes: Iterable[RunOutcome]) -> tuple[Line, ...]:
    """Return the lines, by scenario and replicator, in the order in which they first come."""
    alike = grouped(((outcome.scenario, outcome.replicator), outcome) for outcome in outcomes)
    order = {name: number for number, name in enumerate(dict.fromkeys(scenario for scenario, _ in alike))}
    keys = sorted(alike, key=lambda key: (order[key[0]], key[1] is not Replicator.MIRROR))
    return tuple(_line(scenario, replicator, alike[scenario, replicator]) for scenario, replicator in keys)


def _line(scenario: str, replicator: Replicator, runs: Sequence[RunOutcome]) -> Line:
    judged = [run for run in runs if run.verdict is not Verdict.UNKNOWN]
    figures = [run.figures for run in judged]
    names = sorted({name for each in figures for name in each.anomalies.get(Judged.COPY, {})})
    forecasts = [each.forecast for each in figures if each.forecast is not None]
    torn = [each.torn_transactions for each in figures if each.torn_transactions is not None]
    return Line(
        scenario=scenario,
        replicator=replicator,
        runs=len(runs),
        verdict=worst(run.verdict for run in runs),
        is_as_expected=all(run.is_as_expected for run in runs),
        as_expected=wilson(sum(run.is_as_expected for run in runs), len(runs)),
        acked=sum(each.acked for each in figures),
        anomalies=tuple((name, sum(each.anomaly(name) for each in figures)) for name in names),
        silent=sum(each.silent_losses for each in figures),
        told=sum(each.told_losses for each in figures),
        torn=sum(torn) if torn else None,
        redelivered=spread(each.redelivered for each in figures if each.groups),
        skipped=spread(each.skipped for each in figures if each.groups),
        forecast_redelivered=spread(each.read_again for each in forecasts),
        forecast_skipped=spread(each.skipped for each in forecasts),
        rpo_seconds=spread(each.rpo_seconds for each in figures),
        rpo_records=spread(each.rpo_records for each in figures),
        rto_seconds=spread(each.rto_seconds for each in figures),
        reasons=tuple(dict.fromkeys(reason for run in runs for reason in run.reasons)),
        beside=tuple(dict.fromkeys(reason for run in runs for reason in run.beside)),
        rto_links=tuple(_links(figures)),
    )


def _links(figures: Sequence[Figures]) -> Iterator[tuple[str, Spread]]:
    """Return how long each link took, over the runs whose chain is whole."""
    whole = [{link.name: link.seconds for link in each.rto_links} for each in figures if each.rto_seconds is not None]
    for name in whole[0] if whole else ():
        found = spread(each.get(name) for each in whole)
        if found is not None:
            yield name, found
