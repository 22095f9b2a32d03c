r"""Java's regular expressions carried over to the ``regex`` module.

The dialects differ in what a name in brackets or after a backslash means, in quantifiers (``a{2}{3}``), in nested
brackets, in line ends and in how far a flag reaches; and Java refuses patterns that ``regex`` takes. So the pattern is
read by Java's rules and written out again with nothing left to the dialect. What cannot be carried over exactly is
refused, never guessed.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace

import regex

from mirror.model.java_characters import (
    ESCAPED,
    LINE_TERMINATORS,
    VERTICAL_SPACE,
    character,
    code_point_range,
    either_case,
    named_set,
)
from mirror.model.portable import Portable

FLAGS = regex.VERSION1
"""The flags a translated pattern is compiled with."""

_MOST_REPEATS = 0x7FFFFFFF
_CONTROL = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "a": 0x07, "e": 0x1B}
_WORD_BEFORE = r"(?<=_|[\p{L}\p{Nd}]\p{Mn}*)"
_WORD_AFTER = r"(?:(?=[_\p{L}\p{Nd}])|(?=\p{Mn})(?<=[\p{L}\p{Nd}]\p{Mn}*))"
_NO_WORD_BEFORE = r"(?<!_|[\p{L}\p{Nd}]\p{Mn}*)"
_NO_WORD_AFTER = rf"(?!{_WORD_AFTER})"
_BEFORE_LAST_LINE_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
_LINE_START = r"(?:(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n)))"
_LINE_END = r"(?:(?=[\r\x85\u2028\u2029])|(?<!\r)(?=\n)|\Z)"
_UNREPEATED = regex.compile(r"(?:\\U[0-9a-f]{8}|\\p\{\w+\}|[A-Za-z0-9_])")


class PatternError(Portable, ValueError):
    """A pattern Java refuses, or one that cannot be carried over exactly; says where and why."""

    def __init__(self, pattern: str, position: int, reason: str) -> None:
        super().__init__(f"{reason} near index {position} of {pattern!r}")
        self.pattern = pattern
        self.position = position
        self.reason = reason


def compile_java(pattern: str) -> regex.Pattern[str]:
    """Compile a Java regular expression; its ``fullmatch`` is Java's ``matches``.

    Raises
    ------
    PatternError
        if Java refuses the pattern, or it cannot be carried over exactly.
    """
    return regex.compile(_Reader(pattern).translate(), FLAGS)


def group_names(pattern: str) -> dict[str, int]:
    """Return the numbers of the named groups of a Java regular expression.

    Raises
    ------
    PatternError
        as :func:`compile_java`.
    """
    reader = _Reader(pattern)
    reader.translate()
    return reader.names


@dataclass(frozen=True, slots=True)
class _Flags:
    """Java's inline flags ``i``, ``u``, ``s``, ``m`` and ``d``."""

    ignore_case: bool = False
    unicode_case: bool = False
    dot_all: bool = False
    multiline: bool = False
    unix_lines: bool = False


_FLAG_NAMES = {"i": "ignore_case", "u": "unicode_case", "s": "dot_all", "m": "multiline", "d": "unix_lines"}


@dataclass(frozen=True, slots=True)
class _Piece:
    """A translated part of a pattern; ``bounded`` tells whether its longest match has a known length."""

    text: str
    bounded: bool = True


