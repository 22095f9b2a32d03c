"""What the workers of a Spark cluster need of this installation: one archive, which Spark hands to each executor.

It holds this package and the packages that tasks import, compiled parts included, so it fits workers with the same
platform and the same minor version of Python. PySpark is not in it: every executor has its own.

Invariants:

(a) Executors of a cluster have Spark and a Python, nothing else: the code is an archive that Spark unpacks where they
    work (``executor_archive.py``), and its folder is on the path of modules before the first worker starts. Stores
    are read by the driver, for each epoch anew, and travel as PEM in the work of a task (``kafka/security.py:
    without_files``): nobody needs ``keytool`` there. Only a key table of Kerberos has to be at its path on each
    worker.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

#: The folder that executors unpack the archive to, below where they work.
FOLDER = "mirror-code"
#: The distributions whose modules a task may import; those of extras only if they are installed.
DISTRIBUTIONS = (
    *("confluent-kafka", "cramjam", "crc32c", "javaproperties", "kafka-python"),
    *("numpy", "psutil", "regex", "tenacity"),
)
_OF_EXTRAS = ("gssapi",)
_LEFT_OUT = {"__pycache__", "tests"}


def write_archive(path: Path) -> None:
    """Write the archive, a ZIP file; takes a few seconds."""
    # The lowest level: a quarter of the time for a tenth more.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file, name in _files():
            archive.write(file, name)


def _files() -> Iterator[tuple[Path, str]]:
    """Yield each file, and its name below the folder that is put on the path of modules."""
    package = Path(__file__).parent
    for file in sorted(package.rglob("*")):
        name = file.relative_to(package.parent)
        if file.is_file() and _LEFT_OUT.isdisjoint(name.parts):
            yield file, str(name)
    for distribution in (*DISTRIBUTIONS, *_OF_EXTRAS):
        try:
            found = metadata.distribution(distribution)
        except metadata.PackageNotFoundError:
            if distribution in _OF_EXTRAS:
                continue
            raise
        for each in found.files or ():
            taken = Path(str(each.locate()))
            # What lies outside of the folder of packages is for the command line.
            if ".." not in each.parts and _LEFT_OUT.isdisjoint(each.parts) and taken.exists():
                yield taken, str(each)
