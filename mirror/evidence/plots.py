"""The pictures of a run, as matplotlib figures: the notebooks show them, the report embeds them.

All of them take `Evidence`, shade the fault interval, and say "not measured" where there is nothing to draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mirror.evidence.journal import Entry, Event
from mirror.evidence.pictures import PALETTE, add_legend, empty_figure, figure_of, nothing, short_number, styled
from mirror.evidence.run_evidence import Evidence
from mirror.evidence.run_model import FaultInterval
from mirror.model.verdict import Verdict

_SERIES = 8
_LEGEND_COLUMNS = 4
# Of a row of bars: its label stands above the bar, so that it takes no room from it.
_ROW_INCHES = 0.46
_BAR_HEIGHT = 0.34
_BAR_DOWN = 0.16
_FEW_POINTS = 12
_WHOLE_CHAIN = "RTO achieved"
_MOST_POINTS = 240

MARKED_EVENTS = {
    Event.LOAD_STARTED: "load started",
    Event.POINT_OF_NO_RETURN: "point of no return",
    Event.FAULT_INJECTED: "fault",
    Event.FAULT_DETECTED: "fault detected",
    Event.FENCED: "old active cluster fenced",
    Event.DRAINED: "mirror drained",
    Event.CUT: "flow cut",
    Event.OFFSETS_APPLIED: "group offsets applied",
    Event.FIRST_WRITE: "first accepted write",
    Event.GROUP_READING: "group reads new records",
    Event.FAULT_HEALED: "failed cluster back",
    Event.LOAD_STOPPED: "load stopped",
}
"""Events that the timeline marks, and what it calls them."""


@dataclass(frozen=True, slots=True)
class TimelineMark:
    """A numbered event of the timeline."""

    number: int
    at_ms: int
    label: str
    detail: str


def flows(evidence: Evidence) -> tuple[str, ...]:
    """Return the flows lag was sampled for, in the order in which they appeared."""
    return tuple(str(flow) for flow in evidence.lag["flow"].drop_duplicates())


def timeline_marks(evidence: Evidence) -> tuple[TimelineMark, ...]:
    """Return the marked events of the journals, numbered in the order in which they happened."""
    entries = (entry for entry in evidence.happened if entry.event in MARKED_EVENTS)
    return tuple(
        TimelineMark(number, entry.happened_at_ms, MARKED_EVENTS[entry.event], happened_to(entry))
        for number, entry in enumerate(entries, start=1)
    )


def happened_to(entry: Entry) -> str:
    """Return who or what an event concerns, from the facts that name it."""
    if entry.event is Event.POINT_OF_NO_RETURN:
        step = (entry.step or "").replace("_", " ")
        whose = [f"group {entry.facts['group']}"] if "group" in entry.facts else []
        whose += [str(entry.facts["applications"])] if "applications" in entry.facts else []
        return f"{step}: {', '.join(whose)}" if whose else step
    return " ".join(
        str(entry.facts[key]) for key in ("cluster", "fault", "flow", "group", "topic") if key in entry.facts
    )


@styled()
def timeline_plot(evidence: Evidence) -> Figure:
    """Draw the steps as bars over the run's time, coloured by verdict; numbered events above, the fault shaded."""
    steps = [step for step in evidence.steps if step.began_at_ms is not None]
    marks = timeline_marks(evidence)
    if not steps:
        return nothing("no step has been run")
    origin = evidence.began_at_ms
    end = max(evidence.ended_at_ms, *(mark.at_ms for mark in marks), origin + 1000) if marks else evidence.ended_at_ms
    span = max((end - origin) / 1000, 1.0)
    levels = _levels([(mark.at_ms - origin) / 1000 / span for mark in marks], 0.036)
    top = 0.75 + 0.62 * (max(levels, default=0) + 1) if marks else 0.4
    rows = len(steps)
    figure, axes = figure_of((rows + top) * _ROW_INCHES + 0.45)
    _shade(axes, evidence.fault, origin, end, label=False)
    for row, step in enumerate(steps):
        assert step.began_at_ms is not None
        began = (step.began_at_ms - origin) / 1000
        ended = ((step.ended_at_ms or end) - origin) / 1000
        depth = rows - 1 - row
        axes.barh(
            depth - _BAR_DOWN,
            max(ended - began, span * 0.004),
            left=began,
            height=_BAR_HEIGHT,
            color=PALETTE[_VERDICT_COLOURS[step.verdict]],
        )
        took = f"{step.seconds:.1f} s" if step.seconds is not None else "unfinished"
        _label(axes, depth, f"{step.settings.title}, {took}")
    for mark, level in zip(marks, levels, strict=True):
        x, y = (mark.at_ms - origin) / 1000, rows - 0.2 + 0.62 * level
        axes.plot([x, x], [-0.5, y], color=PALETTE["muted"], linewidth=0.6, alpha=0.35, zorder=0.5)
        axes.text(
            x,
            y,
            str(mark.number),
            ha="center",
            va="center",
            fontsize=7.5,
            color=PALETTE["paper"],
            zorder=4,
            bbox={"boxstyle": "circle,pad=0.22", "facecolor": PALETTE["ink"], "edgecolor": "none"},
        )
    axes.set_ylim(-0.6, rows - 0.6 + top)
    axes.set_xlim(-span * 0.01, span * 1.015)
    axes.set_yticks([])
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 1.5, 2, 3, 5, 6, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{int(x) // 60}:{int(x) % 60:02d}" if x >= 0 else ""))
    axes.set_xlabel("minutes and seconds since the run began")
    return figure


@styled()
def lag_plot(evidence: Evidence, flow: str | None = None) -> Figure:
    """Draw replication lag of each partition over time, in records above and in seconds below, the fault shaded.

    The eight partitions that lagged most have a line each; the worst of all others is one grey line. A line is
    interrupted where the lag could not be measured. An axis turns logarithmic (linear below 1) when its greatest value
    would flatten the rest.
    """
    known = flows(evidence)
    chosen = flow or (known[0] if known else "")
    samples = evidence.lag[evidence.lag["flow"] == chosen]
    if samples.empty:
        return nothing("lag was not measured")
    origin = evidence.fault.from_ms if evidence.fault else evidence.began_at_ms
    end = int(samples["at_ms"].max())
    lines = _lag_lines(samples)
    figure = empty_figure(4.9 + 0.24 * math.ceil(len(lines) / _LEGEND_COLUMNS))
    upper, lower = figure.subplots(2, 1, sharex=True)
    for axes, column, title in (
        (upper, "lag_records", f"{chosen}: lag in records"),
        (lower, "lag_seconds", f"{chosen}: lag in seconds (age of the oldest record not yet mirrored)"),
    ):
        axes.set_title(title)
        for line in lines:
            seconds = (line.samples["at_ms"] - origin) / 1000
            width = 1.0 if line.colour == "rest" else 1.5
            axes.plot(
                seconds,
                line.samples[column],
                color=PALETTE[line.colour],
                linewidth=width,
                label=line.label,
                # A line of one sample would not be seen.
                marker="o" if len(line.samples) <= _FEW_POINTS else "",
                markersize=3,
            )
        _scale(axes, samples[column])
        _shade(axes, evidence.fault, origin, end, label=axes is upper)
    lower.set_xlabel("seconds since the fault" if evidence.fault else "seconds since the run began")
    lower.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 3, 5, 10]))
    add_legend(figure, upper, _LEGEND_COLUMNS)
    return figure


