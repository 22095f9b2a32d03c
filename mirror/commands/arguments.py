"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

EVERY_GROUP = ".*"


def _require_pattern(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as problem:
        raise typer.BadParameter(f"{text!r} is not a regular expression: {problem}") from None
    return text


File = Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, a stable form, instead of tables.")]


ShowAll = Annotated[bool, typer.Option("--all", help="Show every row of long tables.")]


GroupPattern = Annotated[
    str,
    typer.Option("--group", "--groups", help="Groups whose whole id matches.", metavar="RE", callback=_require_pattern),
]


TopicPattern = Annotated[
    str | None,
    typer.Option(
        "--topics", help="Only topics of the source whose whole name matches.", metavar="RE", callback=_require_pattern
    ),
]


DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")]


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


WhoSays = Annotated[
    str | None, typer.Option(help="Name to put on record; by default the user who runs this.", metavar="NAME")
]


ChosenGroups = Annotated[
    str | None,
    typer.Option(
        "--group",
        "--groups",
        help="Groups whose whole id matches; all of them by default.",
        metavar="RE",
        callback=lambda text: None if text is None else _require_pattern(text),
    ),
]


ApplicationsFile = Annotated[
    Path | None,
    typer.Option(help="Commands that stop, start and probe the applications of each cluster.", metavar="TOML"),
]


RunFolder = Annotated[
    Path | None,
    typer.Option(help="Directory of the run; a run that is there is resumed.", metavar="DIR"),
]


TakeBack = Annotated[
    bool,
    typer.Option("--take-back", help="Take back what a run has done that has not passed the point of no return."),
]


GivenUp = Annotated[
    str | None,
    typer.Option("--give-up", help="Abandon another run that is on record and that nobody will resume.", metavar="RUN"),
]


#: More than anybody waits, and than clocks count in: a month, in seconds.
MOST_SECONDS = 31 * 86_400.0

AnswerWithin = Annotated[
    float,
    typer.Option(
        "--answer-within",
        min=1,
        max=MOST_SECONDS,
        help="How long each answer about the applications is waited for; no answer counts as no.",
        metavar="SECONDS",
    ),
]


PlanOnly = Annotated[bool, typer.Option("--dry-run", help="Show the plan; change nothing.")]


FlowName = Annotated[str | None, typer.Option("--flow", help="One flow, quoted: 'east->west'.", metavar="'A->B'")]
