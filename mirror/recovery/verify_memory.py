"""What `mirror verify` remembers of earlier comparisons: read from its file, and held against the logs as they are."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings
from mirror.kafka.channel import Channel
from mirror.kafka.log import LogReader
from mirror.kafka.problems import BrokerRefused
from mirror.model.partition import TopicPartition
from mirror.proof.pairs import Mark, PartitionPair
from mirror.proof.raw_batches import mark_of
from mirror.proof.verified_ranges import Entry, Logs, Memory, NotRemembered, misfit, parse


def clusters_of(memory: Memory) -> tuple[str, str]:
    """Return the ids of the two clusters that it tells of."""
    return memory.source_id, memory.target_id


def recalled_from(path: Path, settings: FlowSettings) -> Memory:
    """Return what a file remembers of a flow; nothing if there is none yet.

    Raises
    ------
    ConfigError
        if it is not what an earlier run has written, or of another flow, or could not be written.
    """
    advice = "remember in another file, or delete this one"
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ConfigError(path, None, None, f"{path.parent} is no folder that can be written to: name another file")
    try:
        memory = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Memory(str(settings.flow), "", "", {})
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(path, None, None, f"it cannot be read ({problem}): {advice}") from problem
    except NotRemembered as problem:
        raise ConfigError(path, None, None, f"it is not what mirror verify remembers; {problem}: {advice}") from problem
    if memory.flow != str(settings.flow):
        raise ConfigError(path, None, None, f"it is about the flow {memory.flow}, not of {settings.flow}: {advice}")
    return memory


def with_memory(
    pair: PartitionPair, entry: Entry, logs: Logs, channels: tuple[Channel, Channel], *, lost: bool
) -> PartitionPair:
    """Return the pair with what is remembered of it, or with the reason why all of it is compared anew.

    ``lost`` says that the target has nothing any more of the first records that are to be compared.

    Raises
    ------
    ConnectionFailed, LeaderUnknown
        if it cannot be known whether the logs are still those that were compared.
    """
    why = misfit(entry, logs, pair, lost=lost)
    if why is None:
        source, target = channels
        marks = (source, pair.source.partition, entry.last), (target, pair.target.partition, entry.remote_last)
        gone = [channel.alias for channel, partition, mark in marks if not _stands(channel, partition, mark)]
        if not gone:
            return replace(pair, remembered=entry.remembered(pair))
        why = f"the last batch that was compared is not there any more on {' and '.join(gone)}"
    return replace(pair, notes=(*pair.notes, f"all of it was compared anew: {why}"))


def _stands(channel: Channel, partition: TopicPartition, mark: Mark) -> bool:
    """Whether a log still has a batch."""
    try:
        found = LogReader(channel, partition, mark.base_offset).fetch(wait_ms=0, most_bytes=1)
    except BrokerRefused:
        # Truncated, removed, or damaged: who reads all of it anew finds out.
        return False
    return bool(found) and mark_of(found[0][1]) == mark
