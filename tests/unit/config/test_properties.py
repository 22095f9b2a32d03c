"""Properties files: Java's syntax, and where each key stands."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.errors import ConfigError
from mirror.config.properties import PropertiesFile, parse, read
from tests.strategies import UNICODE


@given(values=st.dictionaries(UNICODE, UNICODE))
def test_what_is_written_by_java_s_rules_reads_back(values: dict[str, str]) -> None:
    assert parse(javaproperties.dumps(values, timestamp=False)).values == values


# Each was asked of java.util.Properties.
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\nb:2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a \t= \t 1 \t", {"a": "1 \t"}),
        ("a==1\nb=:2\nc : =3", {"a": "=1", "b": ":2", "c": "=3"}),
        ("a\\=b\\:c\\ d = 1", {"a=b:c d": "1"}),
        ("a = 1\na = 2", {"a": "2"}),
        ("# a=1\n ! b=2\nc=#3", {"c": "#3"}),
        ("a=1,\\\n    2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\n#2", {"a": "1#2"}),
        ("\\\n# comment\nb=2", {"b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\n\\", {"a": "1", "": ""}),
        ("a=1\n\\\r\n", {"a": "1"}),
        ("a=\\u00e9\\t\\n\\q\\\\", {"a": "é\t\nq\\"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("=v", {"": "v"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        ("\fa\f=\f1", {"a": "1"}),
        ("a=1\x0bb=2\x85c=3", {"a": "1\x0bb=2\x85c=3"}),
    ],
)
def test_syntax_is_java_s(text: str, values: dict[str, str]) -> None:
    assert parse(text).values == values


def test_a_key_stands_on_the_line_it_starts_on() -> None:
    file = parse("# one\n\na = 1,\\\n  2\n! five\nb = 2\r\n\rc = 3\na = again")
    assert [(entry.key, entry.line) for entry in file.entries] == [("a", 3), ("b", 6), ("c", 8), ("a", 9)]
    assert (file.line_of("a"), file.line_of("b"), file.line_of("nowhere")) == (9, 6, None)


def test_a_file_is_latin_1_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes(b"a=\xe9")
    assert read(file).values == {"a": "é"}


def test_a_malformed_escape_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("a=1\nb=\\u00zz\n")
    with pytest.raises(ConfigError) as refusal:
        read(file)
    assert str(refusal.value).startswith(f"{file}:2: malformed escape")


@pytest.mark.parametrize(
    ("lines", "at", "key", "secret"),
    [
        ("clusters = A, B\\\nB.sasl.password = s3cret", 1, "clusters", "B.sasl.password"),
        (
            "a = 1\nA->B.topics = orders,\\\n  bills\\\n\tB.ssl.key.password=s3cret",
            2,
            "A->B.topics",
            "B.ssl.key.password",
        ),
        (
            "A->B.enabled = true\\\nA->B.producer.ssl.key.password : s3cret",
            1,
            "A->B.enabled",
            "A->B.producer.ssl.key.password",
        ),
    ],
)
def test_a_secret_that_a_backslash_too_many_makes_part_of_another_value_is_refused_and_not_shown(
    lines: str, at: int, key: str, secret: str
) -> None:
    """Whatever was said of that value showed it: of a cluster of that name, of topics that match nothing."""
    with pytest.raises(ConfigError) as refusal:
        parse(lines)
    end = lines.count("\n")
    assert str(refusal.value) == (
        f"line {at}: {key}: line {end} ends with a backslash, so that {secret} of line {end + 1} has no effect and is "
        "part of this value; remove that backslash"
    )


@pytest.mark.parametrize(
    "lines",
    [
        'A.sasl.jaas.config = a.PlainLoginModule required \\\n  my.password="x" \\\n  user="y";',
        "A.bootstrap.servers = kafka-1:9092,\\\n  kafka-token.example.com:9092",
        "topics = orders,\\\n  user.tokens,\\\n  audit.key",
    ],
)
def test_values_of_several_lines_are_no_secrets_of_other_keys(lines: str) -> None:
    assert len(parse(lines).entries) == 1


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "nowhere.properties"
    with pytest.raises(ConfigError, match="cannot be read"):
        read(file)


def test_an_error_without_a_file_names_the_line() -> None:
    assert str(PropertiesFile.of({"a": "1"}).error("a", "is wrong")) == "line 1: a: is wrong"
