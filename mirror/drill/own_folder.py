"""A folder of one's own: the notebooks, runbooks and scenarios that came with the program, to be changed and run."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from mirror.definition_files import came_with_the_program
from mirror.evidence.refusal import Refused

_FOLDERS = ("notebooks", "runbooks", "scenarios")
# JupyterLab reads it in the folder where it is started.
_JUPYTER_CONFIG = "jupyter_lab_config.py"
_JUPYTER = '''\
"""How `jupyter lab` starts in this folder: at the index; notebooks are saved without outputs."""

from mirror.drill.saving import without_outputs

c = get_config()
c.FileContentsManager.pre_save_hook = without_outputs
c.ServerApp.root_dir = "notebooks"
c.LabApp.default_url = "/lab/tree/00_index.ipynb"
'''


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made if it is not there.")],
) -> None:
    """Copy the notebooks, runbooks and scenarios that came with the program to a folder of your own, to be changed."""
    try:
        made = copy_out(directory)
    except Refused as refused:
        print(refused, file=sys.stderr)
        raise typer.Exit(2) from None
    print(f"{directory}: {', '.join(made)}")
    print("There, `mirror runbook run failover-drill` and `jupyter lab` work on them.")


def copy_out(to: Path) -> list[str]:
    """Copy all of it to a folder, which is made if it is not there, and return the names of what was made there.

    Raises
    ------
    Refused
        if one of the names is taken there already; nothing is made then.
    """
    came = came_with_the_program()
    if absent := [name for name in _FOLDERS if not (came / name).is_dir()]:
        raise Refused(f"{came} has no {', '.join(absent)}: was mirrorbook installed whole?")
    if taken := [name for name in (*_FOLDERS, _JUPYTER_CONFIG) if (to / name).exists()]:
        raise Refused(f"{to} has {', '.join(taken)} already, which stays as it is; choose another folder")
    try:
        to.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=to) as whole:
            for name in _FOLDERS:
                shutil.copytree(came / name, Path(whole) / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            (Path(whole) / _JUPYTER_CONFIG).write_text(_JUPYTER, encoding="utf-8")
            made = sorted(each.name for each in Path(whole).iterdir())
            for name in made:
                (Path(whole) / name).rename(to / name)
    except OSError as problem:
        raise Refused(f"{to}: {problem.strerror}") from problem
    return made
