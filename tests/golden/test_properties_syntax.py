"""A properties file reads as java.util.Properties reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirror.config.errors import ConfigError
from mirror.config.properties import parse, read
from tests.golden.facts import entries


@pytest.mark.parametrize("entry", entries("properties_syntax.json", lambda entry: entry["file"]))
def test_a_file_reads_as_in_java(entry: dict[str, Any], tmp_path: Path) -> None:
    text = entry["text"]
    file = tmp_path / "mirror.properties"
    file.write_bytes(text.encode("utf-8"))
    if "error" in entry:
        with pytest.raises(ConfigError):
            read(file)
        return
    # Java has two readers: of bytes, which are ISO-8859-1 (MirrorMaker's), and of characters. ASCII text is one to both.
    readings = [read(file).values, parse(text).values]
    assert entry["properties"] in (readings if not text.isascii() else readings[:1])


@pytest.mark.parametrize("entry", entries("properties_syntax.json", lambda entry: entry["file"]))
def test_every_entry_knows_its_line(entry: dict[str, Any]) -> None:
    if "error" in entry:
        with pytest.raises(ConfigError) as refusal:
            parse(entry["text"])
        assert refusal.value.line is not None
        return
    lines = [read_entry.line for read_entry in parse(entry["text"]).entries]
    assert lines == sorted(lines)
    assert all(1 <= line <= len(entry["text"].splitlines()) for line in lines)
