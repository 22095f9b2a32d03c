"""The notebook of the source's offsets, in a kernel of its own, as a person opens it: without a parameter."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mirror.drill.kernel import OwnInterpreterKernelManager

pytestmark = [pytest.mark.notebook, pytest.mark.soak]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "81_same_offsets.ipynb"


def test_a_bookmark_leads_to_the_same_record_and_nothing_is_left_behind(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook,
        km=OwnInterpreterKernelManager(log_path=str(tmp_path / "kernel.log")),
        timeout=600,
        startup_timeout=600,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(cleanup_kc=True)
    shown = [
        output.data.get("text/html", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]
    assert any("each is there once, at the same offset" in page for page in shown)
    assert sum("data:image/svg+xml;base64," in page for page in shown) == 1
    (after,) = (page for page in shown if "read again" in page and "skipped" in page)
    assert (after.count(">yes<"), after.count(">no<")) == (3, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["kernel.log"]
