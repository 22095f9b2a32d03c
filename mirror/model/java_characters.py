r"""Java's named sets of characters (``\d``, ``\p{Alpha}``, ``\p{IsLatin}``...) in the notation of the ``regex`` module.

A set is written as the inside of brackets, so that a union is a concatenation: ``a-z``, ``\p{Lu}``, ``[^0-9]``.
Without Java's ``(?U)``, which is refused elsewhere, ``\d``, ``\w``, ``\s`` and the POSIX names are ASCII.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache

import regex

DIGIT = "0-9"
WORD = "a-zA-Z0-9_"
SPACE = r" \t\n\x0B\f\r"
HORIZONTAL_SPACE = r" \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
VERTICAL_SPACE = r"\n\x0B\f\r\x85\u2028\u2029"
LINE_TERMINATORS = r"\n\r\x85\u2028\u2029"

ESCAPED = {"d": DIGIT, "w": WORD, "s": SPACE, "h": HORIZONTAL_SPACE, "v": VERTICAL_SPACE}

_GENERAL_CATEGORY = regex.compile(
    "Cn|Cc|Cf|Co|Cs|C|Lu|Ll|Lt|Lm|Lo|L|Mn|Me|Mc|M|Nd|Nl|No|N|Zs|Zl|Zp|Z|Pd|Ps|Pe|Pc|Po|Pi|Pf|P|Sm|Sc|Sk|So|S"
)
_CASED = r"\p{Lu}\p{Ll}\p{Lt}"
_NAMED = {
    "LC": _CASED,
    "LD": r"\p{L}\p{Nd}",
    "L1": r"\x00-\xff",
    "all": r"\x00-\U0010ffff",
    "ASCII": r"\x00-\x7f",
    "Alnum": "a-zA-Z0-9",
    "Alpha": "a-zA-Z",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "Digit": DIGIT,
    "Graph": r"\x21-\x7e",
    "Lower": "a-z",
    "Print": r"\x20-\x7e",
    "Punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "Space": SPACE,
    "Upper": "A-Z",
    "XDigit": "0-9a-fA-F",
    "javaLowerCase": r"\p{Lowercase}",
    "javaUpperCase": r"\p{Uppercase}",
    "javaAlphabetic": r"\p{Alphabetic}",
    "javaIdeographic": r"\p{Ideographic}",
    "javaTitleCase": r"\p{Lt}",
    "javaDigit": r"\p{Nd}",
    "javaDefined": r"\P{Cn}",
    "javaLetter": r"\p{L}",
    "javaLetterOrDigit": r"\p{L}\p{Nd}",
    "javaSpaceChar": r"\p{Z}",
    "javaWhitespace": r"\t\n\x0B\f\r\x1c-\x1f[\p{Z}--\xa0\u2007\u202f]",
    "javaISOControl": r"\x00-\x1f\x7f-\x9f",
}
_UNICODE_PROPERTIES = {
    "ALPHABETIC": r"\p{Alphabetic}",
    "LETTER": r"\p{L}",
    "IDEOGRAPHIC": r"\p{Ideographic}",
    "LOWERCASE": r"\p{Lowercase}",
    "UPPERCASE": r"\p{Uppercase}",
    "TITLECASE": r"\p{Lt}",
    "WHITE_SPACE": r"\p{Z}\t-\r\x85",
    "CONTROL": r"\p{Cc}",
    "PUNCTUATION": r"\p{P}",
    "HEX_DIGIT": r"\p{Nd}0-9A-Fa-f\uff10-\uff19\uff21-\uff26\uff41-\uff46",
    "ASSIGNED": r"\P{Cn}",
    "NONCHARACTER_CODE_POINT": r"\p{Noncharacter_Code_Point}",
    "DIGIT": r"\p{Nd}",
    "ALNUM": r"\p{Alphabetic}\p{Nd}",
    "BLANK": r"\p{Zs}\t",
    "WORD": r"\p{Alphabetic}\p{Mn}\p{Mc}\p{Me}\p{Nd}\p{Pc}\u200c\u200d",
    "JOIN_CONTROL": r"\u200c\u200d",
}
_PROPERTY_ALIASES = {
    "WHITESPACE": "WHITE_SPACE",
    "HEXDIGIT": "HEX_DIGIT",
    "NONCHARACTERCODEPOINT": "NONCHARACTER_CODE_POINT",
    "JOINCONTROL": "JOIN_CONTROL",
}
_CASE_BOUND = frozenset({"Lu", "Ll", "Lt"})
_CASE_BOUND_NAMES = {"Lower": "a-zA-Z", "Upper": "a-zA-Z"}
_CASE_BOUND_PROPERTIES = frozenset({"LOWERCASE", "UPPERCASE", "TITLECASE"})
_CASE_BOUND_JAVA = frozenset({"javaLowerCase", "javaUpperCase", "javaTitleCase"})
_ANY_CASE = r"\p{Lowercase}\p{Uppercase}\p{Lt}"


def named_set(name: str, *, ignore_case: bool) -> str | None:
    r"""Return the set of ``\p{name}``; ``None`` if Java knows no such name, or it cannot be carried over."""
    kind, equals, value = name.partition("=")
    if equals:
        match kind.lower():
            case "sc" | "script":
                return _script(value)
            case "blk" | "block":
                return _block(value)
            case "gc" | "general_category":
                return _property(value, ignore_case)
            case _:
                return None
    if name.startswith("In"):
        return _block(name[2:])
    if name.startswith("Is"):
        rest = name[2:]
        return _unicode_property(rest, ignore_case) or _property(rest, ignore_case) or _script(rest)
    return _property(name, ignore_case)


def character(code_point: int) -> str:
    """Return one character as an item of a set, which is also how it is matched outside of one."""
    text = chr(code_point)
    if text.isascii() and (text.isalnum() or text == "_"):
        return text
    return f"\\U{code_point:08x}"


def code_point_range(first: int, last: int) -> str:
    """Return an inclusive range as an item of a set."""
    return f"{character(first)}-{character(last)}"


def either_case(first: int, last: int, *, beyond_ascii: bool) -> str:
    """Return an inclusive range as an item of a set that ignores case: of ASCII letters, or as Unicode has it."""
    if not beyond_ascii:
        others = [point for point in _ASCII_LETTERS if first <= point ^ 0x20 <= last]
    elif first == last:
        others = [point for point, (_, folded) in _folds().items() if folded == _folded(first)[1]]
    else:
        others = [point for point, folds in _folds().items() if any(first <= other <= last for other in folds)]
    item = character(first) if first == last else code_point_range(first, last)
    return item + "".join(character(point) for point in others if not first <= point <= last)


_ASCII_LETTERS = (*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))
_SIMPLE_LOWER = {"\u0130": "i"}


@cache
def _folds() -> dict[int, tuple[int, int]]:
    """Return what every character with case, and every one it falls together with, folds to (Java's ``(?iu)``)."""
    cased = [point for block in _blocks_with_case() for point in block]
    folds = {point: folds for point in cased if (folds := _folded(point)) != (point, point)}
    return folds | {lower: _folded(lower) for _, lower in folds.values()}


def _blocks_with_case() -> Iterator[range]:
    # Few characters have case; a whole block is asked at a hundredth of the cost of its characters one by one.
    for first in range(0, sys.maxunicode + 1, 0x100):
        block = range(first, first + 0x100)
        text = "".join(map(chr, block))
        if not text == text.lower() == text.upper():
            yield block


def _folded(point: int) -> tuple[int, int]:
    """Return the upper case of a character, and the lower case of that: one character each, as Java has them."""
    text = chr(point)
    upper = next((cased for cased in (text.upper(), text.title()) if len(cased) == 1), text)
    lower = _SIMPLE_LOWER.get(upper, upper.lower())
    return ord(upper), ord(lower)


def _property(name: str, ignore_case: bool) -> str | None:
    if _GENERAL_CATEGORY.fullmatch(name):
        return _CASED if ignore_case and name in _CASE_BOUND else rf"\p{{{name}}}"
    if ignore_case and name in _CASE_BOUND_NAMES:
        return _CASE_BOUND_NAMES[name]
    if ignore_case and name in _CASE_BOUND_JAVA:
        return _ANY_CASE
    return _NAMED.get(name)


def _unicode_property(name: str, ignore_case: bool) -> str | None:
    upper = name.upper()
    upper = _PROPERTY_ALIASES.get(upper, upper)
    if ignore_case and upper in _CASE_BOUND_PROPERTIES:
        return _ANY_CASE
    return _UNICODE_PROPERTIES.get(upper)


def _script(name: str) -> str | None:
    return _known_to_regex("Script", name) if regex.fullmatch(r"[A-Za-z_]+", name) else None


def _block(name: str) -> str | None:
    return _known_to_regex("Block", name) if regex.fullmatch(r"[A-Za-z0-9_ -]+", name) else None


def _known_to_regex(kind: str, name: str) -> str | None:
    item = rf"\p{{{kind}={name}}}"
    try:
        regex.compile(item)
    except regex.error:
        return None
    return item
