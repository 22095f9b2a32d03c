"""The lag analysis: what a recorded history says of lag, disasters, catching up and outages; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from mirror.control.gaps import iso_time
from mirror.drill.notebook_display import Sentences, style_outputs
from mirror.evidence.pictures import RunFigure
from mirror.evidence.refusal import Refused
from mirror.history import analysis, plots
from mirror.history.analysis import Findings, span_of
from mirror.history.findings import Episode, catching_up, episodes, percentiles, summary, what_if
from mirror.history.reading import read_history, sample_directory
from mirror.spark import spark_session

__all__ = [
    "analyse",
    "cost_percentiles",
    "disaster_costs",
    "forecast",
    "heat_map",
    "lag",
    "outage",
    "outage_picture",
    "overview",
    "worst_times",
]

_MOST_EPISODES = 10
_HOURS = (1.0, 8.0)


@dataclass(frozen=True)
class Analysed:
    """A history that was gone through, with the objective that it is measured by."""

    found: Findings
    remarks: tuple[str, ...]
    rpo_seconds: float

    @cached_property
    def episodes(self) -> tuple[Episode, ...]:
        """The times beyond the objective, the costliest first."""
        return episodes(self.found, self.rpo_seconds)[:_MOST_EPISODES]


def analyse(history: str, flow: str, hours: float, step_seconds: float, rpo_seconds: float) -> Analysed:
    """Go through the last ``hours`` (0: all) of a history; the recorded sample if no folder is given.

    Raises
    ------
    Refused
        if there is no history to be read, or no such flow in it.
    """
    style_outputs()
    files = read_history(Path(history) if history else sample_directory())
    known = analysis.flows_of(files)
    if flow and flow not in known:
        raise Refused(f"the history knows no flow {flow}; it knows {', '.join(known)}")
    span = span_of(files.flows, flow or known[0], hours=hours, step_seconds=step_seconds)
    more = (f"Other flows of this history: {', '.join(each for each in known if each != span.flow)}.",)
    messages = (*(more if len(known) > 1 else ()), *(f"Not read: {each}." for each in files.torn))
    return Analysed(analysis.analyse(spark_session("lag analysis"), files, span), messages, rpo_seconds)


def overview(analysed: Analysed) -> Sentences:
    """Say what the history holds, what it comes to, and what of it could not be read."""
    return Sentences(" ".join((*summary(analysed.found, analysed.rpo_seconds), *analysed.remarks)))


def lag(analysed: Analysed) -> RunFigure:
    """Draw the lag of the partitions over time; the times beyond the objective are shaded and numbered."""
    return plots.lag_history_plot(analysed.found, analysed.episodes)


def heat_map(analysed: Analysed) -> RunFigure:
    """Draw the lag of every partition as colours."""
    return plots.heat_map(analysed.found)


def worst_times(analysed: Analysed) -> pd.DataFrame:
    """Return a row for each time beyond the objective, numbered as in the picture, with what is on record of it.

    Where not all is known, records and seconds are those of the moments and partitions of which it is.
    """
    rows = [
        {
            "no.": number,
            "from": iso_time(each.from_ms)[:19].replace("T", " "),
            "lasted_s": (each.until_ms - each.from_ms) / 1000,
            "records": round(each.records),
            "seconds": round(each.seconds, 1),
            "all_known": each.is_known,
            "worst_partition": each.worst,
            "what_happened": "; ".join(each.causes) or "nothing is on record",
        }
        for number, each in enumerate(analysed.episodes, start=1)
    ]
    return pd.DataFrame(rows)


def disaster_costs(analysed: Analysed) -> RunFigure:
    """Draw what a disaster at each moment would have cost."""
    return plots.rpo_plot(analysed.found, analysed.rpo_seconds)


def cost_percentiles(analysed: Analysed) -> pd.DataFrame:
    """Return what a disaster would have cost at most in so many of a hundred moments."""
    return percentiles(analysed.found.costs)


def forecast(analysed: Analysed, outage_hours: float) -> pd.DataFrame:
    """Return how long catching up takes: now, and after outages."""
    return catching_up(analysed.found, tuple(sorted({*_HOURS, outage_hours})))


def outage(analysed: Analysed, outage_hours: float) -> pd.DataFrame:
    """Return by topic what an outage of so many hours would have the source delete before it is copied."""
    return what_if(analysed.found.partitions, outage_hours)


def outage_picture(analysed: Analysed, outage_hours: float) -> RunFigure:
    """Draw the same for outages of up to twice that length."""
    return plots.what_if_plot(analysed.found, 2 * outage_hours)
