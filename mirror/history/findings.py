"""What follows from an analysed history: percentiles of the cost, the worst times and why, catch-up and what-if.

Pure functions of the tables of `mirror.history.analysis.Findings`; times are in ms since the epoch or in seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mirror.history.analysis import Findings
from mirror.model.counts import counted

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 100.0)
_BEFORE_MS = 30_000
# Two bad times so close to each other are one.
_JOINED_MS = 10_000
_MUCH_WRITTEN = 2.0
# Of these no cause is to be looked for.
_IN_ORDER = ("RUNNING", "STARTING")
_NUMBER = re.compile(r"\d[\d,.]*")
_FORECAST_MINUTES = 10


def percentiles(costs: pd.DataFrame) -> pd.DataFrame:
    """Return what a disaster would have cost at most, in so many of a hundred moments of which it is known."""
    known = costs[costs["unknown"] == 0]
    rows = [
        {
            "percentile": each,
            "records": float(np.percentile(known["records"], each)),
            "seconds": float(np.percentile(known["seconds"], each)),
        }
        for each in (PERCENTILES if len(known) else ())
    ]
    return pd.DataFrame(rows, columns=["percentile", "records", "seconds"])


def unknown_share(costs: pd.DataFrame) -> float:
    """Return of which part of the time the cost is not known for every partition."""
    return float((costs["unknown"] > 0).mean()) if len(costs) else 1.0


def met_share(costs: pd.DataFrame, rpo_seconds: float) -> float:
    """Return in which part of the time of which it is known a disaster would have met the objective."""
    known = costs.loc[costs["unknown"] == 0, "seconds"]
    return float((known <= rpo_seconds).mean()) if len(known) else float("nan")


@dataclass(frozen=True, slots=True)
class Episode:
    """A time in which a disaster would have cost more than the objective, or it is not known what."""

    from_ms: int
    until_ms: int
    records: float
    seconds: float
    is_known: bool
    causes: tuple[str, ...]
    worst: str


def episodes(found: Findings, rpo_seconds: float) -> tuple[Episode, ...]:
    """Return the times beyond the objective, the costliest first, each with what is on record of it."""
    return tuple(
        sorted(
            (_episode(found, first, last) for first, last in _stretches(found.costs, rpo_seconds)),
            key=lambda each: (-each.seconds, -each.records, each.from_ms),
        )
    )


def _stretches(costs: pd.DataFrame, rpo_seconds: float) -> Iterator[tuple[int, int]]:
    is_bad = ((costs["seconds"] > rpo_seconds) | (costs["unknown"] > 0)).to_numpy()
    at = costs["at_ms"].to_numpy()[is_bad]
    if not len(at):
        return
    cuts = np.flatnonzero(np.diff(at) > _JOINED_MS)
    for first, last in zip([0, *(cuts + 1)], [*cuts, len(at) - 1], strict=True):
        yield int(at[first]), int(at[last])


def _episode(found: Findings, first: int, last: int) -> Episode:
    here = found.costs[found.costs["at_ms"].between(first, last)]
    bucket = found.span.bucket_ms
    peaks = found.peaks[found.peaks["at_ms"].between(first - bucket, last)].dropna(subset=["seconds"])
    worst = peaks.loc[peaks["seconds"].idxmax()] if len(peaks) else None
    return Episode(
        first,
        last,
        float(here["records"].max()),
        float(here["seconds"].max()),
        bool((here["unknown"] == 0).all()),
        causes(found, first, last),
        "" if worst is None else f"{worst['topic']}-{int(worst['partition'])}",
    )


def causes(found: Findings, first: int, last: int) -> tuple[str, ...]:
    """Return what is on record of a time and the half minute before it, in words; none if nothing is."""
    near = found.flows[found.flows["at_ms"].between(first - _BEFORE_MS, last)]
    known = [
        _state_words(state, rows, found.span.interval_seconds)
        for state, rows in near.groupby("state", sort=False)
        if state not in _IN_ORDER
    ]
    terms = near["term"].dropna().unique()
    if len(terms) > 1:
        known.append(f"another engine took the flow over (term {int(terms[-1])})")
    at = found.flows["at_ms"].to_numpy()
    apart = np.diff(at)
    silent = (apart > 1000 * found.span.longest_gap) & (at[1:] >= first) & (at[:-1] <= last)
    if silent.any():
        known.append(f"nothing was recorded for {apart[silent].max() / 1000:,.0f} s")
    if still := _minutes_without_a_copy(found.minutes, first, last):
        known.append(f"nothing was copied in {counted(still, 'minute')} in which records were written")
    usual, then = _written_rate(found.minutes), _written_rate(found.minutes, first, last)
    if usual > 0 and then > _MUCH_WRITTEN * usual:
        known.append(f"{then / usual:.1f} times as much was written as usual")
    return tuple(known)


def _state_words(state: object, rows: pd.DataFrame, interval_seconds: float) -> str:
    """Say in which state a flow was, for about how long, and the reason that was given most often."""
    reasons = [reason for reasons in rows["reasons"] for reason in reasons]
    # Numbers in them change from sample to sample.
    alike = Counter(_NUMBER.sub("#", reason) for reason in reasons)
    most = next((each for each in reasons if _NUMBER.sub("#", each) == alike.most_common(1)[0][0]), "")
    others = f" (and {len(alike) - 1} other reasons)" if len(alike) > 1 else ""
    return f"{state} for {max(1.0, len(rows) * interval_seconds):,.0f} s" + (f": {most}{others}" if most else "")


def _minutes_without_a_copy(minutes: pd.DataFrame, first: int, last: int) -> int:
    """Return in how many of the minutes that lie in a time records were written, and none was copied."""
    whole = minutes[minutes["at_ms"].between(first, last - 60_000)].groupby("at_ms")[["written", "copied"]].sum()
    return int(((whole["written"] > 0) & (whole["copied"] == 0)).sum())


def _written_rate(minutes: pd.DataFrame, first: int | None = None, last: int | None = None) -> float:
    """Return the records written in a minute: in the middle of all minutes, or at most within a time."""
    whole = minutes.groupby("at_ms")["written"].sum()
    if first is not None and last is not None:
        whole = whole[(whole.index >= first - 60_000) & (whole.index <= last)]
        return float(whole.max()) if len(whole) else 0.0
    return float(whole[whole > 0].median()) if (whole > 0).any() else 0.0


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a flow is written to, and how fast it was copied in its fastest minute: records a second."""

    written: float
    fastest: float

    def seconds_to_copy(self, backlog: float) -> float:
        """Return how long it takes until a backlog is copied, while as much is written as now; infinite: never."""
        spare = self.fastest - self.written
        return 0.0 if backlog <= 0 else backlog / spare if spare > 0 else float("inf")


