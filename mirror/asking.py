"""Questions to a person that are not waited for without end: at a terminal and in a notebook alike."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TypeVar

import typer

T = TypeVar("T")

ANSWER_SECONDS = 900.0
"""For how long an answer is waited for unless something else is said."""

NOTHING_DONE = "nothing is changed"


class _TimeIsOver(BaseException):
    """Ends a question; a kernel that waits for an answer goes on waiting behind any `Exception`."""


def answered(ask: Callable[[], T], seconds: float) -> T | None:
    """Return what ``ask`` returns, which waits for a person; None: it has not within ``seconds``.

    To be called in the main thread, which alone can be interrupted while it waits.
    """

    def end(*_: object) -> None:
        raise _TimeIsOver

    before = signal.signal(signal.SIGALRM, end)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return ask()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except _TimeIsOver:
        return None
    finally:
        signal.signal(signal.SIGALRM, before)


def yes_or_no(question: str, seconds: float) -> bool | None:
    """Ask at the terminal, on standard error; None: nobody has answered in time."""
    found = answered(lambda: typer.confirm(question, err=True), seconds)
    if found is None:
        typer.echo(err=True)
    return found


def is_typed(word: str, consequence: str, seconds: float) -> bool:
    """Ask at the terminal, on standard error, for a word, and tell whether it was typed in time."""
    question = f"{consequence} Type {word} to go on {limit_message(seconds, NOTHING_DONE)}"
    typed = answered(lambda: typer.prompt(question, err=True, default="", show_default=False), seconds)
    return (typed or "").strip() == word


def limit_message(seconds: float, then: str) -> str:
    """Return, for the person who is asked, how long an answer is waited for, and what happens without one."""
    time = f"{seconds / 60:g} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} s"
    return f"(no answer within {time} is a no: {then})"
