"""Certificates that sign themselves, made by the machine's openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def self_signed(directory: Path, name: str = "test", *more: str) -> tuple[Path, Path]:
    """Make a key and its certificate for a day, with ``more`` options; return both files, in PEM."""
    key, certificate = directory / f"{name}.key", directory / f"{name}.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
    subprocess.run(
        [*command.split(), "-subj", "/CN=broker", *more, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    return key, certificate
