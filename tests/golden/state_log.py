"""What a version of this program makes of a state topic's records, in a form that does not depend on its own names.

Used by ``test_state_log.py``, and run with the code of another version to make its part of ``state_log.json``; so it
needs nothing but ``mirror.model.flow_state``, where both have it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from mirror.model.flow_state import FlowState

# What an earlier version calls something of a state.
_FORMER = {"sketches": "sparse_maps", "unread": "not_understood"}


def reading(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what the records say, by what a state calls it: values of classes are lists, in the order of fields."""
    state = FlowState()
    for each in records:
        value = each["value"]
        state.apply(each["key"].encode(), None if value is None else value.encode(), each["term"], each["epoch"])
    named = {_FORMER.get(one.name, one.name): getattr(state, one.name) for one in fields(state)}
    return {name: portable(value) for name, value in named.items() if not name.startswith("_")}


def portable(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        found = [(getattr(value, each.name), each.default) for each in fields(value)]
        # Fields that came with a later version stand at the end; without a value of theirs they make no difference.
        while found and found[-1][0] == found[-1][1]:
            found.pop()
        return [portable(each) for each, _ in found]
    match value:
        case dict():
            return sorted(([portable(key), portable(each)] for key, each in value.items()), key=json.dumps)
        case set() | frozenset():
            return sorted(map(portable, value), key=json.dumps)
        case list() | tuple():
            return [portable(each) for each in value]
        case bytes():
            return value.decode()
        case None | str() | int() | float():
            return value
    raise TypeError(value)


if __name__ == "__main__":
    print(json.dumps(reading(json.loads(Path(sys.argv[1]).read_text()))))
