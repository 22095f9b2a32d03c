"""Saving the notebooks that come with the program: as they came, without what their cells showed.

JupyterLab writes outputs into the file that it has opened, every two minutes by itself. What a run showed is in the
run's directory; in the notebooks it would be a change of the program's files, and the next run would begin with it.
"""

from __future__ import annotations

from typing import Any

from mirror.drill.catalogue import load_runbook, runbook_files, runbooks_folder

INDEX = "00_index.ipynb"
_OF_NO_RUNBOOK = (INDEX, "80_lag_analysis.ipynb", "81_same_offsets.ipynb")
# What JupyterLab adds beside outputs: the state of widgets, and when cells were run.
_OF_A_RUN = ("widgets", "execution", "ExecuteTime", "trusted", "scrolled", "collapsed")


def shipped() -> frozenset[str]:
    """Return the names of the notebooks that come with the program."""
    runbooks = (load_runbook(path).runbook for path in runbook_files(runbooks_folder()))
    return frozenset({*_OF_NO_RUNBOOK, *(step.notebook.rpartition("/")[2] for each in runbooks for step in each.steps)})


def without_outputs(model: dict[str, Any], path: str, **_: Any) -> None:
    """Take out of a notebook that comes with the program what running it has put in, before it is saved.

    A ``pre_save_hook`` of Jupyter's contents manager; notebooks of other names are saved as they are.

    Parameters
    ----------
    model
        what is to be saved, changed in place.
    path
        where, in the folder that is served.
    """
    content = model.get("content")
    if model.get("type") != "notebook" or path.strip("/") not in shipped() or not isinstance(content, dict):
        return
    metadata = content.get("metadata", {})
    _forget_run(metadata)
    # The kernel's own version and editor settings come with the first cell that is run.
    metadata["language_info"] = {"name": metadata.get("language_info", {}).get("name", "python")}
    for cell in content.get("cells", ()):
        _forget_run(cell.get("metadata", {}))
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None


def _forget_run(metadata: dict[str, Any]) -> None:
    for name in _OF_A_RUN:
        metadata.pop(name, None)
