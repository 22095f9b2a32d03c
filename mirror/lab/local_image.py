"""A Kafka image for machines that cannot pull one: this machine's Java, its C library and the jars of the cache.

Nothing is installed in it but what a broker touches, each file at the path it has here. Kafka's own
``KafkaDockerWrapper`` makes the configuration from the environment and formats the disk, as in the official image; so
both take the same environment.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mirror.lab import runtime as kafka_runtime
from mirror.lab.errors import ProviderUnavailable
from mirror.lab.jars import KAFKA_VERSION

IMAGE = f"mirrorbook-kafka:{KAFKA_VERSION}"

_SHELL = Path("/bin/sh")
_JARS = "/opt/kafka/libs"
_DEFAULTS, _MOUNTED, _CONFIG = "/etc/kafka/docker", "/mnt/shared/config", "/opt/kafka/config"
_START = "/opt/kafka/start"
_SCRATCH = "/tmp"  # noqa: S108 - the container's own, for libraries that jars unpack
# Of a JDK a broker needs neither what compiles nor what is only to be read.
_NOT_NEEDED = ("bin", "demo", "docs", "include", "jmods", "legal", "man")
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def start_script(java: Path) -> str:
    """Return what the container runs: configure and format as the official image does, then the broker."""
    run = f"{java} -XX:-UsePerfData -cp '{_JARS}/*'"
    directories = f"--default-configs-dir {_DEFAULTS} --mounted-configs-dir {_MOUNTED} --final-configs-dir {_CONFIG}"
    return (
        "#!/bin/sh\n"
        f'said=$({run} kafka.docker.KafkaDockerWrapper setup {directories} 2>&1) || case "$said" in\n'
        '  *"already formatted"*) ;;\n'
        '  *) echo "$said"; exit 1 ;;\n'
        "esac\n"
        f"exec {run} $KAFKA_HEAP_OPTS kafka.Kafka {_CONFIG}/server.properties\n"
    )


def linked_libraries(answer: str) -> list[Path]:
    """Return the libraries in the answer of ``ldd``, by their shortest path; the kernel's own has no file."""
    return [Path(os.path.normpath(found)) for found in _LIBRARY.findall(answer)]


def build(client: Any) -> None:
    """Build the image under `IMAGE`; takes some seconds and 300 MB.

    Parameters
    ----------
    client
        a Docker client.

    Raises
    ------
    ProviderUnavailable
        if it cannot be built from this machine: it is not a Linux, or is of another kind than Docker's.
    """
    runtime = kafka_runtime.prepare()
    java = runtime.java.path.resolve()
    try:
        files = sorted(_files(java))
    except (OSError, subprocess.SubprocessError) as problem:
        raise ProviderUnavailable(f"no image can be built of this machine's Java ({java}): {problem}") from problem
    with tempfile.TemporaryFile() as content:
        with tarfile.open(fileobj=content, mode="w", dereference=True) as archive:
            for file in files:
                archive.add(file, arcname=str(file))
            for jar in sorted(runtime.jars.glob("*.jar")):
                archive.add(jar, arcname=f"{_JARS}/{jar.name}")
            for directory, mode in (
                (_SCRATCH, 0o1777),
                (_CONFIG, 0o755),
                (_MOUNTED, 0o755),
                ("/var/lib/kafka/data", 0o755),
            ):
                _add(archive, directory, mode)
            for name in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
                _add(archive, f"{_DEFAULTS}/{name}", 0o644, b"")
            _add(archive, _START, 0o755, start_script(java).encode())
        content.seek(0)
        client.api.import_image_from_data(
            content.read(), repository=IMAGE.partition(":")[0], tag=KAFKA_VERSION, changes=[f'ENTRYPOINT ["{_START}"]']
        )


def _files(java: Path) -> Iterator[Path]:
    """Return the files of Java, of the shell, and of the libraries that both are linked with."""
    home = java.parent.parent
    own = [
        file
        for file in home.rglob("*")
        if file.relative_to(home).parts[0] not in _NOT_NEEDED and file.is_file() and file.name != "src.zip"
    ]
    programs = [java, _SHELL, *(file for file in own if ".so" in file.name)]
    linked = {
        library
        for program in programs
        for library in linked_libraries(
            subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False, timeout=60).stdout
        )
    }
    yield from {java, _SHELL, *own, *linked}


def _add(archive: tarfile.TarFile, path: str, mode: int, content: bytes | None = None) -> None:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode = mode
    if content is None:
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    else:
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
