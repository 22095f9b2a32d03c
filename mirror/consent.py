"""Somebody agrees before a command changes anything; nobody to ask is a refusal, and no answer is a no."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import typer

from mirror.asking import ANSWER_SECONDS, NOTHING_DONE, is_typed, limit_message, yes_or_no
from mirror.config.errors import ConfigError

_NOT_AGREED = 1


def consent(file: Path, question: str, *, yes: bool) -> None:
    """Ask before something is changed that can be taken back.

    Raises
    ------
    ConfigError
        if nobody can be asked.
    typer.Exit
        with code 1 unless the answer is yes.
    """
    if not yes:
        _require_terminal(file)
        limited = f"{question} {limit_message(ANSWER_SECONDS, NOTHING_DONE)}"
        _require(lambda: yes_or_no(limited, ANSWER_SECONDS) is True)


def consent_typed(file: Path, consequence: str, word: str, *, yes: bool) -> None:
    """Have ``word`` typed before something is changed that cannot be taken back.

    The exceptions are those of :func:`consent`.
    """
    if not yes:
        _require_terminal(file)
        _require(lambda: is_typed(word, consequence, ANSWER_SECONDS))


def _require_terminal(file: Path) -> None:
    if not sys.stdin.isatty():
        raise ConfigError(file, None, "--yes", "there is no terminal to ask on; say --yes, or --dry-run for the plan")


def _require(is_agreed: Callable[[], bool]) -> None:
    try:
        if is_agreed():
            return
    except typer.Abort:
        # Ctrl-C, or the end of the input: the prompt's line is still open.
        typer.echo(err=True)
    typer.echo("Nothing was changed.", err=True)
    raise typer.Exit(_NOT_AGREED)
