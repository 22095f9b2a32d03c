"""The options of kafka-mirror-maker.sh, row by row of the inventory, and what is told of those that cannot be taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirror.legacy import command
from mirror.legacy.options import BadOption, Options, OwnCode, include_pattern, read_options

FILES = ("--consumer.config", "c", "--producer.config", "p")
DEFAULTS = Options(Path("c"), Path("p"), "a")


def read(*more: str) -> Options | None:
    return read_options([*FILES, *more])


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        pytest.param(["--include", "a"], {}, id="MM1-01 to MM1-07: defaults"),
        pytest.param(["--include", " 'a, b.*\" "], {"include": "a|b.*"}, id="MM1-03"),
        pytest.param(["--whitelist", "b"], {"include": "b"}, id="MM1-04"),
        pytest.param(
            ["--whitelist", "b", "--include", "a"],
            {"without_effect": ("--whitelist: --include is given",)},
            id="MM1-04 beside MM1-03",
        ),
        pytest.param(["--include", "a", "--num.streams=3"], {"streams": 3}, id="MM1-05"),
        pytest.param(["--include", "a", "--num.str", "3"], {"streams": 3}, id="MM1-05 cut short"),
        pytest.param(
            ["--include", "a", "--offset.commit.interval.ms", "500"], {"commit_interval_seconds": 0.5}, id="MM1-06"
        ),
        pytest.param(["--include", "a", "--abort.on.send.failure", "FALSE"], {"aborts": False}, id="MM1-07"),
        pytest.param(
            ["--include", "a", "--consumer.rebalance.listener", "python:x:Y", "--rebalance.listener.args", "z"],
            {"listener": OwnCode("consumer.rebalance.listener", "python:x:Y", "z")},
            id="MM1-08",
        ),
        pytest.param(
            ["--include", "a", "--message.handler", "python:x:y"],
            {"handler": OwnCode("message.handler", "python:x:y")},
            id="MM1-09",
        ),
        pytest.param(
            ["--include", "a", "--new.consumer", "--num.producers", "2", "--queue.size", "9"],
            {
                "without_effect": (
                    "--new.consumer: there is no other consumer",
                    "--num.producers: each stream has one producer",
                    "--queue.size: the size of the queue is buffer.memory of --producer.config",
                )
            },
            id="MM1-10",
        ),
        pytest.param(
            ["--include", "a", "--spark-conf", "spark.a=b", "--master", "yarn", "--spark-conf", "spark.c=d"],
            {"master": "yarn", "spark_conf": {"spark.a": "b", "spark.c": "d"}},
            id="a Spark cluster",
        ),
    ],
)
def test_an_option_says_what_it_says_in_java(arguments: list[str], changed: dict[str, Any]) -> None:
    import dataclasses

    assert read(*arguments) == dataclasses.replace(DEFAULTS, **changed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--include", "a"], "--consumer.config: missing"),
        (["--include", "a", "--consumer.config", "c"], "--producer.config: missing"),
        ([*FILES], "--include: missing"),
        ([*FILES, "--include", "("], "--include: not a regular expression"),
        ([*FILES, "--include", "a", "--include", "b"], "--include: it is given twice"),
        ([*FILES, "--include", "a", "--num.streams", "many"], "--num.streams: 'many' is no whole number"),
        ([*FILES, "--include", "a", "--num.streams", "0"], "--num.streams: 0 is not between 1"),
        ([*FILES, "--include", "a", "--offset.commit.interval.ms", "-1"], "--offset.commit.interval.ms: -1"),
        ([*FILES, "--include", "a", "--abort.on.send.failure", "no"], "--abort.on.send.failure: 'no' is neither"),
        ([*FILES, "--include", "a", "--message.handler.args", "x"], "--message.handler.args: there is no"),
        ([*FILES, "--blacklist", "a"], "--blacklist: there is none any more"),
        ([*FILES, "--include", "a", "--inlcude", "b"], "unrecognized arguments: --inlcude b"),
        ([*FILES, "--include", "a", "--message.handler", "com.example.Mask"], "names a Java class"),
        ([*FILES, "--include", "a", "--spark-conf", "spark.master=x"], "--spark-conf spark.master: it cannot be set"),
        ([*FILES, "--include", "a"], "c: cannot be read"),
    ],
)
def test_what_cannot_be_taken_is_named_and_ends_with_javas_exit_code(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(arguments) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("consumer", "bootstrap.servers=a:1", "consumer: group.id: missing"),
        ("consumer", "group.id=g", "consumer: bootstrap.servers: missing"),
        ("consumer", "group.id=g\nbootstrap.servers=a:1\nsession.timeout.ms=soon", "consumer:3: session.timeout.ms: "),
        (
            "consumer",
            "group.id=g\nbootstrap.servers=a:1\nauto.offset.reset=smallest",
            "consumer:3: auto.offset.reset: ",
        ),
        ("consumer", "group.id=g\nfetch.max.bytes=all\nbootstrap.servers=a:1", "consumer:2: fetch.max.bytes: 'all'"),
        ("consumer", "group.id=g\nbootstrap.servers=a:1\nsecurity.protocol=TLS", "consumer:3: security.protocol: "),
        ("consumer", "group.id=g\ninterceptor.classes=a.B", "consumer:2: interceptor.classes: Java classes"),
        ("consumer", "group.id=g\npartition.assignment.strategy=a.B", "consumer:2: partition.assignment.strategy: a.B"),
        ("producer", "bootstrap.servers=a:1\ntransactional.id=t", "producer:2: transactional.id: "),
        ("producer", "bootstrap.servers=a:1\npartitioner.class=a.B", "producer:2: partitioner.class: Java classes"),
        ("producer", "bootstrap.servers=a:1\nacks=some", "producer:2: acks: "),
        ("producer", "bootstrap.servers=a:1\nlinger.ms=long", "producer:2: linger.ms: "),
    ],
)
def test_a_wrong_property_is_named_with_its_file_and_line(
    file: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"consumer": "group.id=g\nbootstrap.servers=a:1", "producer": "bootstrap.servers=a:1"}
    paths = {name: tmp_path / name for name in good}
    for name, path in paths.items():
        path.write_text(text if name == file else good[name])
    arguments = ["--consumer.config", str(paths["consumer"]), "--producer.config", str(paths["producer"])]
    assert command.run([*arguments, "--include", "a"]) == 1
    assert f"{tmp_path}/{said}" in capsys.readouterr().err


def test_lines_of_a_private_key_that_are_keys_of_a_file_are_not_named(tmp_path: Path) -> None:
    """The log named each of them as no key of a producer."""
    consumer, producer = tmp_path / "consumer", tmp_path / "producer"
    consumer.write_text("group.id=g\nbootstrap.servers=a:1")
    private = (
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----",
        "MIIs3cretA",
        "MIIs3cretB==",
        "-----END PRIVATE KEY-----",
    )
    producer.write_text("\n".join(("bootstrap.servers=a:1", *private)))
    files = ("--consumer.config", str(consumer), "--producer.config", str(producer))
    options = read_options([*files, "--include", "a"])
    assert options is not None
    _, settings = command.load(options)
    (note,) = settings.notes
    assert note.startswith(f"{producer}:2: the private key ends with that line")


def test_the_version_is_said_and_help_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["--version"]) == 0
    with pytest.raises(SystemExit) as ended:
        command.run(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("kafka-mirror-maker ")
    for option in ("consumer.config", "producer.config", "include", "num.streams", "abort.on.send.failure"):
        assert f"--{option} " in said


@pytest.mark.parametrize(
    ("given", "pattern"),
    [("a,b", "a|b"), ("a, b .*", "a|b.*"), ("'a'", "a"), ("\"'a.*'\"", "a.*"), ("\t a\n", "a")],
)
def test_a_list_of_topics_is_a_regular_expression(given: str, pattern: str) -> None:
    assert include_pattern(given) == pattern


def test_a_pattern_that_java_refuses_is_refused() -> None:
    with pytest.raises(BadOption, match="--whitelist"):
        read("--whitelist", "[")
