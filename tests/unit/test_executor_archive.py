"""What executors are handed: all that a task imports, and nothing of PySpark, which they have."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from mirror import executor_archive

IMPORTS = """
import json, sys
import mirror.copier.epochs, mirror.copier.takeover_task, mirror.legacy.stream
import mirror.kafka.kerberos, mirror.model.transforms.python_function, mirror.model.transforms.stock
from importlib.metadata import packages_distributions
tops = {name.partition(".")[0] for name in sys.modules}
found = packages_distributions()
print(json.dumps(sorted({each for top in tops for each in found.get(top, ())})))
"""
# Of the last two, parts are imported where they are installed, and only then.
OF_THE_EXECUTORS = {"mirrorbook", "pyspark", "py4j", "setuptools", "tornado"}


def test_the_archive_has_what_tasks_import(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) - OF_THE_EXECUTORS <= set(executor_archive.DISTRIBUTIONS)

    executor_archive.write_archive(tmp_path / "code.zip")
    with zipfile.ZipFile(tmp_path / "code.zip") as archive:
        names = archive.namelist()
    assert {"mirror/copier/worker_daemon.py", "kafka/__init__.py", "numpy/__init__.py", "tenacity/__init__.py"} <= set(
        names
    )
    assert any(name.startswith("confluent_kafka/cimpl") for name in names)
    assert not any(name.startswith(("pyspark/", "tests/", "/", "..")) or "__pycache__" in name for name in names)
    assert len(names) == len(set(names))