def speed(minutes: pd.DataFrame) -> Speed:
    """Return the speed of a flow: what was written in the middle of its minutes, and copied in the best one."""
    # What came before the first minute is none of it, and the last one is not over.
    whole = minutes.groupby("at_ms")[["written", "copied"]].sum().iloc[1:-1]
    if not len(whole):
        return Speed(0.0, 0.0)
    return Speed(float(whole["written"].median()) / 60, float(whole["copied"].max()) / 60)


def catching_up(found: Findings, hours: Sequence[float]) -> pd.DataFrame:
    """Return how long it takes to catch up: with what is not copied now, and after outages of so many hours."""
    pace = speed(found.minutes)
    cases = [("now", float(found.partitions["lag"].sum()))]
    cases += [(f"after {each:g} h without a copy", 3600 * each * pace.written) for each in hours]
    return pd.DataFrame(
        [
            {"when": when, "records_behind": round(lag), "caught_up_after_s": pace.seconds_to_copy(lag)}
            for when, lag in cases
        ]
    )


def what_if(partitions: pd.DataFrame, hours: float) -> pd.DataFrame:
    """Return by topic what an outage of so many hours would have the source delete before it is copied.

    At the mean rate of the recorded time, and from a copy that has nothing to catch up with. What a topic's size bounds
    is known only of a log that has been deleting; else, and where retention is not reported, ``limits`` says so, and
    the number is a lower bound.
    """
    seconds, rate = 3600 * hours, partitions["rate"].fillna(0)
    written = rate * seconds
    keeps_ms, keeps_bytes = partitions["retention_ms"], partitions["retention_bytes"]
    by_time = (keeps_ms / 1000).where(keeps_ms >= 0)
    by_size = (partitions["kept"] / rate.where(rate > 0)).where(keeps_bytes >= 0)
    lasts = pd.concat([by_time, by_size], axis=1).min(axis=1)
    deleted = (rate * (seconds - lasts)).clip(lower=0).fillna(0)
    is_open = keeps_ms.isna() | ((keeps_bytes >= 0) & partitions["kept"].isna())
    table = pd.DataFrame(
        {"topic": partitions["topic"], "written": written, "deleted": deleted, "lasts": lasts / 3600, "open": is_open}
    )
    found = table.groupby("topic", as_index=False).agg(
        written=("written", "sum"),
        deleted_unread=("deleted", "sum"),
        first_deleted_after_h=("lasts", "min"),
        open=("open", "any"),
    )
    found["limits"] = found.pop("open").map({True: "not all known: at least so much", False: ""})
    found[["written", "deleted_unread"]] = found[["written", "deleted_unread"]].round().astype("int64")
    return found.sort_values(["deleted_unread", "written"], ascending=False, kind="stable").reset_index(drop=True)


def summary(found: Findings, rpo_seconds: float) -> tuple[str, ...]:
    """Say in sentences what the history holds and what it comes to."""
    span, costs = found.span, found.costs
    of = f"{counted(len(found.partitions), 'partition')} of {found.partitions['topic'].nunique()} topics"
    lasted = (span.until_ms - span.from_ms) / 1000
    held = f"{span.flow}: {of}, {lasted / 60:,.1f} minutes, a sample every {span.interval_seconds:,.1f} s."
    worst = percentiles(costs)
    if worst.empty:
        return held, "At no moment is it known of every partition what a disaster would have cost."
    middle, most = worst.iloc[0], worst.iloc[-1]
    cost_words = (
        f"A disaster would have cost {middle['records']:,.0f} records ({middle['seconds']:.1f} s) in the middle of all "
        f"moments, and {most['records']:,.0f} records ({most['seconds']:.1f} s) at the worst."
    )
    objective_words = (
        f"{100 * met_share(costs, rpo_seconds):.1f} % of the moments of which it is known meet the objective of "
        f"{rpo_seconds:g} s; of {100 * unknown_share(costs):.1f} % of the time it is not known."
    )
    return held, cost_words, objective_words
