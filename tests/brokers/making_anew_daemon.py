"""The process that Spark forks workers from, for an engine that is killed while a copy that was made anew is begun.

It is told the moment, and whom to kill, by its environment: a worker kills its engine and itself then.
"""

from __future__ import annotations

import os
import runpy
import signal
from collections.abc import Callable
from typing import Any

from mirror.copier import share
from mirror.copier.same_lane import SameOffsetsLane
from mirror.copier.same_offsets import SameOffsetsCopy
from mirror.same_offsets.filling import DeleteBefore, Padding

MOMENT, ENGINE = "MIRROR_TEST_MOMENT", "MIRROR_TEST_ENGINE"


def killed() -> None:
    os.kill(int(os.environ[ENGINE]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def behind(done: Callable[..., Any], is_it: Callable[..., bool]) -> Callable[..., Any]:
    """Return what does the same, and is killed behind it, if it is the moment."""

    def doing(*arguments: Any, **named: Any) -> Any:
        answer = done(*arguments, **named)
        if is_it(*arguments):
            killed()
        return answer

    return doing


def fills(kind: type) -> Callable[..., bool]:
    return lambda _copy, step, _at_ms: isinstance(step, kind)


def changed(moment: str) -> None:
    """Have it happen at the moment."""
    match moment:
        case "behind the first positions":
            share.write = behind(share.write, lambda _flow, _topic, records, _before: is_position(records))
        case "behind the padding":
            SameOffsetsCopy.fill = behind(SameOffsetsCopy.fill, fills(Padding))  # type: ignore[method-assign]
        case "behind the removal of the padding":
            SameOffsetsCopy.fill = behind(SameOffsetsCopy.fill, fills(DeleteBefore))  # type: ignore[method-assign]
        case "behind the first batch":
            appended = SameOffsetsLane._acknowledged
            SameOffsetsLane._acknowledged = behind(appended, lambda *_: True)  # type: ignore[method-assign]


def is_position(records: Any) -> bool:
    return any(key.startswith(b'["position"') for content in records.values() for key, _ in content)


if __name__ == "__main__":
    changed(os.environ[MOMENT])
    runpy.run_module("mirror.copier.worker_daemon", run_name="__main__", alter_sys=True)
