"""Lists of names and Java regular expressions."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.java_regex import compile_java
from mirror.model.patterns import ConfigPropertyFilter, PatternError, PatternFilter, PatternList, parse_list
from tests.strategies import TOPIC_NAMES, UNICODE


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", ()),
        (" \t\n", ()),
        ("foo", ("foo",)),
        (" foo , bar\t,\nbaz ", ("foo", "bar", "baz")),
        (",", ("", "")),
        ("a,,b", ("a", "", "b")),
        ("a{1,3}", ("a{1", "3}")),
        ("\x01foo\x02", ("foo",)),
        ("\u00a0foo", ("\u00a0foo",)),
    ],
)
def test_a_list_splits_on_commas_and_the_blanks_around_them(text: str, items: tuple[str, ...]) -> None:
    assert parse_list(text) == items


@given(items=st.lists(TOPIC_NAMES, min_size=1), comma=st.sampled_from([",", ", ", " , ", "\t,\n"]))
def test_names_joined_by_commas_come_back(items: list[str], comma: str) -> None:
    assert parse_list(comma.join(items)) == tuple(items)


@given(name=UNICODE.filter(lambda text: "\\E" not in text), other=UNICODE)
def test_a_quoted_name_matches_itself_alone(name: str, other: str) -> None:
    patterns = PatternList((f"\\Q{name}\\E",))
    assert patterns.matches(name)
    assert patterns.matches(other) == (name == other)


@given(names=st.lists(TOPIC_NAMES), name=TOPIC_NAMES)
def test_what_is_excluded_is_never_admitted(names: list[str], name: str) -> None:
    """SEL-03."""
    exclude = tuple(f"\\Q{each}\\E" for each in names)
    assert PatternFilter(exclude=exclude).matches(name) == (name not in names)


def test_an_empty_include_list_admits_nothing_and_an_empty_exclude_list_excludes_nothing() -> None:
    """CFG-020, CFG-021."""
    assert not PatternFilter(include=()).matches("orders")
    assert PatternFilter(exclude=()).matches("orders")
    assert ConfigPropertyFilter().should_replicate("retention.ms")


def test_a_flag_reaches_the_patterns_after_it() -> None:
    patterns = PatternList(parse_list("Orders, (?i)bills, refunds"))
    assert [patterns.matches(name) for name in ("orders", "BILLS", "Refunds")] == [False, True, True]


def test_filters_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(PatternFilter(("a.*",), ("ab",)))).matches("ac")


# Each line was asked of Java 17: pattern, names it matches, names it does not.
@pytest.mark.parametrize(
    ("pattern", "matches", "misses"),
    [
        ("", [""], ["a"]),
        ("a|b", ["a", "b"], ["ab"]),
        ("a.c", ["abc", "a\tc"], ["a\nc", "a\u2028c", "ac"]),
        ("(?s)a.c", ["a\nc"], ["ac"]),
        (r"\d+", ["17"], ["٣"]),
        (r"\w+", ["a_1"], ["é"]),
        (r"\S\s\S", ["a b"], ["a\u00a0b"]),
        (r"a\hb", ["a\u00a0b"], ["a\nb"]),
        (r"a\Rb", ["a\r\nb", "a\nb"], ["a b"]),
        (r"\p{Lu}\p{L}*", ["Öa"], ["öa"]),
        (r"\p{Alpha}+\p{Punct}", ["ab!"], ["é!"]),
        (r"\p{IsAlphabetic}+", ["éa"], ["1"]),
        (r"\p{IsLatin}\p{javaLowerCase}", ["Éa"], ["ДА"]),
        (r"\p{script=Latin}\p{gc=Nd}", ["a٣"], ["aa"]),
        (r"\P{Lower}", ["A"], ["a"]),
        ("(?i)orders", ["ORDERS"], ["bills"]),
        ("(?i)ö", ["ö"], ["Ö"]),
        ("(?iu)ö", ["Ö"], ["o"]),
        ("(?iu)\u017f", ["s", "S", "\u017f"], ["z"]),
        ("(?iu)\u0130", ["i", "\u0131"], ["j"]),
        ("(?i)[a-c]", ["B"], ["D"]),
        (r"(?i)\p{Lu}", ["a"], ["1"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("[a-z&&[^aeiou]]+", ["xyz"], ["a"]),
        ("[^a[b]]", ["c"], ["a", "b"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[a&b]", ["&"], ["c"]),
        ("a++b", ["aab"], ["b"]),
        ("a++ab", [], ["aab"]),
        ("(?>a|ab)c", ["ac"], ["abc"]),
        ("a{2}{3}", ["aa"], ["aaaaaa"]),
        ("{2}", [""], ["a"]),
        ("x{0}y", ["y"], ["xy"]),
        (r"(a)\1", ["aa"], ["a"]),
        (r"(?<n>a|b)\k<n>", ["bb"], ["ab"]),
        (r"a\1", [], ["a", "aa"]),
        ("(?=ab).*", ["abc"], ["ba"]),
        (".*(?<!-internal)", ["app"], ["app-internal"]),
        (r"^foo$", ["foo"], ["foo\n\n"]),
        (r"foo\b.*", ["foo-1"], ["foobar"]),
        (r"\x41\u00d6\x{1F600}\ud83d\ude00\0101", ["AÖ😀😀A"], ["A"]),
        (r"\N{LATIN SMALL LETTER A}", ["a"], ["b"]),
        (r"\Qa.b\E+", ["a.bb"], ["axb"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"a\-b\.c", ["a-b.c"], ["a-bxc"]),
    ],
)
def test_a_pattern_matches_what_it_matches_in_java(pattern: str, matches: list[str], misses: list[str]) -> None:
    compiled = compile_java(pattern)
    assert [name for name in (*matches, *misses) if compiled.fullmatch(name)] == matches


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "(a", "a)", "[", "[]", "[a", "[^]", "[z-a]", r"[a-\d]", "*a", "a**", "+", "?", "|*"),
        *("{", "a{", "a{1", "a{,3}", "a{2,1}", "a{99999999999}", "\\", r"\y", r"\E", r"a\p", r"\p{Nope}", r"\p{}"),
        *(r"\x4", r"\u12", r"\x{110000}", r"\08", r"\k<n>", "(?<n>a)(?<n>b)", "(?<1>a)", "(?P<n>a)", "(?z)", "(?"),
        *(r"\N{NO SUCH NAME}", "[a&&]"),
    ],
)
def test_what_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as refusal:
        compile_java(pattern)
    assert repr(pattern) in str(refusal.value)
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


@pytest.mark.parametrize("pattern", ["(?x)a b", "(?U)a", r"\X", r"\Ga", r"\b{g}", r"(?i)(a)\1", r"\R+", "(?<=a+b*)c"])
def test_what_cannot_be_carried_over_exactly_is_refused_as_such(pattern: str) -> None:
    with pytest.raises(PatternError, match="not supported here"):
        compile_java(pattern)