@styled()
def rto_chain_plot(evidence: Evidence) -> Figure:
    """Draw the RTO chain as a waterfall: each link begins where the one before ended.

    The whole is red beyond its objective; there is no such bar where the chain is broken.
    """
    failover = evidence.failover
    chain = failover.links if failover else ()
    if failover is None or not chain:
        return nothing("the RTO chain was not measured")
    bars: list[tuple[str, float, float | None]] = [(link.name, link.seconds or 0.0, None) for link in chain]
    if failover.rto_seconds is not None:
        bars.append((_WHOLE_CHAIN, failover.rto_seconds, failover.rto_objective_seconds))
    rows = len(bars)
    figure, axes = figure_of(rows * _ROW_INCHES + 0.5)
    longest = max(sum(link.seconds or 0.0 for link in chain), 0.001)
    began = 0.0
    for row, (name, seconds, objective) in enumerate(bars):
        is_total = name == _WHOLE_CHAIN
        left = 0.0 if is_total else began
        depth = rows - 1 - row
        exceeded = objective is not None and seconds > objective
        colour = PALETTE["fail"] if exceeded else PALETTE["ink"] if is_total else PALETTE["link"]
        axes.barh(depth - _BAR_DOWN, max(seconds, longest * 0.003), left=left, height=_BAR_HEIGHT, color=colour)
        if not is_total:
            axes.plot(
                [left + seconds] * 2, [depth - 1, depth], color=PALETTE["muted"], linewidth=0.6, linestyle=":", zorder=0
            )
        took = _seconds(seconds) + ("" if objective is None else f" of {objective:g} s")
        _label(axes, depth, f"{name}, {took}", is_bold=is_total)
        began += 0.0 if is_total else seconds
    axes.set_ylim(-0.65, rows - 0.25)
    axes.set_xlim(0, longest * 1.02)
    axes.set_yticks([])
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10]))
    axes.set_xlabel("seconds since the fault")
    return figure


