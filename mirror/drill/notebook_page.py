"""Executed notebooks as HTML pages that need nothing from the network."""

from __future__ import annotations

from pathlib import Path

from nbconvert import HTMLExporter
from traitlets.config import Config

_TEMPLATES = Path(__file__).parent / "templates"


def write_page(executed: Path, page: Path) -> Path:
    """Write an executed notebook as one self-contained page; return its path.

    nbconvert's own pages load scripts for formulas, diagrams and widgets from the network; the template leaves those
    out, and pictures are part of the page.
    """
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        config=Config(),
        template_name="notebook",
        extra_template_basedirs=[str(_TEMPLATES)],
        embed_images=True,
    )
    body, _ = exporter.from_filename(str(executed), resources={"metadata": {"name": executed.stem}})
    page.write_text(body, encoding="utf-8")
    return page
