"""Which settings are secret: their values are shown nowhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

HIDDEN = "(hidden)"
_WORDS = ("password", "jaas", "secret", "key", "passphrase", "token")
# What has such a word in its name and is none.
_OPEN = (
    *("key.converter", "key.serializer", "key.deserializer", "token.endpoint.url", "partitioner.ignore.keys"),
    *("keystore.location", "keystore.type", "keymanager.algorithm"),
)

# A value behind a name: password=x, "token": "x", --api-key x; Bearer x; and who logs in to an address.
_QUOTED = r"""\\+"[^"]*"|"(?:[^"\\]|\\.)*"|'[^']*'"""
# A block of YAML: "password: |", and the lines that are indented behind it, or empty.
_BLOCK = r"(?:!!str\s+)?[|>][\d+-]*[ \t]*(?:#[^\n]*)?(?:\r?\n(?:[ \t]+[^\r\n]*|(?=\r?\n)))+"
# Commas and semicolons too may be of a secret, unless another name follows them.
_MORE = r"""(?:[^\s,;&]|[,;&](?!\\*["']?[\w.-]{1,64}\\*["']?\s*[=:]))*"""
# A quote that is not closed: the rest of it was cut off.
_UNCLOSED = r"""["'][^\r\n]*"""
_VALUE = (
    rf"""(?:{_QUOTED}|{_BLOCK}|(?:(?:Bearer|Basic|Digest|Token|ApiKey|Negotiate|NTLM)\s+|!!?[\w./-]{{1,64}}\s+)?"""
    rf"""[^\s"']{_MORE}|{_UNCLOSED})"""
)
# Names are bounded: what others print may be one long word. Within a text it is of no account how they begin.
_ENDING = (
    r"(?:passw(?:or)?d|pwd|passphrase|secret|token|credential|(?:api|private|access|account|encryption)[_-]?key"
    r"|sharedaccesssignature|keystore\.key|authorization)[\w.-]{0,64}"
)
_NAMED = rf"[\w.-]{{0,64}}{_ENDING}"
# "PASS: 3 tests" is none, nor is "key=value". keytool -storepass x, openssl -passin pass:x.
_OF_KEYTOOL = r"\w{0,16}pass(?:in|out)?"
_SHORT = (
    r"\b(?:\w{1,64}[_.-])?pass(?:=|\\*[\"']\s*:\s*)|--(?:[\w-]{0,32}-)?(?:pass|key)(?:\s+|=)|[?&]sig="
    r"|(?<!\S)(?:-u|--(?:proxy-)?user)\s*[^\s:]{1,64}:|(?<!\S)--oauth2-bearer\s+"
    rf"|(?<!\S)-{_OF_KEYTOOL}\s+"
)
# Name and value as two fields, as of variables in YAML, JSON and XML; and PASSWORD 'x' of SQL.
_FIELDS = rf"""\bname\\*["']?\s*[:=]\s*\\*["']?{_NAMED}\\*["']?\s*,?\s*\\*["']?value\\*["']?\s*[:=]\s*"""
_SQL = r"\b(?:password|identified\s+by)\s+(?=')"
_SIGN = r"""(?:\[\w*\])?(?:\x1b\[[\d;]*m)?(?:\\*["']?\s*[=:]>?\s*|>)"""
_IN_TEXT = re.compile(
    rf"""(?P<header>\b(?:authorization|(?:set-)?cookie)\s*:\s*)[^\s"'][^\r\n"']*"""
    rf"|(?P<name>{_FIELDS}|{_ENDING}{_SIGN}|--{_NAMED}\s+|\bBearer\s+|{_SQL}|{_SHORT}){_VALUE}"
    r"|(?P<scheme>://)\S+(?=@)",
    re.IGNORECASE,
)
# Also one whose beginning was cut off.
_PRIVATE_KEY = re.compile(
    r"(?:-----BEGIN [A-Z ]*PRIVATE KEY-----|\A\s*(?:[A-Za-z0-9+/=]+\s+)+(?=-----END [A-Z ]*PRIVATE KEY-----))"
    r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# An argument whose value is a secret: --password x, and PASSWORD=x, or --password=x, to its end.
_OPTION = re.compile(rf"--?(?:{_NAMED}|{_OF_KEYTOOL}|key|(?:proxy-)?user|oauth2-bearer)|-u", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"\A((?:--?)?(?:{_NAMED}|(?:\w+[_.-])?pass|key)=).*\Z", re.IGNORECASE | re.DOTALL)


def is_secret(key: str) -> bool:
    """Tell whether the value of a key of a file or client is a secret, or may hold one."""
    name = next((key.replace(each, "") for each in _OPEN if each in key), key)
    return any(word in name for word in _WORDS)


def holds_secrets(client: Mapping[str, str]) -> bool:
    """Tell whether properties of a client hold a secret, or name a store that does."""
    return any(value and (is_secret(key) or key == "ssl.keystore.location") for key, value in client.items())


def shown(key: str, value: str) -> str:
    """Return a value for people, hidden if it is secret; a placeholder tells only where the secret is.

    Of an address who logs in there, and what of its query has the name of a secret.
    """
    if value and is_secret(key) and not (value.startswith("${") and value.endswith("}")):
        return HIDDEN
    return without_secrets(value) if "://" in value else value


def without_secrets(text: str) -> str:
    """Return a text that others have written with what looks like a secret hidden; nothing tells one without a name."""
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    return _IN_TEXT.sub(lambda found: f"{found['header'] or found['name'] or found['scheme']}{HIDDEN}", text)


def command_without_secrets(argv: Sequence[str]) -> str:
    """Return a command as a shell takes it, secrets hidden before it is quoted: quotes in quotes break values up."""
    hidden = (
        HIDDEN if _OPTION.fullmatch(before) else without_secrets(_ASSIGNMENT.sub(rf"\1{HIDDEN}", each))
        for before, each in zip(("", *argv), argv, strict=False)
    )
    return shlex.join(hidden)
