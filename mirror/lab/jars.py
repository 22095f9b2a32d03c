"""Kafka's jars, without a package of Kafka: fetched once a user by the Ivy that PySpark ships.

A lock names every jar with its version and SHA-256. Nothing is resolved at run time: Ivy downloads exactly these (no
metadata, no dependencies of dependencies), each is verified, and only a complete set becomes visible under its final
name. ``python -m mirror.lab.jars`` fetches those of labs; with ``--lock`` it writes all locks anew from their roots.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast
from xml.etree import ElementTree as ET
from xml.sax.saxutils import quoteattr

from mirror import cache
from mirror.lab import java
from mirror.lab.errors import LabError
from mirror.model.progress import Watch, nobody

KAFKA_VERSION = "4.3.1"
#: Names a file of Ivy settings of one's own, for a company's own repository.
SETTINGS_VARIABLE = "MIRROR_IVY_SETTINGS"
#: Ivy has said nothing for so long: the network swallows packets.
_SILENCE_SECONDS = 180.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class JarSet:
    """The jars of one Kafka version.

    Attributes
    ----------
    roots
        what is wanted, as ``organisation:name:version``; the rest of the lock is what these need.
    lock
        the file that names them all.
    """

    version: str
    roots: tuple[str, ...]
    lock: Path


_LOG4J = "2.25.4"
#: What labs run. Kafka logs through SLF4J 1.7, which needs its Log4j binding.
CURRENT = JarSet(
    KAFKA_VERSION,
    (
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}",
    ),
    Path(__file__).with_name("kafka-jars.lock"),
)
#: The last 3.x, for tests against older brokers. It speaks to Log4j 1 as well.
OLDER = JarSet(
    "3.9.1",
    (
        "org.apache.kafka:kafka_2.13:3.9.1",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}",
        f"org.apache.logging.log4j:log4j-1.2-api:{_LOG4J}",
    ),
    Path(__file__).with_name("kafka-3.9-jars.lock"),
)


class JarsUnavailable(LabError):
    """Kafka's jars could not be fetched or are not what the lock says; the message says why and what to do."""


@dataclass(frozen=True, order=True, slots=True)
class Jar:
    """One jar of the lock."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """Return ``organisation:name:version``."""
        return f"{self.organisation}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        """Return the jar's name in the cache."""
        return f"{self.name}-{self.version}.jar"


def parse_lock(text: str) -> tuple[Jar, ...]:
    """Read a lock: a line a jar, ``organisation:name:version SHA-256``; ``#`` starts a comment.

    Raises
    ------
    ValueError
        naming the first line that is neither, or a jar that stands there twice.
    """
    jars: list[Jar] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        coordinates = fields[0].split(":")
        if len(fields) != 2 or len(coordinates) != 3 or not all(coordinates) or not _SHA256.fullmatch(fields[1]):
            raise ValueError(f"line {number} is not `organisation:name:version SHA-256`: {line!r}")
        organisation, name, version = coordinates
        jars.append(Jar(organisation, name, version, sha256=fields[1]))
        if jars[-1].file_name in {jar.file_name for jar in jars[:-1]}:
            raise ValueError(f"line {number}: {jars[-1].file_name} is there twice")
    return tuple(jars)


def render_lock(jars: Iterable[Jar], roots: Iterable[str]) -> str:
    """Return the text that ``parse_lock`` reads, sorted; it says what it was resolved from."""
    head = f"# Written by `python -m mirror.lab.jars --lock`: {', '.join(roots)}\n"
    return head + "".join(f"{jar.coordinates} {jar.sha256}\n" for jar in sorted(jars))


def locked(wanted: JarSet) -> tuple[Jar, ...]:
    """Return the jars of the lock that comes with the package."""
    return parse_lock(wanted.lock.read_text("utf-8"))


