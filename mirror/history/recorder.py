"""Recording a flow: one sample after the other, also while a cluster is away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from mirror.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.control.status import FlowObserver
from mirror.control.tick import now_ms
from mirror.history.copy_observer import CopyObserver
from mirror.history.samples import Sample, SourceLog
from mirror.history.store import HistoryWriter
from mirror.kafka.channel import EARLIEST, LATEST, Channel, topic_settings
from mirror.kafka.problems import KafkaProblem
from mirror.model.cliff import RETENTION_KEYS, Retention
from mirror.model.partition import TopicPartition

_LOG = logging.getLogger(__name__)
# Start offsets and retention change slowly, and a cluster of 5,000 partitions is asked for a megabyte of settings.
_LOGS_SECONDS = 300.0
_END_SECONDS = 2.0


class FlowRecorder:
    """Makes samples of what is seen of one flow, and gives them to a writer."""

    def __init__(self, source: ClusterSettings, writer: HistoryWriter, interval_seconds: float) -> None:
        """Record a flow from ``source``, a sample every ``interval_seconds`` at most; connects to it when it must."""
        self._source_settings = source
        self._writer = writer
        self._interval_ms = 1000 * interval_seconds
        self._taken_ms = self._logs_ms = 0
        self._known: tuple[PartitionStatus, ...] = ()
        self._channel: Channel | None = None

    def take(self, status: FlowStatus, at_ms: int) -> tuple[str, ...]:
        """Keep what was seen at a moment, if it is time to; return what the log is to say."""
        # A look that comes a little early is the one: the next would be too late.
        if at_ms < self._taken_ms + 0.9 * self._interval_ms:
            return ()
        self._taken_ms = at_ms
        is_carried = status.state == "FAILED" and bool(self._known)
        if is_carried:
            status = replace(status, partitions=self._carried())
        else:
            self._known = status.partitions or self._known
        sample = Sample(at_ms, status, is_carried)
        if status.partitions and at_ms >= self._logs_ms + 1000 * _LOGS_SECONDS:
            sample = replace(sample, logs=self._logs(status.partitions))
            self._logs_ms = at_ms if sample.logs else self._logs_ms
        return self._writer.take(sample)

    def close(self) -> None:
        """Close the connections."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _carried(self) -> tuple[PartitionStatus, ...]:
        """Return the partitions as they were known last, with where the source ends now."""
        sources = [TopicPartition(each.topic, each.partition) for each in self._known]
        ends: dict[TopicPartition, int] = {}
        try:
            ends = self._source().find_offsets(sources, LATEST)
        except KafkaProblem:
            self.close()
        return tuple(
            replace(
                each,
                source_end=end,
                lag_records=None if end is None else max(0, end - each.upstream_next),
                lag_seconds=None,
            )
            for each, source in zip(self._known, sources, strict=True)
            for end in (ends.get(source),)
        )

    def _logs(self, partitions: tuple[PartitionStatus, ...]) -> dict[TopicPartition, SourceLog]:
        """Return what the source keeps of the partitions, as far as it tells."""
        sources = [TopicPartition(each.topic, each.partition) for each in partitions]
        try:
            channel = self._source()
            starts = channel.find_offsets(sources, EARLIEST)
            settings_of = topic_settings(channel, {each.topic for each in starts}, RETENTION_KEYS)
        except KafkaProblem:
            self.close()
            return {}
        kept = {topic: Retention.of(settings) for topic, settings in settings_of.items()}
        return {source: SourceLog(start, kept.get(source.topic)) for source, start in starts.items()}

    def _source(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(self._source_settings.alias, self._source_settings.client, bootstrap_ms=2_000)
        return self._channel


class FlowNews:
    """What is logged of a flow that is recorded from outside: that it cannot be seen, once, and that it can again."""

    def __init__(self) -> None:
        self._has_seen = False
        self._is_away = False

    def of(self, status: FlowStatus) -> str | None:
        """Return what the next look adds to what was reported."""
        was_away, self._is_away = self._is_away, status.state == "FAILED"
        if not self._is_away:
            self._has_seen = True
            return "is seen again" if was_away else None
        if was_away:
            return None
        carried = "; positions known before are carried on" if self._has_seen else ""
        return f"cannot be seen: {'; '.join(status.reasons)}{carried}"


class AnyObserver:
    """Looks at a flow whoever copies it: an engine of this program by its state topic, others by what they leave."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings) -> None:
        """Observe ``flow``."""
        ends = (flow, settings.clusters[flow.flow.source], settings.clusters[flow.flow.target])
        self._own = FlowObserver(*ends, most_read=50, cliff_seconds=settings.engine.cliff_seconds)
        self._other = CopyObserver(*ends)

    def look(self) -> FlowStatus:
        """Return where the flow stands: of the two the one that is further, where no engine of this program runs."""
        found = self._own.look()
        if found.state != "STOPPED":
            return found
        other = self._other.look()
        return other if _reach(other) > _reach(found) or other.state == "FAILED" else found

    def close(self) -> None:
        """Close the connections."""
        self._own.close()
        self._other.close()


def _reach(status: FlowStatus) -> int:
    return sum(each.upstream_next for each in status.partitions) if status.partitions else -1


def record(
    settings: MirrorSettings,
    flow: FlowSettings,
    writer: HistoryWriter,
    interval_seconds: float,
    stop: threading.Event,
) -> None:
    """Look at a flow every so many seconds from outside, and record it, until told to stop."""
    observer = AnyObserver(settings, flow)
    recorder = FlowRecorder(settings.clusters[flow.flow.source], writer, interval_seconds)
    news = FlowNews()
    with closing(observer), closing(recorder):
        while not stop.is_set():
            began = time.monotonic()
            seen = observer.look()
            if (news_line := news.of(seen)) is not None:
                _LOG.warning("%s: %s", flow.flow, news_line)
            for line in recorder.take(seen, now_ms()):
                _LOG.warning("history: %s", line)
            stop.wait(max(0.0, interval_seconds - (time.monotonic() - began)))


def record_flows(
    settings: MirrorSettings,
    flows: Sequence[FlowSettings],
    writer: HistoryWriter,
    interval_seconds: float,
    stop: threading.Event,
) -> None:
    """Record flows until told to stop, each in a thread: a cluster that does not answer holds up its own only."""
    defects: list[BaseException] = []

    def guarded(flow: FlowSettings) -> None:
        try:
            record(settings, flow, writer, interval_seconds, stop)
        except BaseException as defect:  # noqa: BLE001  # raised below
            defects.append(defect)
            stop.set()

    # Not a pool's: the process would not end before the last of them.
    threads = [
        threading.Thread(target=guarded, args=(flow,), name=f"record {flow.flow}", daemon=True) for flow in flows
    ]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(timeout=_END_SECONDS)
    for line in writer.close():
        _LOG.warning("history: %s", line)
    for defect in defects:
        raise defect
