"""Copying with the source's offsets, as tasks do it: records where they belong, whatever the source has no record of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirror.kafka.channel import EARLIEST
from mirror.model.translation import Exact
from tests.brokers.copying import (
    Copying,
    NewCopying,
    ends_of,
    write,
)
from tests.brokers.same_offsets_killed import fill, read

LIMIT = 1_000_000


@pytest.fixture
def same_copying(new_copying: NewCopying) -> Callable[..., Copying]:
    def make(*topics: str, **settings: Any) -> Copying:
        made = new_copying(*topics, **settings)
        made.pad_limit = LIMIT
        made.from_the_target()
        return made

    return make


def assert_same(copying: Copying) -> None:
    """Every record is at its offset, for every reader, and every position leads where it led on the source."""
    isolation = "read_committed" if copying.flow.read_committed else "read_uncommitted"
    state = copying.state()
    for source, target in copying.pairs.items():
        originals = read(copying.flow.source_client, source, isolation)
        for each in ("read_committed", "read_uncommitted"):
            assert read(copying.flow.target_client, target, each) == originals
        ends = ends_of(copying.flow.source_client, [source])
        assert ends_of(copying.flow.target_client, [target])[target] == ends[source]
        known, (start,) = state.offset_map(source), ends_of(copying.flow.source_client, [source], EARLIEST).values()
        assert known is not None
        assert known.upstream_next == known.downstream_next == ends[source]
        assert all(known.translate(each) == Exact(each) for each in range(max(start, known.origin), ends[source] + 1))


@pytest.mark.parametrize("read_committed", [False, True])
def test_every_record_has_its_offset_behind_a_removed_head_transactions_and_a_long_hole(
    same_copying: Callable[..., Copying], read_committed: bool
) -> None:
    copying = same_copying(read_committed=read_committed)
    (source,) = copying.pairs
    fill(copying.flow.source_client, source)
    copying.until_caught_up()
    assert_same(copying)
    # Somebody else goes on from what the target says.
    copying.from_the_target()
    write(copying.flow.source_client, source, range(300, 320))
    copying.until_caught_up()
    assert_same(copying)
