"""The practice notebooks as a person clicks through them, in JupyterLab, in a real browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.drill.unattended import UNATTENDED_VARIABLE
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import holder
from tests.browser.jupyter_lab import OpenNotebook, a_browser, jupyter_lab

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
STEPS = ("setup", "mirror", "verify", "failover_drill", "failback")
# Six notebooks on a machine that has other things to do.
_NOTEBOOK_SECONDS = 600.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the notebooks, and the runbooks beside them; whatever a run in it holds is ended."""
    for name in ("notebooks", "runbooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    yield tmp_path
    for run in holder.held(tmp_path / "runs"):
        holder.release(run)


@pytest.fixture
def index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenNotebook]:
    """The page that `make lab` opens."""
    monkeypatch.setenv(UNATTENDED_VARIABLE, "")
    with a_browser() as browser, jupyter_lab(folder / "notebooks", "00_index.ipynb") as address:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        opened = OpenNotebook(page, "00_index.ipynb")
        try:
            opened.wait_until_ready()
            yield opened
        finally:
            page.screenshot(path=folder / "last-seen.png")


def test_a_person_is_led_through_the_drill(index: OpenNotebook, folder: Path) -> None:
    """From the index by links, cell by cell or all at once; the typed word is asked for, and the end tells the verdict."""
    for holding in ("runbooks: str", "overview.notebooks", "The run under way", "overview.practice_run"):
        index.select(holding)
        index.run_the_cell()
    index.see("No practice run is under way", seconds=_NOTEBOOK_SECONDS)

    setup = index.follow("10_setup.ipynb")
    setup.run_from_the_menu("Run All Cells")
    setup.see("this notebook", seconds=_NOTEBOOK_SECONDS)
    setup.see("Set up two clusters and the mirror: PASS", seconds=_NOTEBOOK_SECONDS)

    mirror = setup.follow("20_mirror.ipynb")
    mirror.run_from_the_menu("Run All Cells")
    mirror.see("Mirror east to west under load: PASS", seconds=_NOTEBOOK_SECONDS)
    # What was waited for longer than a moment says so, in place.
    assert "s for all records written so far to be mirrored" in mirror.text

    verify = mirror.follow("30_verify.ipynb")
    verify.run_all_by_keys()
    verify.see("Verify the copy, record by record: PASS", seconds=_NOTEBOOK_SECONDS)

    failover = verify.follow("40_failover_drill.ipynb")
    failover.run_from_the_menu("Run All Cells")
    failover.answer("east", seconds=_NOTEBOOK_SECONDS)
    failover.see("west was not typed: nothing was done", seconds=_NOTEBOOK_SECONDS)
    (directory,) = (folder / "runs").iterdir()
    run = RunDirectory.open(directory)
    assert Event.FAULT_INJECTED not in {entry.event for entry in run.journal.read().entries}
    failover.select("stage.confirm")
    failover.run_from_the_menu("Run Selected Cell and All Below")
    failover.answer("west", seconds=_NOTEBOOK_SECONDS)
    failover.see("Fail over: kill east, move to west: PASS", seconds=_NOTEBOOK_SECONDS)

    failback = failover.follow("50_failback.ipynb")
    failback.run_from_the_menu("Run All Cells")
    failback.see("The whole run: PASS", seconds=_NOTEBOOK_SECONDS)
    failback.see(str(directory / "report.html"), seconds=_NOTEBOOK_SECONDS)

    assert (directory / "report.html").is_file()
    verdicts = {step: json.loads(run.outcome_path(step).read_text())["verdict"] for step in STEPS}
    assert verdicts == dict.fromkeys(STEPS, "PASS")
    assert holder.held(folder / "runs") == []


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("60_test_failover.ipynb", None),
        ("70_readiness_review.ipynb", None),
        ("71_unplanned_failover.ipynb", "east->west"),
        ("72_planned_failover.ipynb", "east->west"),
        ("73_cut_off_failover.ipynb", "east->west"),
        ("74_failback.ipynb", "east->west"),
        ("75_migration.ipynb", "east->west"),
    ],
)
def test_a_runbook_of_a_flow_is_carried_out_by_hand_on_practice_clusters(
    index: OpenNotebook, folder: Path, name: str, typed: str | None
) -> None:
    """From the index by its link, without parameters; where applications move the flow's name is asked for."""
    index.run_from_the_menu("Run All Cells")
    notebook = index.follow(name)
    notebook.run_from_the_menu("Run All Cells")
    if typed is not None:
        notebook.answer(typed, seconds=_NOTEBOOK_SECONDS)
    notebook.see("The whole run: PASS", seconds=_NOTEBOOK_SECONDS)
    (directory,) = (folder / "runs").iterdir()
    assert (directory / "report.html").is_file()
