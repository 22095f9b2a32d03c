"""What the strict runner refuses before any kernel starts; papermill would run each of these and call it a success."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import nbformat
import papermill
import pytest
from nbformat import NotebookNode

from mirror.drill.notebook import NotebookRefused, check_parameters, inspect
from mirror.evidence.run_model import ParameterValue
from tests.unit.drill.builders import write_notebook

DECLARED = """\
run_directory: str = ""  # the run's directory
alias: str = None  # whom to fail over
records_per_second: int = 10  # records/s
load_seconds: float = 1.5  # s
fence: bool = True  # whether to fence"""

GIVEN: dict[str, ParameterValue] = {"run_directory": "runs/x", "alias": "east"}


def edited(path: Path, edit: Callable[[NotebookNode], object]) -> Path:
    notebook = nbformat.read(path, as_version=4)
    edit(notebook)
    nbformat.write(notebook, path)
    return path


def tag(name: str) -> Callable[[NotebookNode], object]:
    """An edit that tags the last cell."""
    return lambda notebook: notebook.cells[-1].metadata.setdefault("tags", []).append(name)


def test_what_a_notebook_declares_is_read(tmp_path: Path) -> None:
    inspection = inspect(write_notebook(tmp_path / "10_tiny.ipynb", "1 + 1", parameters=DECLARED))

    assert inspection.title == "The notebook 10_tiny"
    assert list(inspection.parameters) == ["run_directory", "alias", "records_per_second", "load_seconds", "fence"]
    assert inspection.parameters["load_seconds"].annotation == "float"
    assert inspection.parameters["load_seconds"].help == "s"
    assert [name for name, each in inspection.parameters.items() if each.is_required] == ["run_directory", "alias"]


def test_a_missing_parameters_tag_is_refused(tmp_path: Path) -> None:
    untagged = write_notebook(tmp_path / "tiny.ipynb", "1 + 1", tags=())

    with pytest.raises(NotebookRefused, match="no code cell has the tag `parameters`"):
        inspect(untagged)


def test_papermill_alone_runs_an_untagged_notebook_with_its_defaults(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The trap this runner exists for: the value given comes first, the default after it."""
    untagged = write_notebook(tmp_path / "tiny.ipynb", parameters='alias: str = "west"  # whom to kill', tags=())
    with caplog.at_level(logging.WARNING):
        prepared = papermill.execute_notebook(
            str(untagged), str(tmp_path / "out.ipynb"), parameters={"alias": "east"}, prepare_only=True
        )

    sources = [cell.source for cell in prepared.cells if cell.cell_type == "code"]
    assert 'alias = "east"' in sources[0]
    assert 'alias: str = "west"' in sources[1]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (tag("parameters"), "2 cells have the tag `parameters`"),
        (tag("injected-parameters"), "it is an executed copy"),
        (tag("raises-exception"), "never goes on after an error"),
        (lambda notebook: notebook.metadata.update(allow_errors=True), "never goes on after an error"),
        (lambda notebook: notebook.cells.insert(0, nbformat.v4.new_code_cell("x = 1")), "code stands before the cell"),
    ],
    ids=["two tags", "executed copy", "raises-exception", "allow_errors", "code before"],
)
def test_a_notebook_that_breaks_a_rule_is_refused(
    tmp_path: Path, edit: Callable[[NotebookNode], object], said: str
) -> None:
    path = edited(write_notebook(tmp_path / "tiny.ipynb", "1 + 1"), edit)

    with pytest.raises(NotebookRefused, match=said):
        inspect(path)


def test_what_is_not_a_notebook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.ipynb").write_text("{")

    with pytest.raises(NotebookRefused, match=r"broken\.ipynb: not a notebook"):
        inspect(tmp_path / "broken.ipynb")
    with pytest.raises(NotebookRefused, match="there is no such notebook"):
        inspect(tmp_path / "absent.ipynb")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alais": "east"}, "unknown parameter 'alais'; it declares run_directory, alias"),
        ({"records_per_second": "10"}, "'records_per_second' is declared int, got '10'"),
        ({"records_per_second": 1.5}, "'records_per_second' is declared int, got 1.5"),
        ({"records_per_second": True}, "'records_per_second' is declared int, got True"),
        ({"fence": 1}, "'fence' is declared bool, got 1"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, ParameterValue], said: str) -> None:
    inspection = inspect(write_notebook(tmp_path / "tiny.ipynb", parameters=DECLARED))

    with pytest.raises(NotebookRefused, match=said):
        check_parameters(inspection, GIVEN | change)


def test_a_required_parameter_must_be_given(tmp_path: Path) -> None:
    inspection = inspect(write_notebook(tmp_path / "tiny.ipynb", parameters=DECLARED))

    with pytest.raises(NotebookRefused, match="parameter 'alias' is required"):
        check_parameters(inspection, {"run_directory": "runs/x"})
    check_parameters(inspection, GIVEN | {"load_seconds": 2})
