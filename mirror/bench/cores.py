"""Processor cores of one's own for the target broker, as if it had a machine of its own; Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass

from mirror.lab.errors import BadRequest
from mirror.model.counts import counted


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores the target broker has to itself, and which all others share; both empty: everybody has all."""

    target: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()


SHARED = Cores()


def plan_cores(target: int, present: Set[int]) -> Cores:
    """Return ``target`` of the cores that are ``present`` for the target broker, and the rest for everybody else.

    Raises
    ------
    BadRequest
        if none would be left, or cores cannot be given out here.
    """
    if not target:
        return SHARED
    if target >= len(present):
        raise BadRequest(
            f"--target-cores {target}: of {counted(len(present), 'core')} at least one must be left for everybody else"
        )
    ordered = sorted(present)
    return Cores(frozenset(ordered[:target]), frozenset(ordered[target:]))


def present_cores() -> frozenset[int]:
    """Return the cores this process may run on; none where a process cannot be kept to some (macOS)."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


@contextmanager
def kept_to(cores: Set[int]) -> Iterator[None]:
    """Run what is started inside, and this thread, on ``cores`` only; on all if there are none."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
