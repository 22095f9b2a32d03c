"""Which settings are secret: their values are shown nowhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from mirror.config.secret_rules import HIDDEN, NAMED, OF_AUTH, OF_KEYTOOL, without_named

_WORDS = ("password", "passwd", "passphrase", "pwd", "jaas", "secret", "key", "token", "credential", "user.info")
# What has such a word in its name and is none.
_OPEN = (
    *("key.converter", "key.serializer", "key.deserializer", "token.endpoint.url", "partitioner.ignore.keys"),
    *("keystore.location", "keystore.type", "keymanager.algorithm", "auth.credentials.source"),
    "client.credentials.client.id",
)
_PASS = re.compile(r"(?:\A|[._-])pass\Z")
_WORD = re.compile(r"\S+")
# A key of a file, and what ends it: within a value where the line before ends with a backslash too many.
_KEY = re.compile(r"[\w>-]{1,64}(?:\.[\w>-]{1,64})+(?=\s*(?:=|:(?!\d{1,5}\b)))")
_SERVER = re.compile(r"\s*(?:(?:\[[\da-fA-F:.%]+\]|[\w.-]+):\d{1,5})?\s*")
# An argument whose value is a secret: --password x, and PASSWORD=x, or --password=x, to its end.
_OPTION = re.compile(rf"--?(?:{NAMED}|{OF_KEYTOOL}|key|{OF_AUTH}|oauth2-bearer)|-pw", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    rf"\A(?!(?-i:(?:OLD)?PWD)=/)((?:--?)?(?:{NAMED}|(?:\w+[_.-])?pass|key)=|--{OF_AUTH}=|--from-literal=[\w.-]+=).*\Z",
    re.IGNORECASE | re.DOTALL,
)
# What would end a word in a text, and does not within an argument.
_ENDS_WORD = re.compile(r"""[\s"']""")
_WITHIN_ARGUMENT = 0xF0000
_STANDS_FOR = re.compile("[\U000f0000-\U000fffff]")


def is_secret(key: str) -> bool:
    """Tell whether the value of a key of a file or client is a secret, or may hold one, in whatever case it is."""
    key = key.lower()
    for each in _OPEN:
        key = key.replace(each, "")
    return any(word in key for word in _WORDS) or _PASS.search(key) is not None


def holds_secrets(client: Mapping[str, str]) -> bool:
    """Tell whether properties of a client hold a secret, or name a store that does."""
    return any(value and (is_secret(key) or key == "ssl.keystore.location") for key, value in client.items())


def secret_key_in(text: str) -> re.Match[str] | None:
    """Return where a text has a key of a file, with a dot, and a value of it that is secret; None: nowhere."""
    return next((each for each in _KEY.finditer(text) if is_secret(each[0])), None)


def shown(key: str, value: str) -> str:
    """Return a value for people, hidden if it is secret; a placeholder tells only where the secret is.

    Of any other what in it looks like a secret: who logs in to an address, and options of a login module, which are a
    key and its value where the line before did not end with a backslash.
    """
    if value and is_secret(key):
        return value if value.startswith("${") and value.endswith("}") else HIDDEN
    # Names of brokers may tell of secrets, and no port is one. What comes behind a backslash too many is another line.
    if key.endswith("bootstrap.servers") and all(_SERVER.fullmatch(each) for each in value.split(",")):
        return value
    joined = secret_key_in(value)
    if joined is not None:
        # All that follows is its value, blanks and commas, too.
        return f"{shown(key, value[: joined.end()])} = {HIDDEN}"
    before = f"{key.rpartition('.')[2]}="
    whole = without_secrets(f"{before}{value}")
    return whole.removeprefix(before) if whole.startswith(before) else HIDDEN


def without_secrets(text: str) -> str:
    """Return a text that others have written with what looks like a secret hidden; nothing tells one without a name."""
    return without_named(_WORD.sub(lambda found: _without_login(found[0]), text))


def _without_login(word: str) -> str:
    """Return a word without who logs in to an address, if it has one; what it says may hold any sign."""
    before, scheme, rest = word.partition("://")
    login, at, where = rest.rpartition("@")
    return f"{before}{scheme}{HIDDEN}{at}{where}" if login else word


def command_without_secrets(argv: Sequence[str]) -> str:
    """Return a command as a shell takes it, secrets hidden before it is quoted: quotes in quotes break values up."""
    pairs = zip(("", *argv), argv, strict=False)
    words = (_ENDS_WORD.sub(_stand_in, _argument_without_secrets(before, each)) for before, each in pairs)
    # Once more as a whole: what an argument is may stand some words before it.
    shown_words = without_named(" ".join(words)).split(" ")
    return shlex.join(
        _STANDS_FOR.sub(lambda found: chr(ord(found[0]) - _WITHIN_ARGUMENT), each) for each in shown_words
    )


def _stand_in(found: re.Match[str]) -> str:
    return chr(ord(found[0]) + _WITHIN_ARGUMENT)


def _argument_without_secrets(before: str, argument: str) -> str:
    if _OPTION.fullmatch(before):
        return HIDDEN
    return without_secrets(_ASSIGNMENT.sub(rf"\1{HIDDEN}", argument))
