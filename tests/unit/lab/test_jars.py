"""Kafka's jars are the ones of the lock, all of them, or there are none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mirror.lab import jars
from mirror.lab.jars import Jar, JarSet, JarsUnavailable
from mirror.model.progress import Watch

DIGEST = hashlib.sha256(b"jar").hexdigest()
JAR = Jar("org.example", "thing", "1.0", DIGEST)


def test_a_lock_reads_back_what_was_rendered() -> None:
    others = (Jar("a", "b", "2", "0" * 64), JAR)

    assert jars.parse_lock(jars.render_lock(reversed(others), ["a:b:2"])) == others


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"\n# head\norg.example:thing {DIGEST}", "line 3 is not"),
        ("org.example:thing:1.0 abc", "line 1 is not"),
        ("org.example:thing:1.0", "line 1 is not"),
        (f"a:thing:1.0 {DIGEST}\nb:thing:1.0 {DIGEST}", "line 2: thing-1.0.jar is there twice"),
    ],
)
def test_a_broken_lock_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jars.parse_lock(text)


@pytest.mark.parametrize("wanted", [jars.CURRENT, jars.OLDER], ids=lambda wanted: wanted.version)
def test_a_lock_of_the_package_holds_what_is_wanted_and_names_no_address(wanted: JarSet) -> None:
    coordinates = {jar.coordinates for jar in jars.locked(wanted)}

    assert coordinates >= set(wanted.roots)
    assert "//" not in wanted.lock.read_text()


def test_ivy_is_asked_for_exactly_the_jars() -> None:
    module = ET.fromstring(jars.render_ivy_module([JAR.coordinates], transitive=False))
    asked = [dependency.attrib for dependency in module.iter("dependency")]

    assert asked == [{"org": "org.example", "name": "thing", "rev": "1.0", "conf": "default->*", "transitive": "false"}]


def test_ivy_settings_name_no_host() -> None:
    for transitive in (False, True):
        settings = jars.render_ivy_settings(transitive=transitive)
        assert ET.fromstring(settings).tag == "ivysettings"
        assert "//" not in settings


def test_progress_counts_what_is_found_and_what_has_come() -> None:
    output = "\tfound org.example#thing;1.0 in central\n\tfound a#b;2 in central\n\t[SUCCESSFUL ] a#b;2!b.jar (3ms)\n"

    assert jars.count_steps(output) == 3


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (
            "\t\tmodule not found: a#b;2\n\n\tServer access error at url X (refused)\n",
            "Server access error at url X (refused)",
        ),
        ("\t\tmodule not found: a#b;2\n", "module not found: a#b;2"),
        ("Error: Could not find or load main class X\n", "Error: Could not find or load main class X"),
        ("", "it said nothing"),
    ],
)
def test_of_all_that_ivy_says_the_cause_is_told(output: str, sentence: str) -> None:
    assert jars.find_problem(output) == sentence


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Stand in for the Maven repository: jars by name; the lock wants one, ``thing``."""
    contents = {JAR.file_name: b"jar"}
    lock = tmp_path / "package" / "kafka-jars.lock"
    lock.parent.mkdir()
    lock.write_text(jars.render_lock([JAR], []))

    def deliver(version: str, coordinates: Sequence[str], scratch: Path, watch: Watch) -> Path:
        directory = scratch / "jars"
        directory.mkdir()
        for name, data in contents.items():
            (directory / name).write_bytes(data)
        return directory

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "CURRENT", replace(jars.CURRENT, lock=lock))
    monkeypatch.setattr(jars, "_run_ivy", deliver)
    return contents


def test_jars_are_fetched_once(repository: dict[str, bytes]) -> None:
    first = jars.ensure()
    repository.clear()

    assert jars.ensure() == first
    assert {path.name for path in first.glob("*.jar")} == {JAR.file_name}


def test_another_lock_replaces_what_is_in_the_cache(repository: dict[str, bytes]) -> None:
    jars.ensure()
    newer = Jar("org.example", "thing", "1.1", DIGEST)
    jars.CURRENT.lock.write_text(jars.render_lock([newer], []))
    repository.clear()
    repository[newer.file_name] = b"jar"

    assert {path.name for path in jars.ensure().glob("*.jar")} == {newer.file_name}


@pytest.mark.parametrize(
    ("delivered", "message"),
    [
        ({JAR.file_name: b"other"}, r"thing-1\.0\.jar is not the jar .* the lock says " + DIGEST),
        ({}, "did not deliver org.example:thing:1.0"),
    ],
)
def test_a_wrong_or_missing_jar_is_named_and_nothing_is_installed(
    repository: dict[str, bytes], tmp_path: Path, delivered: dict[str, bytes], message: str
) -> None:
    repository.clear()
    repository.update(delivered)

    with pytest.raises(JarsUnavailable, match=message):
        jars.ensure()
    assert [path for path in (tmp_path / "cache" / "mirrorbook").iterdir() if path.is_dir()] == []


def test_a_cache_that_cannot_be_written_is_named_with_what_to_do(
    repository: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with pytest.raises(JarsUnavailable, match=r"cannot keep Kafka's jars in .*/file/mirrorbook/kafka.*XDG_CACHE_HOME"):
        jars.ensure()
