"""Exceptions that are answers to a person; the most common: what was asked for was not started."""

from __future__ import annotations


class Answer(Exception):
    """An answer to a person: a notebook shows its sentences, not where in the code it was raised."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback."""
        return [str(self)]


class Refused(Answer, ValueError):
    """Something was asked for that cannot be started as it is; the message says what to change. Exit status 2."""
