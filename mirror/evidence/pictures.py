"""Pictures on a page: figures as inline SVG that follow the page's theme and font."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure

from mirror.evidence.plots import PALETTE, svg


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as inline SVG, in a wide and a narrow form."""

    title: str
    wide: Markup
    narrow: Markup


def picture(key: str, title: str, wide: Figure, narrow: Figure) -> Picture:
    """Return a figure for both widths; ``key`` tells its ids from those of others on the page."""
    return Picture(title, _inline(wide, f"{key}-wide", title), _inline(narrow, f"{key}-narrow", title))


def _inline(figure: Figure, key: str, title: str) -> Markup:
    """Return a figure as an ``svg`` element: own ids, colours as CSS variables, the page's font."""
    drawn = svg(figure, transparent=True)
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'\bid="', f'id="{key}-', drawn)
    drawn = re.sub(r'(url\(#|href="#)', rf"\g<1>{key}-", drawn)
    drawn = re.sub(r"font-family: [^;\"]*", "font-family: inherit", drawn)
    drawn = re.sub(r"font: (?:(bold) )?([\d.]+px) [^;\"]*", _font, drawn)
    for name, colour in PALETTE.items():
        drawn = drawn.replace(colour, f"var(--{name})")
    opening = re.sub(r'\s(width|height)="[^"]*"', "", drawn[: drawn.index(">")])
    label = Markup.escape(title)
    # The figures come from matplotlib, which escapes the texts in them.
    return Markup(f'{opening} role="img" aria-label="{label}"{drawn[drawn.index(">") :]}')  # noqa: S704


def _font(found: re.Match[str]) -> str:
    weight = "; font-weight: bold" if found.group(1) else ""
    return f"font-size: {found.group(2)}{weight}"
