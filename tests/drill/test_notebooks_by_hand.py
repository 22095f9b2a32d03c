"""The practice notebooks as a person runs them: opened one after another, top to bottom, no parameter given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from mirror.drill.kernel import OwnInterpreterKernelManager
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import holder

pytestmark = [pytest.mark.drill, pytest.mark.soak]

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ("10_setup", "20_mirror", "30_verify", "40_failover_drill", "50_failback")
STEPS = ("setup", "mirror", "verify", "failover_drill", "failback")


def run_by_hand(folder: Path, name: str) -> str:
    """Run a notebook's cells in a kernel of its own, as a person does; return all it told."""
    notebook = nbformat.read(folder / "notebooks" / f"{name}.ipynb", as_version=4)
    kernel = OwnInterpreterKernelManager(log_path=str(folder / "kernel.log"))
    client = NotebookClient(
        notebook,
        km=kernel,
        timeout=600,
        startup_timeout=600,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(cleanup_kc=True)  # the kernel ends, and what it was asked through is closed
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    """A folder with the notebooks and runbooks; whatever a run in it holds is ended."""
    for name in ("notebooks", "runbooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    yield tmp_path
    for run in holder.held(tmp_path / "runs"):
        holder.release(run)


def test_the_notebooks_run_one_after_another_without_parameters(folder: Path) -> None:
    """Each has a kernel of its own; the clusters go on between them, and the last one ends them and writes the report."""
    with pytest.raises(CellExecutionError, match=r"no practice run is under way.*run 10_setup.ipynb first"):
        run_by_hand(folder, "20_mirror")

    told = [run_by_hand(folder, name) for name in NOTEBOOKS[:4]]
    (directory,) = (folder / "runs").iterdir()
    assert all(f"This is the run {directory.name}" in each for each in told)
    with pytest.raises(CellExecutionError, match="is past its point of no return"):
        run_by_hand(folder, "10_setup")
    last = run_by_hand(folder, NOTEBOOKS[4])

    assert "The whole run: PASS" in last
    assert f"report {directory / 'report.html'}" in last
    run = RunDirectory.open(directory)
    verdicts = {step: json.loads(run.outcome_path(step).read_text())["verdict"] for step in STEPS}
    assert verdicts == dict.fromkeys(STEPS, "PASS")
    assert holder.held(folder / "runs") == []
