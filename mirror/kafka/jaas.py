"""``sasl.jaas.config`` as Kafka reads it: ``LOGIN_MODULE FLAG (KEY=VALUE)*;``.

Kafka's parser splits the text with ``java.io.StreamTokenizer``: words of letters, digits and ``.-_$``, numbers (which
it takes nowhere), values in single or double quotes with C's escapes, ``//`` and ``/* */`` comments; one ``/`` alone
comments the line out too. A file of logins has the same in named sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_QUOTES: Final = "\"'"
_LINE_ENDS: Final = "\n\r"
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_DIGITS: Final = "0123456789.-"
_NUMBER: Final = "a number"
_OCTAL: Final = "01234567"
# What Java makes of the end of the text where a character is due.
_NO_CHARACTER: Final = "\uffff"


class BadJaas(ValueError):
    """A text that Kafka refuses; the message says why, and shows no value."""


@dataclass(frozen=True, slots=True)
class Login:
    """One login module and its options."""

    module: str
    flag: str
    options: dict[str, str]

    def as_text(self) -> str:
        """Return it as ``sasl.jaas.config`` has it."""
        quoted = {key: re.sub(r'["\\]', r"\\\g<0>", value) for key, value in self.options.items()}
        return " ".join([self.module, self.flag, *(f'{key}="{value}"' for key, value in quoted.items())]) + ";"


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a quoted text (``mark`` is empty), a number, or a character that stands for itself."""

    mark: str
    text: str | None


def parse_login(text: str) -> Login:
    """Return the one login module that a text names.

    Raises
    ------
    BadJaas
        if Kafka refuses it.
    """
    tokens = _tokens(text)
    logins = [_login(token, tokens) for token in tokens]
    if len(logins) != 1:
        raise BadJaas(f"it names {len(logins)} login modules; one is needed")
    return logins[0]


def login_in_file(text: str, section: str) -> Login:
    """Return the first login module of a section of a file of logins: ``SECTION { MODULE FLAG (KEY=VALUE)*; };``.

    Raises
    ------
    BadJaas
        if the file has no such section, or cannot be read as Java does.
    """
    tokens = _tokens(text)
    names = []
    for name in tokens:
        opened = next(tokens, None)
        if name.text is None or opened is None or opened.mark != "{":
            raise BadJaas('a section is written NAME { LOGIN_MODULE required KEY="VALUE"; };')
        logins = []
        for token in tokens:
            if token.mark == "}":
                break
            logins.append(_login(token, tokens))
        closed = next(tokens, None)
        if closed is None or closed.mark != ";" or not logins:
            raise BadJaas(f"the section {name.text} does not end with }}; or has no login module")
        if name.text == section:
            return logins[0]
        names.append(name.text)
    raise BadJaas(f"there is no section {section}; there is {', '.join(names) or 'none'}")


def _login(first: _Token, tokens: Iterator[_Token]) -> Login:
    flag = next(tokens, None)
    if not first.text:
        raise BadJaas("it does not begin with a login module")
    if flag is None or flag.text is None or flag.text.lower() not in _FLAGS:
        raise BadJaas(f"behind the login module one of {', '.join(_FLAGS)} is needed")
    options: dict[str, str] = {}
    for token in tokens:
        if token.mark == ";":
            return Login(first.text, flag.text.lower(), options)
        equals, value = next(tokens, None), next(tokens, None)
        if equals is None or equals.mark != "=" or value is None or value.text is None:
            raise BadJaas(
                "a value is missing, or has to stand in quotes: only letters, digits behind them and .-_$ need none"
            )
        # Kafka takes a value without a key too; nothing ever asks for it.
        if token.text is not None:
            options[token.text] = value.text
    raise BadJaas("the semicolon at the end is missing")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        character = text[at]
        if character <= " ":
            at += 1
        elif character in _QUOTES:
            content, at = _quoted(text, at)
            yield _Token("", content)
        elif character == "/":
            at = _behind_comment(text, at + 1)
        elif character in _DIGITS:
            token, at = _number(text, at)
            yield token
        elif _begins_word(character):
            begin = at
            while at < len(text) and (_begins_word(text[at]) or text[at] in _DIGITS):
                at += 1
            yield _Token("", text[begin:at])
        else:
            at += 1
            yield _Token(character, None)


def _begins_word(character: str) -> bool:
    return (character.isascii() and character.isalpha()) or character in "_$" or character >= "\xa0"


def _number(text: str, at: int) -> tuple[_Token, int]:
    """Return what begins with a digit, a dot or a minus, and where the text goes on."""
    end = at + (text[at] == "-")
    if end > at and text[end : end + 1] not in tuple("0123456789."):
        return _Token("-", None), end
    dots = 0
    while end < len(text) and text[end] in "0123456789." and (text[end] != "." or not dots):
        dots += text[end] == "."
        end += 1
    return _Token(_NUMBER, None), end


def _behind_comment(text: str, at: int) -> int:
    """Return where the text goes on behind a comment whose first slash stands before ``at``."""
    if text[at : at + 1] == "*":
        end = text.find("*/", at + 1)
        return len(text) if end < 0 else end + 2
    # Of what follows a single slash the first character is passed whatever it is, a line's end too.
    at += 1
    while at < len(text) and text[at] not in _LINE_ENDS:
        at += 1
    return at


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return what stands in the quotes that open at ``at``, and where the text goes on; a line's end closes them."""
    quote, content = text[at], []
    at += 1
    while at < len(text) and text[at] != quote and text[at] not in _LINE_ENDS:
        if text[at] == "\\":
            character, at = _escaped(text, at + 1)
            content.append(character)
        else:
            content.append(text[at])
            at += 1
    return "".join(content), at + 1 if text[at : at + 1] == quote else at


def _escaped(text: str, at: int) -> tuple[str, int]:
    """Return the character that is written behind a backslash, and where the text goes on."""
    if at >= len(text):
        return _NO_CHARACTER, at
    if text[at] not in _OCTAL:
        return _ESCAPES.get(text[at], text[at]), at + 1
    most = 3 if text[at] <= "3" else 2
    end = at + 1
    while end < min(at + most, len(text)) and text[end] in _OCTAL:
        end += 1
    return chr(int(text[at:end], 8)), end
