"""A chain in a properties file: read from where MirrorMaker 2 reads it, refused with the place of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import FlowSettings
from mirror.kafka.batch import Record
from mirror.model.flow import Flow
from mirror.model.transforms.chain import Chain, ChainedTransform
from mirror.model.transforms.python_function import PythonFunction
from mirror.model.transforms.stock import Filter, InsertHeader, RecordIsTombstone, RegexRouter

GOOD = ("clusters = A, B", "A.bootstrap.servers = a:9092", "B.bootstrap.servers = b:9092", "A->B.enabled = true")
CONNECT = "org.apache.kafka.connect.transforms."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mm2.properties"


def flow(file: Path, *lines: str) -> FlowSettings:
    file.write_text("\n".join((*GOOD, *lines)), encoding="iso-8859-1")
    found = load(file).flow(Flow("A", "B"))
    assert found is not None
    return found


def test_a_chain_is_read_in_its_order(file: Path) -> None:
    settings = flow(
        file,
        "A->B.transforms = mark, live, mine, home",
        f"A->B.transforms.mark.type = {CONNECT}InsertHeader",
        "A->B.transforms.mark.header = came-from",
        "A->B.transforms.mark.value.literal = gr\\u00f6\\u00dfe",
        f"A->B.transforms.live.type = {CONNECT}Filter",
        "A->B.transforms.live.predicate = dead",
        "A->B.transforms.live.negate = false",
        "A->B.transforms.mine.type = python:tests.transform_functions:shout",
        f"A->B.transforms.home.type = {CONNECT}RegexRouter",
        r"A->B.transforms.home.regex = A\\.(.*)",
        "A->B.transforms.home.replacement = $1",
        "A->B.predicates = dead",
        f"A->B.predicates.dead.type = {CONNECT}predicates.RecordIsTombstone",
        "errors.tolerance = all",
    )
    assert settings.transforms == Chain(
        (
            ChainedTransform("mark", InsertHeader("came-from", "größe".encode())),
            ChainedTransform("live", Filter(), RecordIsTombstone()),
            ChainedTransform("mine", PythonFunction("tests.transform_functions:shout")),
            ChainedTransform("home", RegexRouter(r"A\.(.*)", "$1")),
        ),
        skips_errors=True,
    )
    assert settings.copy_of("orders") == "orders"
    transform = settings.transform_of("orders")
    assert transform is not None
    assert [step.topic for step in transform.steps] == ["A.orders"] * 3


def test_functions_leave_heartbeats_alone_and_connects_transforms_do_not(file: Path) -> None:
    """What counts heartbeats reads their values; to MirrorMaker's source connector they are records as any (CFG-012)."""
    mine = ("A->B.transforms.mine.type = python:tests.transform_functions:shout",)
    settings = flow(file, "A->B.transforms = mine", *mine)
    assert settings.transform_of("heartbeats") is None
    settings = flow(
        file,
        "A->B.transforms = drop, mine",
        f"A->B.transforms.drop.type = {CONNECT}DropHeaders",
        "A->B.transforms.drop.headers = h",
        *mine,
    )
    transform = settings.transform_of("heartbeats")
    assert transform is not None
    assert [step.alias for step in transform.steps] == ["drop"]


def test_only_who_applies_a_function_must_have_it(file: Path) -> None:
    lines = ("A->B.transforms = mine", "A->B.transforms.mine.type = python:nowhere_at_all:f")
    with pytest.raises(ConfigError, match="cannot be imported"):
        flow(file, *lines)
    (settings,) = load(file, applies_transforms=False).enabled_flows
    transform = settings.transform_of("orders")
    assert transform is not None
    made = transform.apply([Record(7, 1, None, b"v", (), -1)], 0)
    assert made.failed is not None
    assert (made.failed.offset, made.records) == (7, [])
    assert "cannot be imported" in made.failed.reason


def test_without_a_chain_a_copy_is_where_the_policy_says_and_unchanged(file: Path) -> None:
    settings = flow(file)
    assert (settings.copy_of("orders"), settings.transform_of("orders")) == ("A.orders", None)


def test_the_names_may_stand_at_the_top_but_what_they_mean_stands_with_the_flow(file: Path) -> None:
    """CFG-078: MirrorMaker 2 ignores ``transforms.x.type`` at the top level. Flows that copy nothing need no chain."""
    settings = flow(file, "transforms = none", f"A->B.transforms.none.type = {CONNECT}Filter")
    assert settings.transforms.stages == (ChainedTransform("none", Filter()),)
    with pytest.raises(ConfigError) as refusal:
        flow(file, "transforms = none", f"transforms.none.type = {CONNECT}Filter")
    assert (refusal.value.line, refusal.value.key) == (6, "transforms.none.type")
    assert "A->B.transforms.none.type" in refusal.value.message


@pytest.mark.parametrize(
    ("lines", "line", "key", "said"),
    [
        ((f"type = {CONNECT}MaskField$Value",), 6, "t.type", "needs a Struct or a Map"),
        ((f"type = {CONNECT}Cast$Value",), 6, "t.type", "is no byte array"),
        ((f"type = {CONNECT}TimestampRouter",), 6, "t.type", "several topics"),
        (("type = org.example.Mine",), 6, "t.type", "python:package.module:function"),
        (("type = python:nowhere_at_all:f",), 6, "t.type", "cannot be imported"),
        ((f"type = {CONNECT}InsertHeader",), 5, "", "A->B.transforms.t.header"),
        ((f"type = {CONNECT}DropHeaders", "headers = a,,b"), 7, "t.headers", "may be empty"),
        ((f"type = {CONNECT}RegexRouter", "regex = (", "replacement = x"), 7, "t.regex", "unclosed group"),
        ((f"type = {CONNECT}RegexRouter", "regex = a", "replacement = $1"), 8, "t.replacement", "no group 1"),
        ((f"type = {CONNECT}Filter", "predicate = p"), 7, "t.predicate", "not among predicates (none)"),
        ((f"type = {CONNECT}Filter", "negate = true"), 7, "t.negate", "no transforms.t.predicate"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    file: Path, lines: tuple[str, ...], line: int, key: str, said: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        flow(file, "A->B.transforms = t", *(f"A->B.transforms.t.{each}" for each in lines))
    assert said in refusal.value.message
    assert refusal.value.line == line
    assert refusal.value.key == f"A->B.transforms{'.' if key else ''}{key}"


def test_a_router_by_single_records_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        flow(
            file,
            "A->B.transforms = t",
            f"A->B.transforms.t.type = {CONNECT}RegexRouter",
            "A->B.transforms.t.regex = .*",
            "A->B.transforms.t.replacement = dead",
            "A->B.transforms.t.predicate = p",
            "A->B.predicates = p",
            f"A->B.predicates.p.type = {CONNECT}predicates.RecordIsTombstone",
        )
    assert refusal.value.line == 9
    assert "TopicNameMatches" in refusal.value.message


def test_a_switch_with_a_blank_behind_it_is_refused(file: Path) -> None:
    """Java's check takes it for true, its chain for false."""
    with pytest.raises(ConfigError, match="white space"):
        flow(
            file,
            "A->B.transforms = t",
            f"A->B.transforms.t.type = {CONNECT}Filter",
            "A->B.transforms.t.predicate = p",
            "A->B.transforms.t.negate = true ",
            "A->B.predicates = p",
            f"A->B.predicates.p.type = {CONNECT}predicates.RecordIsTombstone",
        )
