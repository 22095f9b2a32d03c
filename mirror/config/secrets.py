"""Which settings are secret: their values are shown nowhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HIDDEN = "(hidden)"
_WORDS = ("password", "passphrase", "pwd", "jaas", "secret", "key", "token", "credential", "user.info")
# What has such a word in its name and is none.
_OPEN = (
    *("key.converter", "key.serializer", "key.deserializer", "token.endpoint.url", "partitioner.ignore.keys"),
    *("keystore.location", "keystore.type", "keymanager.algorithm", "auth.credentials.source"),
    "client.credentials.client.id",
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """What stands before a secret in a text, and stays there, and what the secret itself looks like.

    Neither has groups of its own. Whatever is repeated is bounded: what others print may be one long word.
    """

    name: str
    before: str
    secret: str


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
# A word of letters and digits, as nobody writes them but for a secret.
_MADE = r"(?=\S{0,128}\d)(?=\S{0,128}[a-z])\S{8,}"
# Within a text it is of no account how a name begins.
_ENDING = (
    r"(?:passw(?:or)?d|pwd|passphrase|secret|token|credential|user\.info|(?:api|private|access|account|encryption)[_-]?key"
    r"|sharedaccesssignature|keystore\.key|authorization)[\w.-]{0,64}"
)
_NAMED = rf"[\w.-]{{0,64}}{_ENDING}"
_SIGN = r"""(?:\[\w*\])?(?:\x1b\[[\d;]*m)?(?:\\*["']?\s*(?::=|[=:]>?)\s*|["']?>)"""
_OF_KEYTOOL = r"\w{0,16}pass(?:in|out)?"
_OF_AUTH = r"(?:[\w-]{1,32}-)?auth"
# What may stand behind "password" in a sentence: "password is wrong", "password authentication failed".
_ORDINARY_WORDS = (
    "a all also an and any are as at be been before being but by can cannot could did do does for from had has have if "
    "in is isn't it its may might must my no not of on only or per shall should than that the their this to too until "
    "via was wasn't were when where which while will with without would your "
    "accepted bad change changed changes correct denied empty encrypted expired expires failed given hidden incorrect "
    "invalid mismatch missing needed protected provided refused rejected required reset saved set specified stored "
    "supplied unset updated used wrong "
    "auth authentication based callback check config configuration encoder entry field file hash length login manager "
    "option parameter policy prompt property provider rotation setting store update value verification"
)
_ORDINARY = rf"""(?:{"|".join(_ORDINARY_WORDS.split())})(?=[.,;:!?)"']{{0,8}}(?:\s|\Z))"""
# What -p is followed by where it is no password: ports (9092, 8080:80/tcp), and name=value.
_OPEN_BEHIND_P = r"""(?:[\d:./,-]+(?:/(?:tcp|udp))?(?=\s|\Z)|[a-z_][\w.-]{0,64}=[^\s=])"""
# The letter of the option, the programs of which it is a password, and what may be behind it: a blank behind -p is
# of another rule, since mysql then asks for the password.
_OF_PROGRAMS = (
    ("p", r"(?:(?:mysql|mariadb)[\w-]{0,16}|sshpass)", r"(?!\s)"),
    ("a", r"redis-cli", r"[ \t]*"),
    ("w", r"ldap[a-z]{2,16}", r"[ \t]*"),
)
_RULES = (
    # Authorization: Basic ..., Cookie: a=..; b=..: the whole line.
    _Rule("header", r"\b(?:authorization|(?:set-)?cookie)\s*:\s*", r"""[^\s"'][^\r\n"']*"""),
    # Name and value as two fields, as of variables in YAML, JSON and XML.
    _Rule(
        "fields",
        rf"""\bname\\*["']?\s*[:=]\s*\\*["']?{_NAMED}\\*["']?\s*,?\s*\\*["']?value\\*["']?\s*[:=]\s*""",
        _VALUE,
    ),
    # password=..., "token": "...", <password>...
    _Rule("assignment", rf"{_ENDING}{_SIGN}", _VALUE),
    # DB_PASS=..., "pass": "..."; "PASS: 3 tests" is none.
    _Rule("short_assignment", r"\b(?:\w{1,64}[_.-])?pass(?:=|\\*[\"']\s*:\s*)", _VALUE),
    # --db-password ..., -token ..., --api-key ..., --pass=..., --auth ...
    _Rule(
        "option",
        rf"(?:--|(?<!\S)-){_NAMED}\s+|--(?:[\w-]{{0,32}}-)?(?:pass|key)(?:\s+|=)|--{_OF_AUTH}(?:\s+|=)",
        _VALUE,
    ),
    # -storepass ... of keytool, -passin ... of openssl.
    _Rule("java_option", rf"(?<!\S)-{_OF_KEYTOOL}\s+", _VALUE),
    # -p ...; mkdir -p DIRECTORY is none.
    _Rule("p_option", rf"(?<!\S)(?<!mkdir )(?-i:-p)[ \t]+(?!-|{_OPEN_BEHIND_P})", _VALUE),
    # mysql -p..., sshpass -p..., redis-cli -a ..., ldapsearch -w ...
    *(
        _Rule(f"{letter}_of_program", rf"\b{program} (?:[^\s|;]{{1,64}} ){{0,8}}?(?-i:-{letter}){blank}", _VALUE)
        for letter, program, blank in _OF_PROGRAMS
    ),
    # curl -u ann:..., --oauth2-bearer ...
    _Rule("curl", r"(?<!\S)(?:-u|--(?:proxy-)?user)\s*[^\s:]{1,64}:|(?<!\S)--oauth2-bearer\s+", _VALUE),
    _Rule("bearer", r"\bBearer\s+", _VALUE),
    _Rule("signature", r"[?&](?:X-\w{1,16}-)?sig(?:nature)?=", _VALUE),
    _Rule("sql", r"\b(?:password|identified\s+by)\s+(?=')", _VALUE),
    # password ..., as in .netrc, and "the password is ..."
    _Rule("password", rf"passw(?:or)?d[ \t]+(?![-(\[<|,;.)]|{_ORDINARY})|passphrase[ \t]+(?!{_ORDINARY})", _VALUE),
    _Rule("said", rf"{_ENDING}[ \t]+(?:(?:is|was|to)[ \t]+)?(?={_MADE})", r"\S+"),
    # jdbc:oracle:thin:ann/...@there, sqlplus ann/...@there, or that argument alone
    _Rule("oracle", r"(?:\bjdbc:oracle:\w{1,16}:|\bsqlplus[ \t]+|\A)[^\s/@:]{1,64}/", r"\S{1,512}(?=@)"),
    # ann:...@there; User:ann@REALM is a principal.
    _Rule("login", r"(?<![\w.-])(?!(?-i:User):)[\w.+-]{1,64}:(?!//)", r"\S{1,512}(?=@[\w\[])"),
)
_IN_TEXT = re.compile("|".join(f"(?P<{each.name}>{each.before}){each.secret}" for each in _RULES), re.IGNORECASE)
_WORD = re.compile(r"\S+")
# Also one whose beginning was cut off.
_PRIVATE_KEY = re.compile(
    r"(?:-----BEGIN [A-Z ]*PRIVATE KEY-----|\A\s*(?:[A-Za-z0-9+/=]+\s+)+(?=-----END [A-Z ]*PRIVATE KEY-----))"
    r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# An argument whose value is a secret: --password x, and PASSWORD=x, or --password=x, to its end.
_OPTION = re.compile(rf"--?(?:{_NAMED}|{_OF_KEYTOOL}|key|{_OF_AUTH}|(?:proxy-)?user|oauth2-bearer)|-u", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    rf"\A((?:--?)?(?:{_NAMED}|(?:\w+[_.-])?pass|key)=|--{_OF_AUTH}=).*\Z", re.IGNORECASE | re.DOTALL
)
# Those of -p, which may be behind a blank or not.
_BEHIND_P = re.compile(rf"(?!-|{_OPEN_BEHIND_P}).*", re.IGNORECASE | re.DOTALL)
_PROGRAMS = {f"-{letter}": re.compile(rf"(?:.*/)?{program}") for letter, program, _ in _OF_PROGRAMS}


def is_secret(key: str) -> bool:
    """Tell whether the value of a key of a file or client is a secret, or may hold one, in whatever case it is."""
    key = key.lower()
    for each in _OPEN:
        key = key.replace(each, "")
    return any(word in key for word in _WORDS)


def holds_secrets(client: Mapping[str, str]) -> bool:
    """Tell whether properties of a client hold a secret, or name a store that does."""
    return any(value and (is_secret(key) or key == "ssl.keystore.location") for key, value in client.items())


def shown(key: str, value: str) -> str:
    """Return a value for people, hidden if it is secret; a placeholder tells only where the secret is.

    Of an address who logs in there, and what of its query has the name of a secret.
    """
    if value and is_secret(key) and not (value.startswith("${") and value.endswith("}")):
        return HIDDEN
    return without_secrets(value) if "@" in value or "://" in value else value


def without_secrets(text: str) -> str:
    """Return a text that others have written with what looks like a secret hidden; nothing tells one without a name."""
    text = _WORD.sub(lambda found: _without_login(found[0]), _PRIVATE_KEY.sub(HIDDEN, text))
    return _IN_TEXT.sub(lambda found: f"{found[found.lastgroup or 0]}{HIDDEN}", text)


def _without_login(word: str) -> str:
    """Return a word without who logs in to an address, if it has one; what it says may hold any sign."""
    before, scheme, rest = word.partition("://")
    login, at, where = rest.rpartition("@")
    return f"{before}{scheme}{HIDDEN}{at}{where}" if login else word


def command_without_secrets(argv: Sequence[str]) -> str:
    """Return a command as a shell takes it, secrets hidden before it is quoted: quotes in quotes break values up."""
    option = next((each for each, program in _PROGRAMS.items() if argv and program.fullmatch(argv[0])), None)
    pairs = zip(("", *argv), argv, strict=False)
    return shlex.join(_argument_without_secrets(before, each, option) for before, each in pairs)


def _argument_without_secrets(before: str, argument: str, option: str | None) -> str:
    """Return an argument by the one before it; ``option`` is that of the program which is followed by a password."""
    if _OPTION.fullmatch(before) or (before == "-p" and _BEHIND_P.fullmatch(argument)):
        return HIDDEN
    if option not in (None, "-p") and before == option:
        return HIDDEN
    if option is not None and argument.startswith(option) and argument != option:
        return f"{option}{HIDDEN}"
    return without_secrets(_ASSIGNMENT.sub(rf"\1{HIDDEN}", argument))
