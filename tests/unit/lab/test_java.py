"""Java is found or its absence is one sentence that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.lab import java
from mirror.lab.java import Java, JavaMissing

DEBIAN_12 = {"ID": "debian", "VERSION_ID": "12"}


def fake_java(home: Path, version: str) -> Path:
    """Write a program that says it is this Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("version", "feature_version"), [("17.0.15+6-Debian-1", 17), ("21", 21), ("1.8.0_292", 8), ("25-ea", 25)]
)
def test_the_feature_version_is_the_number_people_say(version: str, feature_version: int) -> None:
    assert java.parse_feature_version(version) == feature_version


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (
            'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6-Debian-1)\n',
            "17.0.15+6-Debian-1",
        ),
        ('Picked up JAVA_TOOL_OPTIONS: -Da=b\njava version "1.8.0_292"\n', "1.8.0_292"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_version_is_read_from_what_java_answers(answer: str, version: str | None) -> None:
    assert java.parse_version(answer) == version


def test_java_home_comes_before_path_and_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "21.0.1")
    path = str(new.parent)

    assert java.find({"JAVA_HOME": str(tmp_path / "new"), "PATH": str(old.parent)}).path == new
    assert java.find({"JAVA_HOME": str(tmp_path / "old"), "PATH": path}) == Java(new, "21.0.1")


def test_what_was_found_and_what_to_do_is_said_when_there_is_none(tmp_path: Path) -> None:
    old = fake_java(tmp_path, "11.0.2")

    with pytest.raises(JavaMissing, match=rf"Java 17 or later is needed.*\({old} is Java 11\).*conda"):
        java.find({"JAVA_HOME": str(tmp_path), "PATH": ""})


@pytest.mark.parametrize(
    ("os_release", "is_root", "advice"),
    [
        (DEBIAN_12, True, "run `apt-get install --yes openjdk-17-jre-headless`"),
        ({"ID": "debian", "VERSION_ID": "13"}, False, "run `sudo apt-get install --yes openjdk-21-jre-headless`"),
        (
            {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"},
            False,
            "run `sudo apt-get install --yes openjdk-17-jre-headless`",
        ),
        ({"ID": "macos"}, False, "run `brew install openjdk@17`"),
        ({"ID": "fedora"}, True, "create the environment with `conda env create --file environment.yml`"),
    ],
)
def test_the_advice_fits_the_system_and_is_one_sentence(os_release: dict[str, str], is_root: bool, advice: str) -> None:
    message = java.missing_message([], os_release, is_root=is_root)

    assert f"(none found): {advice}" in message
    assert "\n" not in message
    assert message.endswith(".")
