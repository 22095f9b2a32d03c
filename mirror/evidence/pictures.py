"""Pictures: figures in one style, each one SVG that grows with its page and follows its light or dark colour scheme.

Every colour drawn is one of `PALETTE`, and becomes a variable of the SVG, which brings its values for both schemes. So
the same SVG stands in a page, in a notebook, and in a file of its own.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import _GeneratorContextManager
from dataclasses import dataclass

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mirror.evidence.statistics import Spread

_COLOURS = {
    "ink": ("#1d2733", "#e4e9ee"),
    "muted": ("#5b6775", "#9ba7b4"),
    "grid": ("#e4e8ec", "#2a323b"),
    "paper": ("#fffffe", "#1a2027"),
    "fault": ("#c4392f", "#f08379"),
    "pass": ("#2c8059", "#4fae85"),
    "fail": ("#b5281f", "#e0695f"),
    "unknown": ("#a5781b", "#d6a93f"),
    "link": ("#2f6fb2", "#6fa9e6"),
    "rest": ("#97a1ad", "#74808d"),
    "series-0": ("#2a6fbb", "#6aa9ee"),
    "series-1": ("#c8553d", "#f0907a"),
    "series-2": ("#2f8f6b", "#62c79d"),
    "series-3": ("#8a5bb5", "#bf97e6"),
    "series-4": ("#b07d10", "#e0b64a"),
    "series-5": ("#2d93a8", "#6fcbe0"),
    "series-6": ("#b5487f", "#e88bb8"),
    "series-7": ("#5f7f2a", "#a8c96c"),
}
PALETTE = {role: light for role, (light, _) in _COLOURS.items()}
"""Colour of everything drawn, by its role: the light one, by which it is found again in what matplotlib writes."""

_WIDTH_INCHES = 7.0
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif'
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "svg.fonttype": "none",
    # The same figures give the same file.
    "svg.hashsalt": "mirror",
    "text.color": PALETTE["ink"],
    "axes.edgecolor": PALETTE["grid"],
    "axes.labelcolor": PALETTE["muted"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": PALETTE["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": PALETTE["muted"],
    "ytick.color": PALETTE["muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "figure.facecolor": PALETTE["paper"],
    "savefig.facecolor": PALETTE["paper"],
    "legend.frameon": False,
}


def styled() -> _GeneratorContextManager[None]:
    """Return the style, as a context or as a decorator."""
    return mpl.rc_context(_STYLE)  # type: ignore[arg-type]  # the stubs want every key as a literal


class RunFigure(Figure):
    """A matplotlib figure that a notebook shows without pyplot."""

    def _repr_html_(self) -> str:
        """Return the picture for Jupyter: as wide as there is room, and never so small that nobody can read it."""
        inches = self.get_figwidth()
        size = f"width:100%;min-width:{0.7 * inches:g}in;max-width:{1.3 * inches:g}in"
        # As an image: Jupyter takes the styles out of what is not.
        data = base64.b64encode(svg(self).encode()).decode()
        return f"<div style='overflow-x:auto'><img style='{size}' src='data:image/svg+xml;base64,{data}'></div>"


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as inline SVG."""

    title: str
    svg: Markup


def picture(key: str, title: str, figure: Figure) -> Picture:
    """Return a figure for a page; ``key`` tells its ids from those of others there."""
    drawn = svg(figure, key, title)
    # The figures come from matplotlib, which escapes the texts in them.
    return Picture(title, Markup(drawn[drawn.index("<svg") :]))  # noqa: S704


def svg(figure: Figure, key: str = "picture", title: str = "") -> str:
    """Return a figure as an SVG document without a size of its own, its texts as text, its colours as variables."""
    target = io.StringIO()
    with styled():
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    drawn = re.sub(r"<metadata>.*?</metadata>", "", target.getvalue(), flags=re.DOTALL)
    drawn = re.sub(r'\bid="', f'id="{key}-', drawn)
    drawn = re.sub(r'(url\(#|href="#)', rf"\g<1>{key}-", drawn)
    drawn = re.sub(r"font-family: [^;\"]*", "font-family: inherit", drawn)
    drawn = re.sub(r"font: (?:(bold) )?([\d.]+px) [^;\"]*", _font, drawn)
    drawn = drawn.replace("*{", f"#{key} *{{")
    for role, colour in PALETTE.items():
        drawn = drawn.replace(colour, f"var(--{role})")
    before, found, rest = drawn.partition("<svg")
    opening, _, content = rest.partition(">")
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    return f'{before}{found} id="{key}" role="img" aria-label="{escape(title)}"{opening}>{_colours(key)}{content}'


def _colours(key: str) -> str:
    light, dark = ("".join(f"--{role}:{both[at]};" for role, both in _COLOURS.items()) for at in (0, 1))
    schemes = f"#{key}{{{light}font-family:{_FONT}}}@media(prefers-color-scheme:dark){{#{key}{{{dark}}}}}"
    return f"<style>{schemes}</style>"


def _font(found: re.Match[str]) -> str:
    weight = "; font-weight: bold" if found.group(1) else ""
    return f"font-size: {found.group(2)}{weight}"


def empty_figure(height: float) -> RunFigure:
    """Return a figure so many inches high."""
    return RunFigure(figsize=(_WIDTH_INCHES, height), layout="constrained")


def figure_of(height: float) -> tuple[RunFigure, Axes]:
    """Return a figure so many inches high, and the axes that fill it."""
    figure = empty_figure(height)
    return figure, figure.subplots()


def nothing(what: str) -> RunFigure:
    """Return a figure that only says why there is nothing to draw."""
    figure, axes = figure_of(1.0)
    axes.axis("off")
    axes.text(0.5, 0.5, what, ha="center", va="center", color=PALETTE["muted"], transform=axes.transAxes)
    return figure


def draw_spreads(axes: Axes, rows: Sequence[str], series: Mapping[str, Sequence[Spread | None]]) -> None:
    """Draw rows from top to bottom: of each series a dot at the median, and a line from the smallest to the largest."""
    for place, (name, spreads) in enumerate(series.items()):
        colour = PALETTE[f"series-{place}"]
        # Side by side within a row, so that none hides another.
        shift = 0.56 * ((place + 0.5) / len(series) - 0.5)
        for row, found in enumerate(spreads):
            if found is not None:
                axes.plot([found.low, found.high], [row + shift] * 2, "-", color=colour, linewidth=2)
                axes.plot([found.median], [row + shift], "o", color=colour, markersize=5)
        axes.plot([], [], "o", color=colour, label=name)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)


def add_legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Name below a figure what its lines are, in at most so many columns."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        *(handles, labels),
        loc="outside lower center",
        ncols=max(1, min(len(labels), columns)),
        fontsize=8.5,
        handlelength=1.4,
    )


def short_number(value: float) -> str:
    """Return a tick's number, shortened: 1.5 M, 20 k, 300, 0.5."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"
