"""The pictures of a history, in the style of the others: `mirror.evidence.pictures`."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, SymLogNorm
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike, NDArray

from mirror.evidence.pictures import (
    PALETTE,
    RunFigure,
    add_legend,
    empty_figure,
    figure_of,
    nothing,
    short_number,
    styled,
)
from mirror.history.analysis import Findings
from mirror.history.findings import Episode, percentiles, what_if

_LINES = 8
_MOST_ROWS = 40
# None of the palette, so that the order of what is light and dark is the same in both schemes.
_HEAT = LinearSegmentedColormap.from_list("lag", ["#ffffff", "#2b70bc", "#c53a30", "#1e2834"])
_SHORT = FuncFormatter(lambda value, _: short_number(value))


@styled()
def lag_history_plot(found: Findings, marked: tuple[Episode, ...] = ()) -> RunFigure:
    """Draw the lag of each partition over time, in records above and in seconds below; bad times shaded, numbered.

    The eight partitions that lagged most have a line each; the worst of all others is one grey line. A line is
    interrupted where the lag is not known.
    """
    if found.peaks["records"].notna().sum() == 0:
        return nothing("lag is not known at any time")
    figure = empty_figure(5.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    shown = _worst(found.peaks).index[:_LINES]
    indexed = found.peaks.set_index(["topic", "partition"]).sort_index()
    rest = indexed.drop(index=shown)
    for axes, column, title in (
        (upper, "records", "lag in records"),
        (lower, "seconds", "lag in seconds (age of the oldest record not yet copied)"),
    ):
        axes.set_title(f"{found.span.flow}: {title}" if axes is upper else title)
        if len(rest):
            others = rest.groupby("at_ms")[column].max()
            label = f"worst of the {len(rest.index.unique())} others"
            axes.plot(_times(others.index), others, color=PALETTE["rest"], linewidth=1.0, label=label)
        for number, key in enumerate(shown):
            own = indexed.loc[[key]].sort_values("at_ms")
            colour = PALETTE[f"series-{number}"]
            axes.plot(_times(own["at_ms"]), own[column], color=colour, linewidth=1.4, label=f"{key[0]}-{key[1]}")
        _scale(axes, found.peaks[column].max(), found.peaks[column].median())
        _shade(axes, marked, with_numbers=axes is upper)
    _time_axis(lower, found)
    add_legend(figure, upper, 5)
    return figure


@styled()
def heat_map(found: Findings) -> RunFigure:
    """Draw the lag in seconds of every partition, at most the forty worst, by time; what is not known is hatched."""
    worst = _worst(found.peaks)
    shown = worst.index[:_MOST_ROWS]
    if not len(shown) or found.peaks["seconds"].notna().sum() == 0:
        return nothing("lag is not known at any time")
    table = found.peaks.pivot_table(index=["topic", "partition"], columns="at_ms", values="seconds", dropna=False)
    table = table.reindex(index=sorted(shown), columns=sorted(found.peaks["at_ms"].unique()))
    figure, axes = figure_of(1.3 + 0.24 * len(table))
    buckets = table.columns.to_numpy()
    most = max(2.0, float(np.nanmax(table.to_numpy())))
    # Below a second nobody looks.
    norm = SymLogNorm(linthresh=1.0, linscale=0.3, vmin=0.0, vmax=most)
    drawn = axes.pcolormesh(
        _times(np.append(buckets, buckets[-1] + found.span.bucket_ms)),
        np.arange(len(table) + 1),
        np.ma.masked_invalid(table.to_numpy()),
        cmap=_HEAT,
        norm=norm,
    )
    axes.set_facecolor(PALETTE["grid"])
    axes.invert_yaxis()
    axes.set_yticks(np.arange(len(table)) + 0.5, [f"{topic}-{partition}" for topic, partition in table.index])
    axes.grid(visible=False)
    more = len(worst) - len(shown)
    axes.set_title(
        f"{found.span.flow}: lag in seconds by partition"
        + (f", the {len(shown)} worst of {len(worst):,}" if more else "")
        + "; grey: not known"
    )
    ticks = [tick for tick in (0, 1, 3, 10, 30, 100, 300, 1000, 3600, 10_000, 36_000, 86_400) if tick <= most]
    figure.colorbar(drawn, ax=axes, pad=0.01, ticks=ticks, format=_SHORT, aspect=30)
    _time_axis(axes, found)
    return figure


@styled()
def rpo_plot(found: Findings, rpo_seconds: float) -> RunFigure:
    """Draw what a disaster at each moment would have cost, over time, and how often it would have been how much."""
    costs = found.costs
    known = costs[costs["unknown"] == 0]
    if known.empty:
        return nothing("at no moment the cost is known of every partition")
    figure = empty_figure(5.4)
    grid = figure.add_gridspec(2, 2, width_ratios=(2.6, 1))
    shares = 100 * (np.arange(len(known)) + 0.5) / len(known)
    shown = percentiles(costs)
    over_time: Axes | None = None
    for row, (column, title, colour) in enumerate(
        (("records", "records lost", "series-0"), ("seconds", "seconds lost", "series-3"))
    ):
        axes = figure.add_subplot(grid[row, 0], sharex=over_time)
        over_time = over_time or axes
        beside = figure.add_subplot(grid[row, 1], sharey=axes)
        drawn = _thinned(costs, column)
        axes.fill_between(_times(drawn.index), drawn.to_numpy(), color=PALETTE[colour], alpha=0.25, linewidth=0)
        axes.plot(_times(drawn.index), drawn.to_numpy(), color=PALETTE[colour], linewidth=1.2)
        axes.set_title(f"{title}, had the source been lost then")
        beside.plot(shares, np.sort(known[column].to_numpy()), color=PALETTE[colour], linewidth=1.4)
        beside.set_title("in % of moments")
        beside.set_xlim(0, 100)
        beside.set_xlabel("% of moments, at most" if row else "")
        beside.tick_params(labelleft=False)
        _scale(axes, known[column].max(), known[column].median())
        for percentile in (50.0, 99.0):
            value = float(shown.loc[shown["percentile"] == percentile, column].iloc[0])
            beside.plot([percentile], [value], "o", color=PALETTE["ink"], markersize=3.5)
            is_right = percentile > 50
            beside.annotate(
                f"p{percentile:g}: {short_number(float(f'{value:.3g}'))}",
                (percentile, value),
                xytext=(-6 if is_right else 0, 6),
                textcoords="offset points",
                ha="right" if is_right else "center",
                fontsize=8.5,
            )
        if column == "seconds":
            for each in (axes, beside):
                each.axhline(rpo_seconds, color=PALETTE["fault"], linewidth=1.0, linestyle="--")
            axes.annotate(
                f"objective: {rpo_seconds:g} s",
                (0.005, rpo_seconds),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                color=PALETTE["fault"],
                fontsize=8.5,
            )
        if row == 0:
            axes.tick_params(labelbottom=False)
        else:
            _time_axis(axes, found)
    return figure


@styled()
def what_if_plot(found: Findings, hours: float) -> RunFigure:
    """Draw, by topic, what an outage of up to so many hours would have the source delete before it is copied."""
    lengths = np.linspace(0, hours, 60)[1:]
    tables = [what_if(found.partitions, float(each)).set_index("topic")["deleted_unread"] for each in lengths]
    table = pd.concat(tables, axis=1).fillna(0)
    worst = table.iloc[:, -1].sort_values(ascending=False)
    shown = [topic for topic in worst.index[:_LINES] if worst[topic] > 0]
    if not shown:
        return nothing(f"nothing would be deleted unread in {hours:g} h, as far as retention is known")
    figure, axes = figure_of(2.9)
    for number, topic in enumerate(shown):
        axes.plot(lengths, table.loc[topic], color=PALETTE[f"series-{number}"], linewidth=1.6, label=str(topic))
    axes.set_title("records deleted before they are copied, by the length of an outage")
    axes.set_xlabel("hours without a copy")
    axes.set_xlim(0, hours)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_SHORT)
    axes.legend(loc="upper left", fontsize=8.5)
    return figure


def _worst(peaks: pd.DataFrame) -> pd.Series[float]:
    """Return the partitions by their worst lag, in records, the worst first."""
    worst = peaks.groupby(["topic", "partition"])["records"].max().fillna(0)
    return worst.sort_values(ascending=False, kind="stable")


def _thinned(costs: pd.DataFrame, column: str, most: int = 600) -> pd.Series[float]:
    """Return at most so many points, of neighbours the worst; not a number where one of them is not known."""
    values = costs[column].where(costs["unknown"] == 0).to_numpy(dtype=float)
    width = -(-len(values) // most)
    starts = np.arange(0, len(values), width)
    return pd.Series(np.maximum.reduceat(values, starts), index=costs["at_ms"].to_numpy()[starts])


def _times(at_ms: ArrayLike) -> NDArray[np.float64]:
    """Return times as matplotlib has them: days since 1970."""
    return np.asarray(at_ms, dtype=float) / 86_400_000


def _scale(axes: Axes, most: float, middle: float) -> None:
    if most > 1 and most > 100 * max(middle, 0.01):
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(0, most * 2.5)
    else:
        axes.set_ylim(0, max(most, 1.0) * 1.15)
    axes.yaxis.set_major_formatter(_SHORT)


def _time_axis(axes: Axes, found: Findings) -> None:
    begin, end = _times([found.span.from_ms, found.span.until_ms])
    axes.set_xlim(begin, end)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))  # type: ignore[no-untyped-call]
    axes.set_xlabel(f"time, UTC, {pd.Timestamp(found.span.from_ms, unit='ms'):%Y-%m-%d}")


def _shade(axes: Axes, marked: tuple[Episode, ...], *, with_numbers: bool) -> None:
    for number, each in enumerate(marked, start=1):
        first, last = _times([each.from_ms, each.until_ms])
        colour = PALETTE["fault" if each.is_known else "muted"]
        axes.axvspan(first, last, color=colour, alpha=0.12, linewidth=0, zorder=0)
        if with_numbers:
            axes.annotate(
                str(number),
                (first, 1),
                xycoords=("data", "axes fraction"),
                xytext=(2, -3),
                textcoords="offset points",
                va="top",
                color=colour,
                fontsize=9,
            )
