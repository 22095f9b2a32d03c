"""What is written into ``sasl.jaas.config`` is read back: whatever the values hold, however they are quoted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.jaas import BadJaas, Login, parse_login

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
GAPS = st.sampled_from([" ", "\t", "\n", " \r\n ", "/* ; = */", " // a 'comment\n"])
KEYS = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_.$-]*", fullmatch=True)


def quoted(value: str, quote: str) -> str:
    """Write a value as Java's tokenizer takes it."""
    escapes = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r"}
    return f"{quote}{''.join(escapes.get(character, character) for character in value)}{quote}"


@given(st.data(), st.dictionaries(KEYS, st.text(), max_size=4), st.sampled_from(["required", "OPTIONAL", "Sufficient"]))
def test_quoted_values_are_read_back(data: st.DataObject, options: dict[str, str], flag: str) -> None:
    parts = [MODULE, data.draw(GAPS), flag]
    for key, value in options.items():
        quote = data.draw(st.sampled_from("\"'"))
        parts += [data.draw(GAPS), key, data.draw(st.sampled_from(["=", " = ", "=/**/"])), quoted(value, quote)]
    parts += [
        data.draw(st.sampled_from(["", " ", "\n"])),
        ";",
        data.draw(st.sampled_from(["", "\n", " // end", "/* end */"])),
    ]
    assert parse_login("".join(parts)) == Login(MODULE, flag.lower(), options)


@given(st.text(alphabet="aB1 .-;='\"\\/*\n\x85\xe9"))
def test_any_text_is_read_or_refused_without_its_values(text: str) -> None:
    secret = "s3cr3t-"
    try:
        told = parse_login(f"{MODULE} required password='{secret}' {text}").module
    except BadJaas as problem:
        told = str(problem)
    assert secret not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{MODULE} required username='a'", "semicolon"),
        (f"{MODULE} username='a';", "one of required"),
        (f"{MODULE} required password=p@ss;", "quotes"),
        ("", "names 0 login modules"),
        (f"{MODULE} required; {MODULE} required;", "names 2 login modules"),
    ],
)
def test_what_is_refused_is_told(text: str, told: str) -> None:
    with pytest.raises(BadJaas, match=told):
        parse_login(text)


@pytest.mark.parametrize("password", ["plain", 'with "quotes"', "back\\slash", "a=b;c", ""])
def test_a_login_is_written_as_it_is_read(password: str) -> None:
    login = Login("x.PlainLoginModule", "required", {"username": "ann", "password": password})
    assert parse_login(login.as_text()) == login
