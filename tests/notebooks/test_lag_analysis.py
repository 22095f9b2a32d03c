"""The notebook of the lag analysis, in a kernel of its own, as a person opens it: on the recorded sample."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mirror.drill.kernel import OwnInterpreterKernelManager

pytestmark = [pytest.mark.notebook, pytest.mark.spark]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "80_lag_analysis.ipynb"


@pytest.mark.long
def test_it_opens_on_the_sample_without_a_parameter(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook,
        km=OwnInterpreterKernelManager(log_path=str(tmp_path / "kernel.log")),
        timeout=600,
        startup_timeout=600,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(cleanup_kc=True)
    shown = [output.data for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [each["text/html"] for each in shown]
    assert "12 partitions of 3 topics" in pages[0]
    assert sum("data:image/svg+xml;base64," in page for page in pages) == 4
    assert any("another engine took the flow over (term 2)" in page for page in pages)
    assert list(tmp_path.glob("*.parquet")) == []
