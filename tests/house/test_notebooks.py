"""Notebooks are thin, readable and clean: static rules over every file in notebooks/."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

LONGEST_CELL = 8
# In a window of 1280 pixels, with the list of files open, JupyterLab shows so many; the rest is behind the edge.
LONGEST_LINE = 100
MOST_CODE_CELLS = 12
NO_LOGIC = {
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "def",
    ast.Lambda: "lambda",
    ast.ClassDef: "class",
    ast.For: "for",
    ast.AsyncFor: "for",
    ast.comprehension: "for",
    ast.While: "while",
    ast.Try: "try",
    ast.TryStar: "try",
}


def comment_lines(code: str) -> set[int]:
    """The numbers of the lines that carry a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def parameter_problems(code: str) -> Iterator[str]:
    """Parameters are JSON scalars or lists of them, each annotated and explained in a comment on its line."""
    commented = comment_lines(code)
    for statement in ast.parse(code).body:
        if not isinstance(statement, ast.AnnAssign) or statement.value is None:
            yield f"parameters, line {statement.lineno}: only `name: type = default  # help`"
            continue
        name = ast.unparse(statement.target)
        if not commented & set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)):
            yield f"parameter {name}: no comment with its unit and meaning"
        try:
            default = ast.literal_eval(statement.value)
        except ValueError:
            yield f"parameter {name}: a derived default does not follow an override"
            continue
        scalars = default if isinstance(default, list) else [default]
        if not all(each is None or isinstance(each, str | int | float) for each in scalars):
            yield f"parameter {name}: neither a JSON scalar nor a list of them"


def cell_problems(number: int, cell: NotebookNode) -> Iterator[str]:
    """What one code cell breaks."""
    if cell.outputs or cell.execution_count is not None:
        yield f"code cell {number}: has outputs or an execution count"
    if "papermill" in cell.metadata or "execution" in cell.metadata:
        yield f"code cell {number}: carries the metadata of an execution"
    # Parameters are a line each.
    if number > 1 and len(cell.source.splitlines()) > LONGEST_CELL:
        yield f"code cell {number}: more than {LONGEST_CELL} lines"
    if any(len(line) > LONGEST_LINE for line in cell.source.splitlines()):
        yield f"code cell {number}: a line of more than {LONGEST_LINE} characters"
    try:
        tree = ast.parse(cell.source)
    except SyntaxError as error:
        yield f"code cell {number}: not plain Python ({error.msg})"
        return
    for word in sorted({NO_LOGIC[type(node)] for node in ast.walk(tree) if type(node) in NO_LOGIC}):
        yield f"code cell {number}: `{word}` is logic and belongs in the package"


def problems(notebook: NotebookNode) -> list[str]:
    """Every rule that the notebook breaks."""
    found: list[str] = []
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        return [f"not a valid notebook: {error.message}"]
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tagged = [number for number, cell in enumerate(code_cells) if "parameters" in cell.metadata.get("tags", [])]
    if not notebook.cells or not re.match(r"# \S", notebook.cells[0].source):
        found.append("the first cell is no title")
    if tagged != [0]:
        found.append("the first code cell, and no other, has the tag `parameters`")
    else:
        found.extend(parameter_problems(code_cells[0].source))
    if any("injected-parameters" in cell.metadata.get("tags", []) for cell in notebook.cells):
        found.append("parameters were injected: this is an executed copy")
    if "papermill" in notebook.metadata:
        found.append("carries the metadata of an execution")
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        found.append("the kernel is not python3")
    if len(code_cells) > MOST_CODE_CELLS:
        found.append(f"more than {MOST_CODE_CELLS} code cells")
    for number, cell in enumerate(code_cells, start=1):
        found.extend(cell_problems(number, cell))
    return found


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS != []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_thin_and_clean(path: Path) -> None:
    assert problems(nbformat.read(path, as_version=nbformat.NO_CONVERT)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_named_by_its_place_and_verb(path: Path) -> None:
    assert re.fullmatch(r"\d\d_[a-z][a-z_]*\.ipynb", path.name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_what_a_notebook_imports_is_there(path: Path) -> None:
    """Names that move are changed in modules by tools that do not read notebooks."""
    cells = [cell for cell in nbformat.read(path, as_version=nbformat.NO_CONVERT).cells if cell.cell_type == "code"]
    statements = [each for cell in cells for each in ast.walk(ast.parse(cell.source))]
    wanted = [
        (each.module or "", name.name) for each in statements if isinstance(each, ast.ImportFrom) for name in each.names
    ]
    assert wanted
    for module, name in wanted:
        found = importlib.import_module(module)
        assert hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module} has no {name}"


def notebook(
    *cells: NotebookNode, parameters: str = "rpo_seconds: float = 30.0  # objective, seconds", kernel: str = "python3"
) -> NotebookNode:
    """A clean notebook with the given cells after its parameters."""
    first = new_code_cell(parameters, metadata={"tags": ["parameters"]})
    made = new_notebook(cells=[new_markdown_cell("# Verify"), first, *cells])
    made.metadata["kernelspec"] = {"name": kernel, "display_name": "Python 3"}
    return made


def test_a_clean_notebook_breaks_no_rule() -> None:
    parameters = 'topics: list[str] = ["orders"]  # on the source\nlimit: int | None = None  # records; None: all'
    assert problems(notebook(new_code_cell("verdict = judge(run)\nverdict.table()"), parameters=parameters)) == []


@pytest.mark.parametrize(
    ("seeded", "said"),
    [
        (notebook(new_code_cell("def f():\n    pass")), "`def`"),
        (notebook(new_code_cell("[x for x in rows]")), "`for`"),
        (notebook(new_code_cell("try:\n    f()\nexcept E:\n    g()")), "`try`"),
        (notebook(new_code_cell("%matplotlib inline")), "not plain Python"),
        (notebook(new_code_cell("f()\n" * 9)), "more than 8 lines"),
        (notebook(new_code_cell(f"f({'x' * 100})")), "a line of more than 100"),
        (notebook(*map(new_code_cell, ["f()"] * 12)), "more than 12 code cells"),
        (notebook(new_code_cell("f()", execution_count=1)), "execution count"),
        (notebook(new_code_cell("f()", metadata={"tags": ["injected-parameters"]})), "injected"),
        (notebook(new_code_cell("f()", metadata={"tags": ["parameters"]})), "and no other"),
        (notebook(kernel="python3.11"), "kernel"),
        (notebook(parameters="rpo_seconds = 30.0  # seconds"), "only `name: type"),
        (notebook(parameters="rpo_seconds: float = 30.0"), "no comment"),
        (notebook(parameters="rpo_ms: float = 1000 * rpo_seconds  # ms"), "derived"),
        (notebook(parameters="objectives: dict[str, int] = {}  # none"), "JSON scalar"),
        (new_notebook(cells=[new_code_cell("f()")]), "title"),
    ],
)
def test_a_broken_rule_is_seen(seeded: NotebookNode, said: str) -> None:
    assert any(said in problem for problem in problems(seeded))