class _Reader:
    """Reads one pattern from left to right by the rules of ``java.util.regex.Pattern`` (Java 17)."""

    def __init__(self, pattern: str) -> None:
        self._original = pattern
        self._text = _without_quotes(pattern)
        self._at = 0
        self._flags = _Flags()
        self._groups = 0
        self.names: dict[str, int] = {}
        self._references: list[int] = []

    def translate(self) -> str:
        """Return the pattern in the notation of the ``regex`` module."""
        piece = self._alternatives()
        if self._at < len(self._text):
            raise self._error("unmatched closing ')'")
        return self._with_references(piece.text)

    def _with_references(self, text: str) -> str:
        """Resolve back references: one to a group the pattern does not have never matches."""
        for number in set(self._references):
            text = text.replace(_reference(number), f"(?:\\{number})" if number <= self._groups else "(?!)")
        return text

    # --- structure -------------------------------------------------------------------------------------------------

    def _alternatives(self) -> _Piece:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return _Piece("|".join(branch.text for branch in branches), all(branch.bounded for branch in branches))

    def _sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while (char := self._peek()) not in ("", "|", ")"):
            if char in "*+?":
                raise self._error(f"dangling meta character {char!r}")
            atom = self._group() if char == "(" else self._atom()
            if atom is not None:
                pieces.append(self._repeated(atom))
        return _Piece("".join(piece.text for piece in pieces), all(piece.bounded for piece in pieces))

    def _group(self) -> _Piece | None:
        """Read what stands in parentheses; ``None`` for flags alone, which hold until the enclosing group ends."""
        self._at += 1
        flags = self._flags
        opening, lookbehind = self._group_opening()
        if opening is None:
            return None
        content = self._alternatives()
        if self._peek() != ")":
            raise self._error("unclosed group")
        self._at += 1
        self._flags = flags
        if lookbehind and not content.bounded:
            raise self._error("a look-behind without a greatest length is not supported here")
        looks_around = lookbehind or opening in ("(?=", "(?!")
        return _Piece(f"{opening}{content.text})", bounded=looks_around or content.bounded)

    def _group_opening(self) -> tuple[str | None, bool]:
        """Return how the group opens (``None``: flags alone) and whether it looks behind."""
        if self._peek() != "?":
            self._groups += 1
            return "(", False
        self._at += 1
        char = self._take("unknown group type")
        if char in ":=!>":
            return f"(?{char}", False
        if char != "<":
            self._at -= 1
            return self._flags_opening(), False
        char = self._take("unknown look-behind group")
        if char in "=!":
            return f"(?<{char}", True
        self._at -= 1
        name = self._group_name()
        if name in self.names:
            raise self._error(f"named capturing group <{name}> is already defined")
        self._groups += 1
        self.names[name] = self._groups
        return "(", False

    def _flags_opening(self) -> str | None:
        value = True
        while (char := self._take("unknown inline modifier")) not in ":)":
            if char == "-" and value:
                value = False
            elif char in _FLAG_NAMES:
                self._flags = replace(self._flags, **{_FLAG_NAMES[char]: value})
            elif char in "xUc":
                raise self._error(f"the flag (?{char}) is not supported here; write the pattern without it")
            else:
                raise self._error("unknown inline modifier")
        return "(?:" if char == ":" else None

    def _group_name(self) -> str:
        match = regex.compile(r"([a-zA-Z][a-zA-Z0-9]*)>").match(self._text, self._at)
        if match is None:
            raise self._error("a capturing group's name is letters and digits, starts with a letter and ends with '>'")
        self._at = match.end()
        return match[1]

    def _repeated(self, atom: _Piece) -> _Piece:
        """Apply the one quantifier Java reads after an atom; a further ``{n}`` repeats the empty text."""
        char = self._peek()
        if char and char in "?*+":
            self._at += 1
            quantifier, bounded = char, char == "?"
        elif char == "{":
            quantifier, bounded = self._counted()
        else:
            return atom
        if (mode := self._peek()) and mode in "?+":
            self._at += 1
            quantifier += mode
        text = atom.text if _UNREPEATED.fullmatch(atom.text) else f"(?:{atom.text})"
        return _Piece(text + quantifier, atom.bounded and bounded)

    def _counted(self) -> tuple[str, bool]:
        match = regex.compile(r"\{([0-9]+)(,([0-9]*))?").match(self._text, self._at)
        if match is None:
            raise self._error("illegal repetition")
        if self._text[match.end() : match.end() + 1] != "}":
            raise self._error("unclosed counted closure; a comma separates the patterns of a list")
        least, most = int(match[1]), int(match[3] or match[1])
        endless = match[2] is not None and not match[3]
        if max(least, most) > _MOST_REPEATS or most < least:
            raise self._error("illegal repetition range")
        self._at = match.end() + 1
        return f"{{{least},{'' if endless else most}}}", not endless

    # --- atoms -----------------------------------------------------------------------------------------------------

    def _atom(self) -> _Piece:
        char = self._peek()
        match char:
            case "[":
                return _Piece(f"[{self._bracketed()}]")
            case "^":
                self._at += 1
                return _Piece(self._line_start())
            case "$":
                self._at += 1
                return _Piece(self._line_end())
            case ".":
                self._at += 1
                return _Piece(self._any_character())
            case "{":
                return _Piece("")  # a count with nothing before it repeats the empty text
            case "\\":
                return self._escaped_atom()
            case _:
                self._at += 1
                return _Piece(self._literal(ord(char)))

    def _literal(self, point: int) -> str:
        if not self._flags.ignore_case:
            return character(point)
        items = either_case(point, point, beyond_ascii=self._flags.unicode_case)
        return items if items == character(point) else f"[{items}]"

    def _line_start(self) -> str:
        if not self._flags.multiline:
            return r"\A"
        return r"(?:(?!\Z)(?:\A|(?<=\n)))" if self._flags.unix_lines else _LINE_START

    def _line_end(self) -> str:
        if not self._flags.multiline:
            return self._end_of_input()
        return r"(?:(?=\n)|\Z)" if self._flags.unix_lines else _LINE_END

    def _end_of_input(self) -> str:
        return r"(?=\n?\Z)" if self._flags.unix_lines else _BEFORE_LAST_LINE_END

    def _any_character(self) -> str:
        if self._flags.dot_all:
            return r"[\x00-\U0010ffff]"
        return r"[^\n]" if self._flags.unix_lines else f"[^{LINE_TERMINATORS}]"

    def _escaped_atom(self) -> _Piece:
        self._at += 1
        char = self._take("illegal/unsupported escape sequence")
        match char:
            case "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9":
                return self._back_reference(int(char))
            case "k":
                return self._named_back_reference()
            case "A":
                return _Piece(r"\A")
            case "z":
                return _Piece(r"\Z")
            case "Z":
                return _Piece(self._end_of_input())
            case "b":
                if self._peek() == "{":
                    raise self._error(r"\b{g} is not supported here")
                return _Piece(f"(?:{_WORD_BEFORE}{_NO_WORD_AFTER}|{_NO_WORD_BEFORE}{_WORD_AFTER})")
            case "B":
                return _Piece(f"(?:{_WORD_BEFORE}{_WORD_AFTER}|{_NO_WORD_BEFORE}{_NO_WORD_AFTER})")
            case "R":
                if (quantifier := self._peek()) and quantifier in "?*+{":
                    raise self._error(r"a repeated \R is not supported here")
                return _Piece(rf"(?:\r\n|[{VERTICAL_SPACE}])")
            case "X" | "G":
                raise self._error(rf"\{char} is not supported here")
        self._at -= 1
        escaped = self._escaped_character()
        return _Piece(self._literal(escaped) if isinstance(escaped, int) else f"[{escaped}]")

    def _back_reference(self, number: int) -> _Piece:
        while (char := self._peek()).isascii() and char.isdigit() and number * 10 + int(char) <= self._groups:
            number = number * 10 + int(char)
            self._at += 1
        return self._reference_to(number)

    def _named_back_reference(self) -> _Piece:
        if self._take("illegal escape") != "<":
            raise self._error(r"\k is not followed by '<'")
        name = self._group_name()
        if name not in self.names:
            raise self._error(f"named capturing group <{name}> does not exist")
        return self._reference_to(self.names[name])

    def _reference_to(self, number: int) -> _Piece:
        if self._flags.ignore_case:
            raise self._error("a back reference that ignores case is not supported here")
        self._references.append(number)
        return _Piece(_reference(number), bounded=False)

    # --- characters and sets ---------------------------------------------------------------------------------------

    def _escaped_character(self) -> int | str:
        """Read what follows a backslash and means the same in brackets: a character, or a set of them."""
        char = self._take("illegal/unsupported escape sequence")
        if char in _CONTROL:
            return _CONTROL[char]
        if char in ESCAPED:
            return ESCAPED[char]
        if char.lower() in ESCAPED:
            return f"[^{ESCAPED[char.lower()]}]"
        match char:
            case "p" | "P":
                return self._property(complement=char == "P")
            case "0":
                return int(self._matched(r"[0-3][0-7]{2}|[0-7]{1,2}", "illegal octal escape sequence"), 8)
            case "x":
                return self._hexadecimal()
            case "u":
                return self._utf16()
            case "c":
                return ord(self._take("illegal control escape sequence")) ^ 64
            case "N":
                return self._named_character()
        if char.isascii() and char.isalnum():
            raise self._error("illegal/unsupported escape sequence")
        return ord(char)

    def _property(self, *, complement: bool) -> str:
        name = self._matched(r"\{[^}]*\}|[^{]", "unclosed character family")
        name = name[1:-1] if name.startswith("{") else name
        if not name:
            raise self._error("empty character family")
        items = named_set(name, ignore_case=self._flags.ignore_case)
        if items is None:
            raise self._error(f"unknown or unsupported character property name {{{name}}}")
        return f"[^{items}]" if complement else items

    def _hexadecimal(self) -> int:
        digits = self._matched(r"[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\}", "illegal hexadecimal escape sequence")
        point = int(digits.strip("{}"), 16)
        if point > 0x10FFFF:
            raise self._error("hexadecimal codepoint is too big")
        return point

    def _utf16(self) -> int:
        first = int(self._matched("[0-9a-fA-F]{4}", "illegal Unicode escape sequence"), 16)
        low = regex.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self._text, self._at)
        if not 0xD800 <= first < 0xDC00 or low is None:
            return first
        self._at = low.end()
        return 0x10000 + ((first - 0xD800) << 10) + (int(low[1], 16) - 0xDC00)

    def _named_character(self) -> int:
        name = self._matched(r"\{[^}]*\}", "illegal character name escape sequence")[1:-1]
        try:
            return ord(unicodedata.lookup(name))
        except (KeyError, TypeError) as unknown:
            raise self._error(f"unknown character name [{name}]") from unknown

    def _bracketed(self, *, nested_in_and: bool = False) -> str:
        """Read a class up to its ``]``; return it as an item of a set.

        What follows ``&&`` without a bracket of its own is a class too, and leaves the ``]`` to the one around it.
        """
        self._at += 0 if nested_in_and else 1
        negated = not nested_in_and and self._peek() == "^"
        self._at += negated
        items = ""
        while True:
            char = self._peek()
            if char == "":
                raise self._error("unclosed character class")
            if char == "]" and items:
                self._at += 0 if nested_in_and else 1
                return f"[^{items}]" if negated else items
            if char == "[":
                items += self._bracketed()
            elif self._text.startswith("&&", self._at):
                items = self._intersected(items)
            else:
                items += self._class_range()

    def _intersected(self, left: str) -> str:
        self._at += 2
        right = ""
        while (char := self._peek()) not in ("]", "&"):
            if char == "":
                raise self._error("unclosed character class")
            right += self._bracketed(nested_in_and=char != "[")
        if not left and not right:
            raise self._error("bad class syntax")
        if left and not right:
            raise self._error("an intersection with nothing is not supported here")
        if not left:
            return right
        return f"[[{left}]&&[{right}]]"

    def _class_range(self) -> str:
        first = self._class_character()
        if isinstance(first, str):
            return first
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("[", "]"):
            return self._range(first, first)
        self._at += 1
        last = self._class_character()
        if isinstance(last, str) or last < first:
            raise self._error("illegal character range")
        return self._range(first, last)

    def _class_character(self) -> int | str:
        char = self._take("unclosed character class")
        return self._escaped_character() if char == "\\" else ord(char)

    def _range(self, first: int, last: int) -> str:
        if self._flags.ignore_case:
            return either_case(first, last, beyond_ascii=self._flags.unicode_case)
        return character(first) if first == last else code_point_range(first, last)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, otherwise: str) -> str:
        char = self._peek()
        if not char:
            raise self._error(otherwise)
        self._at += 1
        return char

    def _matched(self, pattern: str, otherwise: str) -> str:
        match = regex.compile(pattern).match(self._text, self._at)
        if match is None:
            raise self._error(otherwise)
        self._at = match.end()
        return match[0]

    def _error(self, reason: str) -> PatternError:
        return PatternError(self._original, self._at, reason)


def _reference(number: int) -> str:
    """Return a stand-in for a back reference, which no translated text contains by itself."""
    return f"\\g<{number}>"


def _without_quotes(pattern: str) -> str:
    r"""Return the pattern with ``\Q...\E`` written as escaped characters."""
    text: list[str] = []
    at, quoted, first_quoted = 0, False, False
    while at < len(pattern):
        char = pattern[at]
        if quoted and pattern.startswith("\\E", at):
            at, quoted = at + 2, False
            continue
        if quoted:
            text.append(_quoted(char, first=first_quoted))
            at, first_quoted = at + 1, False
        elif pattern.startswith("\\Q", at):
            at, quoted, first_quoted = at + 2, True, True
        else:
            width = 2 if char == "\\" else 1
            text.append(pattern[at : at + width])
            at += width
    return "".join(text)


def _quoted(char: str, *, first: bool) -> str:
    if char.isascii() and char.isdigit():
        return f"\\x3{char}" if first else char
    return char if not char.isascii() or char.isalpha() else f"\\{char}"
