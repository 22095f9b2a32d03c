"""How much has to be copied into topics that are made anew, by what the logs hold that they are filled from."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from mirror.control.same_offsets import FILLERS_A_SECOND, SAMPLE, Logs, read_logs
from mirror.kafka.channel import Channel, topic_settings
from mirror.kafka.cluster_model import Topic
from mirror.model.cliff import duration_words
from mirror.model.counts import are, counted
from mirror.model.partition import TopicPartition

_POLICY = "cleanup.policy"
# Less than half of what was seen on two busy cores, with clusters on the same machine.
_RECORDS_A_SECOND = 100_000
_BYTES_A_SECOND = 50_000_000
# Of a partition; what was seen with two replicas and a flow in each direction.
_MARKERS_A_SECOND = 20


@dataclass(frozen=True, slots=True)
class CopyEstimate:
    """How much is to be copied, and how long that takes at the assumed rates.

    Attributes
    ----------
    size_bytes
        of the batches, as they lie in the logs.
    unread
        partitions that are not in it, as their logs could not be read.
    """

    records: int
    size_bytes: int
    seconds: float
    unread: int = 0

    def __str__(self) -> str:
        """Return it for people, with what it rests on."""
        left_out = f"; {counted(self.unread, 'partition')} could not be read and {are(self.unread)} not in it"
        time = f"about {duration_words(self.seconds)}" if self.seconds >= 60 else "less than a minute"
        return (
            f"about {self.records:,} records ({self.size_bytes / 1e6:,.1f} MB, by the newest {SAMPLE:,} offsets of "
            f"each partition), {time}: assumed are {_RECORDS_A_SECOND:,} records/s, {_BYTES_A_SECOND // 10**6} MB/s "
            f"and, in each partition, {_MARKERS_A_SECOND} markers/s for offsets without a record; a slow line, or a "
            f"quota, takes longer{left_out if self.unread else ''}"
        )


def sampled(
    topics: Mapping[str, Topic], source: Channel, *, read_committed: bool
) -> tuple[dict[TopicPartition, Logs], frozenset[str], int]:
    """Return what the logs of topics hold, which topics are cleaned by key, and how many logs could not be read.

    Raises
    ------
    KafkaProblem
        if the cluster does not answer.
    """
    pairs = {each: each for topic in topics.values() for each in topic.topic_partitions}
    settings = topic_settings(source, topics, [_POLICY])
    compacted = frozenset(name for name, found in settings.items() if "compact" in (found.get(_POLICY) or ""))
    # None of the copies is there yet.
    logs = read_logs(pairs, (), source, source, read_committed=read_committed)
    return logs, compacted, len(pairs) - len(logs)


def estimate_of(logs: Mapping[TopicPartition, Logs], compacted: Container[str], unread: int) -> CopyEstimate:
    """Return what empty copies of these logs take; ``compacted`` are the topics whose copies are cleaned by key."""
    records = size = filling = 0.0
    for each, log in logs.items():
        offsets = log.source.end - log.source.start
        records += offsets * (1.0 - log.share_without_record)
        size += offsets * log.offset_bytes
        fillers, markers = log.to_fill(is_compacted=each.topic in compacted)
        # Each partition waits for its own markers.
        filling = max(filling, fillers / FILLERS_A_SECOND + markers / _MARKERS_A_SECOND)
    copying = max(records / _RECORDS_A_SECOND, size / _BYTES_A_SECOND)
    return CopyEstimate(round(records), round(size), copying + filling, unread)