def render_ivy_module(coordinates: Iterable[str], *, transitive: bool) -> str:
    """Return an Ivy module that depends on ``organisation:name:version`` each."""
    lines = []
    for item in coordinates:
        organisation, name, version = map(quoteattr, item.split(":"))
        # the default configuration of a Maven module is its compile and run time scope
        conf = "default->default" if transitive else "default->*"
        lines.append(
            f'<dependency org={organisation} name={name} rev={version} conf="{conf}"'
            f' transitive="{str(transitive).lower()}"/>'
        )
    return (
        '<ivy-module version="2.0"><info organisation="mirrorbook" module="kafka"/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        "<dependencies>\n" + "\n".join(lines) + "\n</dependencies></ivy-module>\n"
    )


def render_ivy_settings(*, transitive: bool) -> str:
    """Return Ivy settings for the public Maven repository, whose address Ivy knows.

    Without transitivity neither module descriptions nor Ivy's weaker check sums are asked for: two requests a jar
    instead of seven. The SHA-256 in the lock is what counts.
    """
    quick = "" if transitive else ' usepoms="false" useMavenMetadata="false" checksums=""'
    return (
        '<ivysettings><settings defaultResolver="central"/>\n'
        '<timeout-constraints><timeout-constraint name="patience" connectionTimeout="15000" readTimeout="60000"/>'
        "</timeout-constraints>\n"
        f'<resolvers><ibiblio name="central" m2compatible="true" timeoutConstraint="patience"{quick}/></resolvers>'
        "</ivysettings>\n"
    )


def count_steps(output: str) -> int:
    """Return how many jars Ivy has found plus how many it has downloaded, from what it printed so far."""
    return len(re.findall(r"^\tfound ", output, re.MULTILINE)) + output.count("[SUCCESSFUL ]")


def find_problem(output: str) -> str:
    """Return the sentence in Ivy's output that says best why it failed."""
    for pattern in (r"^\s*(Server access error .*)$", r"^\s*(module not found: .*)$", r"^\s*(.*(?:Exception|rror).*)$"):
        found = re.search(pattern, output, re.MULTILINE)
        if found:
            return found[1].strip()
    return output.strip().splitlines()[-1] if output.strip() else "it said nothing"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(directory: Path, jars: Sequence[Jar]) -> None:
    """Check that every jar is there and is the one of the lock.

    Raises
    ------
    JarsUnavailable
        naming the first that is not.
    """
    for jar in jars:
        path = directory / jar.file_name
        if not path.exists():
            raise JarsUnavailable(f"the repository did not deliver {jar.coordinates}; nothing was installed, try again")
        found = digest(path)
        if found != jar.sha256:
            raise JarsUnavailable(
                f"{jar.file_name} is not the jar this project was locked with: its SHA-256 is {found}, the lock says "
                f"{jar.sha256}; nothing was installed. Something between here and the Maven repository delivers other "
                f"contents: check proxies and {SETTINGS_VARIABLE}"
            )


def ensure(watch: Watch = nobody, wanted: JarSet | None = None) -> Path:
    """Return the directory with Kafka's jars, fetching them if they are not in the user's cache yet.

    Those of labs, unless others are ``wanted``.

    Raises
    ------
    JarsUnavailable
        if they cannot be fetched or kept, or one is not the one of the lock.
    JavaMissing
        if there is no Java to fetch them with.
    """
    wanted = wanted or CURRENT
    directory = cache.directory() / f"kafka-{wanted.version}"
    if _is_complete(directory, wanted):
        return directory
    try:
        with cache.exclusive(directory.with_name(f"{directory.name}.lock")):
            if not _is_complete(directory, wanted):  # another process may have been quicker
                _fill(directory, wanted, watch)
    except OSError as problem:
        raise JarsUnavailable(
            f"cannot keep Kafka's jars in {directory}: {problem.strerror or problem}; nothing was installed. Make room "
            "or give rights there, or set XDG_CACHE_HOME to another folder"
        ) from problem
    return directory


def _is_complete(directory: Path, wanted: JarSet) -> bool:
    """Tell whether the directory was filled from this very lock; it got its name only after it was verified."""
    marker = directory / wanted.lock.name
    return marker.exists() and marker.read_text("utf-8") == wanted.lock.read_text("utf-8")


