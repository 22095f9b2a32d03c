"""A notebook of the program that was run by hand is saved as it came; anybody's own is saved as it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets.config.loader import PyFileConfigLoader

from mirror.drill import saving
from mirror.drill.saving import INDEX, shipped

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Settings are applied once for the class and once for the object.
pytestmark = pytest.mark.filterwarnings("ignore:Overriding existing pre_save_hook:UserWarning")
CONFIG = Path(saving.__file__).with_name("jupyter_config.py")


@pytest.fixture
def folder(tmp_path: Path) -> AsyncLargeFileManager:
    """The folder that JupyterLab serves, with what `make lab` configures."""
    config = PyFileConfigLoader(CONFIG.name, str(CONFIG.parent)).load_config()
    return AsyncLargeFileManager(root_dir=str(tmp_path), config=config)


def run(path: Path) -> Any:
    """A notebook as JupyterLab sends it to be saved when its cells were run."""
    content = nbformat.read(path, 4)
    content.metadata["language_info"] = {"name": "python", "version": "3.11.2", "codemirror_mode": {"version": 3}}
    content.metadata["widgets"] = {"state": {}}
    for number, cell in enumerate(content.cells):
        if cell.cell_type == "code":
            cell["execution_count"] = number
            cell["outputs"] = [nbformat.v4.new_output("stream", text="east is gone")]
            cell["metadata"]["execution"] = {"iopub.execute_input": "2026-11-22T20:00:00Z"}
    return content


def saved(folder: AsyncLargeFileManager, name: str, content: Any) -> Path:
    model = {"type": "notebook", "format": "json", "content": content}
    asyncio.run(folder.save(model, name))
    return Path(folder.root_dir) / name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_what_comes_with_the_program_is_saved_as_it_came(folder: AsyncLargeFileManager, path: Path) -> None:
    assert saved(folder, path.name, run(path)).read_bytes() == path.read_bytes()


def test_what_a_person_has_written_is_kept(folder: AsyncLargeFileManager) -> None:
    content = run(NOTEBOOKS[1])
    content.cells[1]["source"] = 'properties_file: str = "/etc/mirror.properties"'
    kept = nbformat.read(saved(folder, NOTEBOOKS[1].name, content), 4)
    assert kept.cells[1].source == 'properties_file: str = "/etc/mirror.properties"'
    own = nbformat.read(saved(folder, "mine.ipynb", run(NOTEBOOKS[1])), 4)
    assert own.cells[1].outputs[0]["text"] == "east is gone"


def test_every_notebook_in_the_folder_is_known() -> None:
    assert shipped() == {path.name for path in NOTEBOOKS}
    assert INDEX in shipped()
