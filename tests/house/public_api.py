"""The public API as text: what users import of the client library and plug-ins, in notebooks, runbooks and scenarios.

`public_api.txt` is the golden file. After a change that is meant, make it again:

    .venv/bin/python -m tests.house.public_api
"""

from __future__ import annotations

import ast
import inspect
import json
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "public_api.txt"
# What users name in their own code, beside what notebooks, runbooks and scenarios import.
OWN_CODE = ("mirror.client", "mirror.legacy.handler", "mirror.model.plugins", "mirror.model.transforms.record")


def public(module: str) -> list[str]:
    """Return the public names of a module, which it declares."""
    return list(import_module(module).__all__)


def modules() -> list[str]:
    """Return the names of the modules of the public API."""
    return sorted({*OWN_CODE, *imported()})


def everything() -> Iterator[tuple[str, Any]]:
    """Yield everything that is public, with its full name."""
    for module in modules():
        for name in public(module):
            yield f"{module}.{name}", getattr(import_module(module), name)


def imported() -> dict[str, set[str]]:
    """Return what notebooks, runbooks and scenarios use, by module."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(ROOT / "runbooks").glob("*.py"),
        *(ROOT / "scenarios").glob("*.py"),
    ):
        tree = ast.parse(code(path))
        aliases = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mirror."):
                for each in node.names:
                    if isinstance(getattr(import_module(str(node.module)), each.name, None), ModuleType) or is_module(
                        f"{node.module}.{each.name}"
                    ):
                        aliases[each.name] = f"{node.module}.{each.name}"
                    else:
                        found[str(node.module)].add(each.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
                found[aliases[node.value.id]].add(node.attr)
    return dict(found)


def code(path: Path) -> str:
    """Return the Python code of a file or a notebook."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")


def is_module(name: str) -> bool:
    """Tell whether a dotted name is a module of ours."""
    return (ROOT / f"{name.replace('.', '/')}.py").exists()


def described() -> str:
    """Return the public API as text: a line a name, and one a member of a class."""
    return "".join(f"{line}\n" for name, thing in everything() for line in lines(name, thing))


def lines(name: str, thing: Any) -> Iterator[str]:
    """Yield the line of a public thing, and those of its own public members."""
    if not inspect.isclass(thing):
        yield f"{name}{inspect.signature(thing)}" if inspect.isfunction(thing) else name
        return
    fields = getattr(thing, "__dataclass_fields__", None) or getattr(thing, "_fields", ())
    yield f"{name}({', '.join(fields)})"
    for member, value in sorted(vars(thing).items()):
        if not member.startswith("_") and member not in fields:
            found = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            yield f"    {member}{inspect.signature(found) if inspect.isfunction(found) else ''}"


if __name__ == "__main__":
    GOLDEN.write_text(described(), "utf-8")