@dataclass(frozen=True, slots=True)
class _LagLine:
    label: str
    colour: str
    samples: pd.DataFrame


def _lag_lines(samples: pd.DataFrame) -> list[_LagLine]:
    keys = ["topic", "partition"]
    worst = samples.groupby(keys)["lag_records"].max().fillna(0).sort_values(ascending=False, kind="stable")
    shown = sorted(worst.index[:_SERIES])
    one_topic = samples["topic"].nunique() == 1
    indexed = samples.set_index(keys).sort_index()
    lines = [
        _LagLine(
            label=f"partition {partition}" if one_topic else f"{topic}-{partition}",
            colour=f"series-{index}",
            samples=_thinned(indexed.loc[[(topic, partition)]]),
        )
        for index, (topic, partition) in enumerate(shown)
    ]
    rest = indexed.drop(index=shown)
    if len(rest):
        others = rest.groupby("at_ms", as_index=False)[["lag_records", "lag_seconds"]].max()
        lines.insert(0, _LagLine(f"worst of the {len(worst) - _SERIES} others", "rest", _thinned(others)))
    return lines


def _thinned(samples: pd.DataFrame) -> pd.DataFrame:
    """Return at most `_MOST_POINTS` points: of neighbours the greatest, so that no peak disappears.

    Neighbours of which one was not measured stay "not measured", so that no interruption is bridged.
    """
    ordered = samples.sort_values("at_ms").reset_index(drop=True)
    width = math.ceil(len(ordered) / _MOST_POINTS)
    if width <= 1:
        return ordered
    return ordered[["at_ms", "lag_records", "lag_seconds"]].groupby(ordered.index // width).agg(_greatest)


def _greatest(values: pd.Series[float]) -> float:
    return float(values.max(skipna=False))


def _scale(axes: Axes, values: pd.Series[float]) -> None:
    positive = values[values > 0]
    if len(positive) and positive.max() > 1 and positive.max() > 100 * positive.median():
        axes.set_yscale("symlog", linthresh=1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    low = min(0.0, float(values.min())) if len(values.dropna()) else 0.0
    axes.set_ylim(bottom=low if low < 0 else None)
    if low >= 0:
        top = float(positive.max()) if len(positive) else 1.0
        axes.set_ylim(0, top * (1.9 if axes.get_yscale() == "symlog" else 1.12))


def _shade(axes: Axes, fault: FaultInterval | None, origin: int, end: int, *, label: bool) -> None:
    if fault is None:
        return
    began = (fault.from_ms - origin) / 1000
    until = ((fault.until_ms if fault.until_ms is not None else max(end, fault.from_ms)) - origin) / 1000
    axes.axvspan(began, until, color=PALETTE["fault"], alpha=0.12, linewidth=0, zorder=0)
    axes.axvline(began, color=PALETTE["fault"], linewidth=1.1, zorder=1)
    if label:
        axes.annotate(
            fault.what,
            xy=(began, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -3),
            textcoords="offset points",
            va="top",
            color=PALETTE["fault"],
            fontsize=9,
        )


def _label(axes: Axes, row: int, text: str, *, is_bold: bool = False) -> None:
    weight = "bold" if is_bold else "normal"
    axes.text(0, row + _BAR_DOWN, text, va="bottom", ha="left", fontweight=weight)


def _levels(places: Sequence[float], nearest: float) -> list[int]:
    """Return for each place (ascending, fractions of the width) the lowest level on which it keeps its distance."""
    taken: list[float] = []
    levels: list[int] = []
    for place in places:
        level = next((index for index, last in enumerate(taken) if place - last >= nearest), len(taken))
        if level == len(taken):
            taken.append(place)
        taken[level] = place
        levels.append(level)
    return levels


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


_VERDICT_COLOURS = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.UNKNOWN: "unknown"}
