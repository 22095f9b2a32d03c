"""What commands print: to standard output what was asked for, to standard error everything else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mirror import terminal
from mirror.commands.failover import Terminal
from mirror.display import display_for
from mirror.model.progress import Watch
from mirror.tables import print_rows

out = terminal.console()


err = terminal.console(stderr=True, soft_wrap=True, highlight=False)


def streams() -> Terminal:
    """Return where commands print, and how they show that they wait."""
    return Terminal(out, err, progress)


@contextmanager
def progress() -> Iterator[Watch]:
    """Show how far something long is."""
    with display_for(err, brief=True) as display:
        yield display.watch


def print_json(content: Any) -> None:
    """Print what ``--json`` asks for."""
    json.dump(content, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(
    title: str | None,
    rows: list[dict[str, Any]],
    *,
    most: int | None = None,
    unbroken: frozenset[str] = frozenset(),
) -> None:
    """Print rows as a table that fits the terminal, at most ``most`` of them; nothing if there are none."""
    if rows:
        print_rows(out, title, [_for_people(row) for row in rows], most=most, under="group", unbroken=unbroken)
    else:
        out.print(f"{title}: nothing", markup=False)


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with one column for topic and partition, and words for keys."""
    shown = dict(row)
    if "topic" in shown and "partition" in shown:
        where = f"{shown.pop('topic')}-{shown['partition']}"
        shown = {name: where if name == "partition" else value for name, value in shown.items()}
    return {name.replace("_", " "): value for name, value in shown.items()}
