"""What a run was made with: versions and the machine's size, kept in ``run.json`` and shown in the report."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

import psutil

_PACKAGES = ("mirrorbook", "pyspark", "kafka-python", "confluent-kafka", "papermill", "pandas", "pyarrow")


def describe_environment() -> Mapping[str, str]:
    """Return names and versions as text; a package that is not installed says so."""
    described = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(os.cpu_count() or "unknown"),
        "memory": f"{psutil.virtual_memory().total / 1e9:.1f} GB",
    }
    for package in _PACKAGES:
        try:
            described[package] = version(package)
        except PackageNotFoundError:
            described[package] = "not installed"
    return described
