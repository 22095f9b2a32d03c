"""LIST values split as in Java, match what they match in Java, and are refused where Java refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import javaproperties
import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.model.patterns import PatternError, PatternFilter, PatternList, parse_list
from tests.golden.facts import entries

ENTRIES = entries("pattern_lists.json", lambda entry: repr(entry["list"]))


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_list_splits_as_in_java(entry: dict[str, Any]) -> None:
    assert entry.keys() <= {"list", "parsed", "matches", "error"}
    assert list(parse_list(entry["list"])) == entry["parsed"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_list_matches_as_in_java_or_its_file_is_refused(entry: dict[str, Any], tmp_path: Path) -> None:
    if "error" not in entry:
        patterns = PatternList(parse_list(entry["list"]))
        assert {name: patterns.matches(name) for name in entry["matches"]} == entry["matches"]
    elif not entry["parsed"]:
        # Java has no pattern at all for the empty list, which its filters take for "matches nothing".
        nothing = PatternFilter(include=parse_list(entry["list"]))
        everything = PatternFilter(exclude=parse_list(entry["list"]))
        assert not nothing.matches("orders")
        assert everything.matches("orders")
    else:
        with pytest.raises(PatternError):
            PatternList(parse_list(entry["list"]))
        with pytest.raises(ConfigError) as refusal:
            load(_file_selecting(entry["list"], tmp_path))
        assert (refusal.value.line, refusal.value.key) == (5, "topics")


def _file_selecting(topics: str, directory: Path) -> Path:
    file = directory / "mirror.properties"
    values = {
        "clusters": "A, B",
        "A.bootstrap.servers": "a:9092",
        "B.bootstrap.servers": "b:9092",
        "A->B.enabled": "true",
        "topics": topics,
    }
    file.write_text(javaproperties.dumps(values, timestamp=False), encoding="iso-8859-1")
    return file