def _fill(directory: Path, wanted: JarSet, watch: Watch) -> None:
    jars = locked(wanted)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as scratch:
        arrived = _run_ivy(wanted.version, [jar.coordinates for jar in jars], Path(scratch), watch)
        verify(arrived, jars)
        (arrived / wanted.lock.name).write_bytes(wanted.lock.read_bytes())
        if directory.exists():
            directory.rename(Path(scratch) / "outdated")
        arrived.rename(directory)


def _run_ivy(
    version: str,
    coordinates: Sequence[str],
    scratch: Path,
    watch: Watch = nobody,
    *,
    transitive: bool = False,
) -> Path:
    """Download with Ivy into a directory under ``scratch``, and return it."""
    (scratch / "ivy.xml").write_text(render_ivy_module(coordinates, transitive=transitive), "utf-8")
    settings = Path(os.environ.get(SETTINGS_VARIABLE, scratch / "ivysettings.xml"))
    (scratch / "ivysettings.xml").write_text(render_ivy_settings(transitive=transitive), "utf-8")
    retrieve = scratch / "jars"
    command = [
        str(java.find().path),
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-settings", str(settings), "-ivy", str(scratch / "ivy.xml"), "-cache", str(scratch / "cache")),
        *("-retrieve", str(retrieve / "[artifact]-[revision].[ext]")),
    ]
    what, total = f"Kafka {version} jars", 2 * len(coordinates)
    output = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL) as ivy:
        pipe = cast(IO[bytes], ivy.stdout)
        while True:
            heard = bool(select.select([pipe], [], [], _SILENCE_SECONDS)[0])
            chunk = os.read(pipe.fileno(), 1 << 16).decode(errors="replace") if heard else ""
            if not chunk:
                break
            output += chunk
            if not transitive:
                watch(what, min(count_steps(output), total - 1), total)
        if not heard:
            ivy.kill()
    if not heard or ivy.returncode != 0:
        why = find_problem(output) if heard else f"no answer for {_SILENCE_SECONDS:.0f} s"
        raise JarsUnavailable(
            f"cannot fetch Kafka's jars from the Maven repository: {why}. They are needed once: go online, or behind a "
            'proxy set JAVA_TOOL_OPTIONS="-Dhttps.proxyHost=... -Dhttps.proxyPort=...", or point '
            f"{SETTINGS_VARIABLE} at Ivy settings of your own, or copy {cache.directory()} from a machine that has them"
        )
    watch(what, total, total)
    return retrieve


def _ivy_jar() -> Path:
    """Return the Ivy that PySpark ships, found without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise JarsUnavailable("PySpark, whose Ivy fetches Kafka's jars, is not here completely: reinstall pyspark")
    return found[-1]


def resolve(wanted: JarSet) -> tuple[Jar, ...]:
    """Resolve the roots with everything they need, as Maven would, and return what a lock of them holds."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        arrived = _run_ivy(wanted.version, wanted.roots, scratch, transitive=True)
        report = ET.parse(scratch / "cache" / "mirrorbook-kafka-default.xml")  # noqa: S314 - Ivy wrote it
        found = []
        for module in report.iter("module"):
            for revision in module.iter("revision"):
                for artifact in revision.iter("artifact"):
                    organisation, version = module.attrib["organisation"], revision.attrib["name"]
                    path = arrived / f"{artifact.attrib['name']}-{version}.{artifact.attrib['ext']}"
                    found.append(Jar(organisation, artifact.attrib["name"], version, digest(path)))
        return tuple(sorted(found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Fetch the jars of labs and print where they are, or write the locks anew."""
    parser = argparse.ArgumentParser(prog="python -m mirror.lab.jars", description=main.__doc__)
    parser.add_argument("--lock", action="store_true", help="resolve this module's versions anew and write the locks")
    try:
        if parser.parse_args(arguments).lock:
            for wanted in (CURRENT, OLDER):
                wanted.lock.write_text(render_lock(resolve(wanted), wanted.roots), "utf-8")
                print(wanted.lock)
        else:
            print(ensure())
    except (JarsUnavailable, java.JavaMissing) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
