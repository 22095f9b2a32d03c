"""Finding a Java that runs Kafka and Spark: the one prerequisite that pip cannot install."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirror.lab.errors import LabError

#: Kafka's brokers and PySpark both need it.
OLDEST_USABLE = 17
_DEBIAN_13 = 13


class JavaMissing(LabError):
    """No usable Java; the message is one sentence that says how to get it."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: the path of its ``java`` and its version, as it tells it (``17.0.15+6``)."""

    path: Path
    version: str

    @property
    def feature_version(self) -> int:
        """Return the number people say: 8, 11, 17, 21."""
        return parse_feature_version(self.version)


def parse_feature_version(version: str) -> int:
    """Return the feature version of a version string (``1.8.0_292`` is 8).

    Raises
    ------
    ValueError
        if the text is no Java version.
    """
    numbers = re.match(r"(\d+)(?:\.(\d+))?", version)
    if numbers is None:
        raise ValueError(f"{version!r} is no Java version")
    first = int(numbers[1])
    return int(numbers[2] or 0) if first == 1 else first


def parse_version(answer: str) -> str | None:
    """Return the version in the answer of ``java -version``: the build's full one where it is reported."""
    build = re.search(r"\(build ([^,)\s]+)", answer)
    if build:
        return build[1]
    quoted = re.search(r'version "([^"]+)"', answer)
    return quoted[1] if quoted else None


@functools.cache
def _ask(path: str) -> Java | None:
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        return None  # not runnable, or macOS's placeholder: as good as not there
    version = parse_version(answer.stderr + answer.stdout)
    return None if version is None else Java(Path(path), version)


def find(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first usable Java of ``JAVA_HOME`` and ``PATH``.

    Raises
    ------
    JavaMissing
        if neither leads to Java 17 or later.
    """
    home = environment.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    on_path = shutil.which("java", path=environment.get("PATH"))
    candidates += [on_path] if on_path else []
    found = [java for java in map(_ask, candidates) if java is not None]
    for java in found:
        if java.feature_version >= OLDEST_USABLE:
            return java
    raise JavaMissing(missing_message(found, _os_release(), is_root=os.geteuid() == 0))


def missing_message(too_old: list[Java], os_release: Mapping[str, str], *, is_root: bool) -> str:
    """Return the one sentence that says what is missing and how to get it on this system."""
    seen = "".join(f" ({java.path} is Java {java.feature_version})" for java in too_old) or " (none found)"
    family = {os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()}
    ways = []
    if family & {"debian", "ubuntu"}:
        version = os_release.get("VERSION_ID", "0").split(".")[0]
        dropped_17 = os_release.get("ID") == "debian" and version.isdigit() and int(version) >= _DEBIAN_13
        sudo = "" if is_root else "sudo "
        ways.append(f"run `{sudo}apt-get install --yes openjdk-{21 if dropped_17 else 17}-jre-headless`")
    elif os_release.get("ID") == "macos":
        ways.append("run `brew install openjdk@17` and set JAVA_HOME to it")
    ways.append("create the environment with `conda env create --file environment.yml`, which brings its own")
    return (
        f"Java {OLDEST_USABLE} or later is needed for Kafka and Spark; neither JAVA_HOME nor PATH leads to one{seen}: "
        f"{', or '.join(ways)}."
    )


def _os_release() -> Mapping[str, str]:
    if platform.system() == "Darwin":
        return {"ID": "macos"}
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}
