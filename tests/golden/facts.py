"""Where golden data is read from: the folder in MIRROR_GOLDEN, or this one, also for what that one does not have."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("MIRROR_GOLDEN") or _HERE)


def facts(name: str) -> Any:
    """Return the content of a golden file."""
    folder = FOLDER if (FOLDER / name).exists() else _HERE
    return json.loads((folder / name).read_text(encoding="utf-8"))


def entries(name: str, label: Callable[[dict[str, Any]], str]) -> list[Any]:
    """Return every entry of a golden file as a parameter, at least one."""
    found = facts(name)
    assert found, f"{FOLDER / name} has no entries"
    return [pytest.param(entry, id=f"{number}-{label(entry)}") for number, entry in enumerate(found)]
