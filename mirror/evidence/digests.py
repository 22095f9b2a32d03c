"""What stands for the content of a file in a journal: ``BYTES:SHA-256``."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 20


def seal_of(path: Path, length: int | None = None) -> str:
    """Return the seal of a file, or of its first ``length`` bytes; read piece by piece."""
    digest, count = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK if length is None else min(_CHUNK, length - count)):
            digest.update(chunk)
            count += len(chunk)
    return f"{count}:{digest.hexdigest()}"


def seal_of_text(text: str) -> str:
    """Return the seal of a file that is to hold a text."""
    content = text.encode()
    return f"{len(content)}:{hashlib.sha256(content).hexdigest()}"
