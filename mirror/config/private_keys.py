"""Private keys of a file whose lines are keys of the file, for want of a backslash at the end of each line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from mirror.config.properties import Entry

# A private key that does not end where its value does, and what of it is behind that: several lines are one key where
# only one of them does not end with a backslash.
_BEGINS_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?!.*-----END)", re.DOTALL)
_BEGINS, _ENDS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"), re.compile(r"-----END [A-Z ]*PRIVATE KEY")
_PEM, _HEADERS_OF_PEM = re.compile(r"[A-Za-z0-9+/\s]+"), ("Proc-Type", "DEK-Info")


def broken_keys(entries: Sequence[Entry]) -> dict[int, int]:
    """Return the lines of entries that are parts of a private key, and where that begins.

    Where a line of its text does not go on in the next one, by a backslash, the next ones are keys of the file; all of
    it is where it begins in the line behind that of its key.
    """
    found: dict[int, int] = {}
    for number, each in enumerate(entries):
        is_key = _BEGINS.match(_text(each)) is not None
        if is_key:
            found[each.line] = each.line
        if _BEGINS_PRIVATE_KEY.search(_text(each) if is_key else each.value):
            behind = list(takewhile(lambda one: not _BEGINS.search(_text(one)), entries[number + 1 :]))
            end = next((at for at, one in enumerate(behind, 1) if _ENDS.search(_text(one))), 0)
            found |= {one.line: each.line for one in behind[:end] or takewhile(_is_pem, behind)}
    return found


def _text(entry: Entry) -> str:
    """Return an entry as it reads where what ends its key is a blank of a private key."""
    return f"{entry.key} {entry.value}"


def _is_pem(entry: Entry) -> bool:
    """Tell whether an entry looks like lines of a key in base 64, or says how that is encrypted."""
    return entry.key in _HEADERS_OF_PEM or (_PEM.fullmatch(entry.key) is not None and not entry.value.strip("= \n"))
