"""What an engine that leads no longer has written over in the state topic, and whose it is to write it again."""

from __future__ import annotations

import json
from collections.abc import Collection

from mirror.engine.flow_runtime import FlowRuntime
from mirror.model.partition import TopicPartition


def write_again(runtime: FlowRuntime, overwritten: Collection[bytes]) -> set[bytes]:
    """Have written again what an engine that leads no longer has written over, by keys; return the others.

    Positions, with the chunk of the offset map that is being filled, are the tasks', and so is the gap that a
    partition is about to pass because it is acknowledged: written again as open it would take that back. What is
    said of paused topics is the leader's, and where groups are put that of the thread that puts them there.

    The running epoch ends for what was not asked for before: of a partition that waits, no sooner epoch writes it.
    To be called when nothing is written over any more, too.
    """
    with runtime.lock:
        left = set(overwritten)
        # By key, whether the next epoch can write it: chunks behind the last one handed over are a running task's.
        asked: set[tuple[bytes, bool]] = set()
        for key in overwritten:
            match json.loads(key):
                case ["paused"] | ["placement", *_]:
                    left.discard(key)
                case ["position", topic, number] if _is_copied(runtime, TopicPartition(topic, number)):
                    runtime.to_record.add(TopicPartition(topic, number))
                    asked.add((key, True))
                case ["runs", topic, number, chunk] if _is_copied(runtime, source := TopicPartition(topic, number)):
                    handed_over = runtime.handovers[source].position.chunk
                    if chunk == handed_over:
                        runtime.to_record.add(source)
                    if chunk >= handed_over:
                        asked.add((key, chunk == handed_over))
                case ["gap", topic, number, start, found_at_ms]:
                    gap, is_lifted = runtime.barriers.get(TopicPartition(topic, number), (None, False))
                    if gap is not None and is_lifted and gap.key == (gap.source, start, found_at_ms):
                        left.discard(key)
        if asked - runtime.asked_again:
            runtime.changed()
        runtime.asked_again = asked
        return left - {key for key, _ in asked}


def _is_copied(runtime: FlowRuntime, source: TopicPartition) -> bool:
    """Whether a task of this engine records how far a partition is copied."""
    is_there = any(source == each for each, *_ in runtime.partitions)
    return runtime.is_known and is_there and source in runtime.handovers and source not in runtime.stopped
