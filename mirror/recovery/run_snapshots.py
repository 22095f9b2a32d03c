"""The files in a run's directory that hold where groups were before their positions were changed, numbered in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_BEFORE, _PUT_BACK = "groups-before", "groups-put-back"


def taken(directory: Path) -> Sequence[Path]:
    """Return those whose positions are not put back, in order."""
    return sorted(directory.glob(f"{_BEFORE}-*.json"), key=_number)


def following(directory: Path) -> Path:
    """Return the name of the next one, which is not there yet."""
    numbers = [_number(each) for each in directory.glob("groups-*-*.json")]
    return directory / f"{_BEFORE}-{max(numbers, default=0) + 1}.json"


def put_back(snapshot: Path) -> None:
    """Note, by its name, that the positions of one are put back."""
    snapshot.replace(snapshot.with_name(f"{_PUT_BACK}-{_number(snapshot)}.json"))


def _number(snapshot: Path) -> int:
    return int(snapshot.stem.rpartition("-")[2])
