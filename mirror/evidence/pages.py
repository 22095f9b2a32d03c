"""The templates of pages that need nothing else: a page's own, and the style sheet that all of them carry."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_SHARED = Path(__file__).parent / "templates"


def page_templates(folder: Path) -> Environment:
    """Return the templates of a folder, which may include ``report.css``."""
    return Environment(
        loader=FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
