"""What a chain does to single records, and what it comes to for a topic; Java's answers are in ``tests/golden``."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.java_regex import PatternError
from mirror.model.java_replacement import Replacement
from mirror.model.transforms.chain import Chain, ChainedTransform, Failed, RecordTransform, Skipped, TopicTransform
from mirror.model.transforms.python_function import PythonFunction
from mirror.model.transforms.record import SourceRecord
from mirror.model.transforms.stock import (
    DropHeaders,
    Filter,
    HasHeaderKey,
    InsertHeader,
    Predicate,
    RecordIsTombstone,
    RegexRouter,
    TopicNameMatches,
)

CONTENTS = st.none() | st.binary(max_size=4)
HEADERS = st.lists(st.tuples(st.sampled_from(["a", "b", "größe"]), CONTENTS), max_size=4).map(tuple)
RECORDS = st.builds(SourceRecord, st.just("t"), st.just(3), st.integers(0, 99), st.just(5), CONTENTS, CONTENTS, HEADERS)
SOME = SourceRecord("t", 3, 4, 5, b"k", b"v", (("a", b"1"),))
FUNCTIONS = "tests.transform_functions"


def of_stages(*stages: ChainedTransform, skips_errors: bool = False) -> TopicTransform:
    transform = Chain(stages, skips_errors).of_topic("east.orders")
    assert transform is not None
    return transform


def alone(transform: RecordTransform, predicate: Predicate | None = None, *, negate: bool = False) -> TopicTransform:
    return of_stages(ChainedTransform("t", transform, predicate, negate))


def own(name: str, *, skips_errors: bool = False) -> TopicTransform:
    return of_stages(ChainedTransform("mine", PythonFunction(f"{FUNCTIONS}:{name}")), skips_errors=skips_errors)


@given(st.lists(RECORDS, max_size=8), st.sampled_from([RecordIsTombstone(), HasHeaderKey("a")]))
def test_a_predicate_and_its_opposite_share_out_the_records(records: list[SourceRecord], predicate: Predicate) -> None:
    without = alone(Filter(), predicate).apply(records, 3).records
    those = alone(Filter(), predicate, negate=True).apply(records, 3).records
    assert sorted(without + those, key=repr) == sorted(records, key=repr)
    assert not any(record in without for record in those)


@given(RECORDS, CONTENTS)
def test_headers_are_inserted_behind_and_dropped_by_name(record: SourceRecord, content: bytes | None) -> None:
    """Also beside one of the same name; order, doubles and nulls of the others stay."""
    (inserted,) = alone(InsertHeader("a", content)).apply([record], 3).records
    assert inserted.headers == (*record.headers, ("a", content))
    (dropped,) = alone(DropHeaders(frozenset({"a", "zz"}))).apply([inserted], 3).records
    assert dropped.headers == tuple(each for each in record.headers if each[0] != "a")
    assert dropped._replace(headers=record.headers) == record


def test_each_transform_gets_what_the_one_before_made() -> None:
    drop = ChainedTransform("drop", DropHeaders(frozenset({"a"})))
    filtered = ChainedTransform("filter", Filter(), HasHeaderKey("a"))
    assert of_stages(filtered, drop).apply([SOME], 3).records == []
    assert of_stages(drop, filtered).apply([SOME], 3).records == [SOME._replace(headers=())]


def test_a_topic_that_no_transform_looks_at_has_none() -> None:
    """It keeps the fast lane."""
    orders = TopicNameMatches(r"east\.orders")
    chain = Chain((ChainedTransform("a", Filter(), orders), ChainedTransform("b", RegexRouter(r"east\.(.*)", "$1"))))
    assert chain.of_topic("east.bills") is None
    assert chain.of_topic("east.orders") is not None
    assert chain.route("east.bills") == "bills"
    assert Chain((ChainedTransform("a", Filter(), orders, negate=True),)).of_topic("east.orders") is None


def test_names_are_matched_as_they_are_at_that_place_of_the_chain() -> None:
    router = ChainedTransform("route", RegexRouter(r"east\.(.*)", "$1"), TopicNameMatches("east.orders"))
    late = ChainedTransform("late", Filter(), TopicNameMatches("orders"))
    early = ChainedTransform("early", Filter(), TopicNameMatches("east.orders"))
    assert Chain((router, late)).of_topic("east.orders") is not None
    assert Chain((router, early)).of_topic("east.orders") is None
    assert Chain((router, late)).of_topic("east.bills") is None


def test_a_router_cannot_depend_on_single_records() -> None:
    with pytest.raises(ValueError, match="single records"):
        ChainedTransform("route", RegexRouter(".*", "x"), RecordIsTombstone())


def test_a_function_of_one_s_own_alters_and_drops() -> None:
    (altered,) = own("shout").apply([SOME], 3).records
    assert altered == SOME._replace(timestamp=6, key=b"k!", value=b"V", headers=(("a", b"1"), ("by", b"shout")))
    assert own("drop_odd").apply([SOME, SOME._replace(offset=5), SOME._replace(offset=6)], 3).records == [
        SOME,
        SOME._replace(offset=6),
    ]
    assert own("unchanged").apply([SOME], 3).records == [SOME]


def test_what_a_function_fails_on_ends_the_chain_there() -> None:
    poison = SOME._replace(offset=5, value=b"poison")
    made = own("fail_on_poison").apply([SOME, poison, SOME._replace(offset=6)], 3)
    assert made.records == [SOME]
    assert made.failed == Failed(5, "the transform mine failed: ValueError: cannot read b'poison'")


def test_errors_that_are_tolerated_leave_out_the_record_and_say_which() -> None:
    poison = SOME._replace(offset=5, value=b"poison")
    made = own("fail_on_poison", skips_errors=True).apply([SOME, poison, SOME._replace(offset=6)], 3)
    assert made.records == [SOME, SOME._replace(offset=6)]
    assert made.skipped == (Skipped(5, "the transform mine failed: ValueError: cannot read b'poison'"),)
    assert made.failed is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reroute", "it changed topic, partition or offset"),
        ("text", "its value is a str, neither bytes nor None"),
        ("nonsense", "it returned a bytes, neither a SourceRecord nor None"),
    ],
)
def test_what_a_function_must_not_return_is_an_error(name: str, said: str) -> None:
    failed = own(name).apply([SOME], 3).failed
    assert failed is not None
    assert said in failed.reason


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("nowhere_at_all:f", "cannot be imported"),
        (f"{FUNCTIONS}:absent", "has no function absent"),
        (f"{FUNCTIONS}:NOT_A_FUNCTION", "has no function"),
        ("just_a_name", "package.module:function"),
    ],
)
def test_a_function_that_is_not_there_is_never_tolerated(reference: str, said: str) -> None:
    """Otherwise a worker that lacks the module would leave out everything."""
    transform = of_stages(ChainedTransform("mine", PythonFunction(reference)), skips_errors=True)
    made = transform.apply([SOME], 3)
    assert made.failed is not None
    assert said in made.failed.reason
    assert made.skipped == ()


def test_a_chain_can_be_shipped() -> None:
    chain = Chain(
        (
            ChainedTransform("a", PythonFunction(f"{FUNCTIONS}:shout"), HasHeaderKey("a")),
            ChainedTransform("b", Filter()),
        ),
        True,
    )
    assert pickle.loads(pickle.dumps(chain)) == chain
    assert pickle.loads(pickle.dumps(chain.of_topic("x"))) == chain.of_topic("x")


@pytest.mark.parametrize(
    ("text", "pattern"), [("$", "a"), ("a\\", "a"), ("$1", "a"), ("${n}", "(a)"), ("${n", "(?<n>a)"), ("$x", "(a)")]
)
def test_a_replacement_that_java_would_fail_on_is_refused(text: str, pattern: str) -> None:
    with pytest.raises(PatternError):
        Replacement.parse(text, pattern)
