"""The store of offset syncs keeps and translates what Java's keeps and translates."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.model.offset_sync import OffsetSync, OffsetSyncStore, SyncTranslation, Translated
from mirror.model.partition import TopicPartition
from mirror.model.translation import TooOld
from tests.golden.facts import entries

PARTITION = TopicPartition("orders", 0)
ENTRIES = entries("offset_sync_store.json", lambda entry: f"{len(entry['syncs'])} syncs")


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_slots_are_those_of_java(entry: dict[str, Any]) -> None:
    kept = _after(entry).slots(PARTITION)
    assert [[sync.upstream, sync.downstream] for sync in kept] == [slot for slot in entry["slots"] if slot]


@pytest.mark.parametrize("entry", ENTRIES)
def test_translations_are_those_of_java(entry: dict[str, Any]) -> None:
    store = _after(entry)
    ours = [[position, _as_in_java(store.translate(PARTITION, position))] for position, _ in entry["translate"]]
    assert ours == entry["translate"]


def _after(entry: dict[str, Any]) -> OffsetSyncStore:
    assert entry.keys() == {"checkpoints_readable", "slots", "syncs", "syncs_during_start", "translate"}
    store = OffsetSyncStore(checkpoints_readable=entry["checkpoints_readable"])
    syncs = [OffsetSync(PARTITION, upstream, downstream) for upstream, downstream in entry["syncs"]]
    for sync in syncs[: entry["syncs_during_start"]]:
        store.take(sync)
    store.finish_initial_read()
    for sync in syncs[entry["syncs_during_start"] :]:
        store.take(sync)
    return store


def _as_in_java(translation: SyncTranslation) -> int | None:
    match translation:
        case Translated(downstream):
            return downstream
        case TooOld():
            return -1
        case _:
            return None
