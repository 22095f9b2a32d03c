"""The ends of a flow of a properties file, for any two clusters."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from mirror.atomic_file import write_new
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.closed_copies import closed_notes, open_again
from mirror.control.group_view import checkpoints_on_record
from mirror.control.groups import recorder
from mirror.control.liveness import LivenessWatch, is_engine_running
from mirror.control.selected_topics import deselected_topics, grown_past
from mirror.control.tick import now_ms
from mirror.kafka import batch, old_topics
from mirror.kafka.batch import Header, Record
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter, holds_record, read_batches
from mirror.kafka.old_topics import OldTopic
from mirror.kafka.problems import ClusterError
from mirror.kafka.topic_ids import differ
from mirror.model.counts import counted
from mirror.model.failover import FAILOVER_KEY, FailoverEntry, not_understood
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.progress import Watch, nobody
from mirror.model.state_record import StateRecord
from mirror.model.state_values import failover_record, no_failover_record
from mirror.model.verdict import Verdict
from mirror.recovery import stranded_files
from mirror.recovery.copy_estimate import CopyEstimate, estimate_of, sampled
from mirror.recovery.cut_log_ends import ended_at_the_cut
from mirror.recovery.flow_ends import Copied, Cut, Ends, Pausing, troubles_of
from mirror.recovery.group_moves import GroupMoves, MovePlan, apply_moves, plan_moves
from mirror.recovery.group_snapshot import GroupSnapshot, RestoreAction, look_at, restore
from mirror.recovery.probing import (
    PROBE_SECONDS,
    Gone,
    Known,
    ProbeRow,
    probe_each,
    probing,
    refused_words,
    wait_until_gone,
)
from mirror.recovery.recent_writers import RECENT_MS, Writers, find_writers, open_transactions
from mirror.recovery.remaining import Remaining, find_remaining
from mirror.recovery.rewritten import Rewritten, find_rewritten
from mirror.recovery.seen_at_work import Placed, first_write, gone_on, idle_groups
from mirror.recovery.state_followers import StateFollowers
from mirror.recovery.staying import NOBODY, Staying, find_staying
from mirror.recovery.step_facts import named
from mirror.recovery.stranded_files import Stranded, StrandedFile
from mirror.recovery.written_by_others import held, holes_among, written_in
from mirror.same_offsets.chain import producer_of

_BOOTSTRAP_MS = 5_000


@dataclass(frozen=True, slots=True)
class ClusterEnds:
    """The ends of a flow of a properties file.

    They are connected to for each question, since clusters come and go meanwhile; only the state topics are followed,
    and probes from while the run was planned count when it is made sure that the source is gone.
    """

    settings: MirrorSettings
    chosen: FlowSettings
    pausing: Pausing
    compare: Callable[[FlowSettings, Path | None], tuple[Verdict, str]]
    pattern: str = ".*"
    probe_seconds: float = PROBE_SECONDS
    detect_seconds: float = 30.0
    apart: Staying = NOBODY
    progress: Callable[[], AbstractContextManager[Watch]] = lambda: nullcontext(nobody)
    followed: StateFollowers = field(default_factory=StateFollowers, compare=False, repr=False)
    probed: ProbeRow = field(default_factory=ProbeRow, compare=False, repr=False)
    liveness: LivenessWatch = field(default_factory=LivenessWatch, compare=False, repr=False)

    @property
    def flow(self) -> Flow:
        """See `FlowEnds`."""
        return self.chosen.flow

    @property
    def reads_committed(self) -> bool:
        """See `FlowEnds`."""
        return self.chosen.reads_committed

    def copy_of(self, topic: str) -> str:
        """See `FlowEnds`."""
        return self.chosen.copy_of(topic)

    def wait_until_gone(self) -> Gone:
        """See `FlowEnds`."""
        return wait_until_gone(
            self.settings.clusters[self.flow.source],
            known=self._known(),
            probe_seconds=self.probe_seconds,
            timeout_seconds=self.detect_seconds,
            row=self.probed,
        )

    @contextmanager
    def probing(self) -> Iterator[None]:
        """See `FlowEnds`."""
        # Asked for here: the state topic is followed by one thread.
        known = self._known()
        with probing(self.probed, self.settings.clusters[self.flow.source], self.probe_seconds, known):
            yield

    def login_refusal(self) -> str | None:
        """See `FlowEnds`."""
        return refused_words(self.flow.source, self.probed.refused)

    def answered(self) -> Sequence[str]:
        """See `FlowEnds`."""
        return self.probed.answered

    def answering(self) -> Sequence[str]:
        """See `FlowEnds`."""
        found = probe_each(self.settings.clusters[self.flow.source], self.probe_seconds, known=self._known())
        return [address for address, heard in found.items() if heard.problem is None]

    def copied(self) -> Copied:
        """See `FlowEnds`."""
        state = self._state()
        by_hand = state.pauses.without_cut()
        unknown = {key: each.fences for key, each in state.not_understood.items() if each.kind == FAILOVER_KEY}
        stops = state.stops | (dict(state.run.stopped) if state.run is not None else {})
        return Copied(
            {each: position for each, position in sorted(state.positions.items()) if self._selects(each.topic)},
            {each: why for each, why in stops.items() if self._selects(each.topic)},
            [
                f"{gap.source} from {gap.start}: {gap.reason}"
                for gap in state.open_gaps
                if self._selects(gap.source.topic)
            ],
            state.source_id,
            state.run.at_ms if state.run else None,
            (*not_understood(unknown), *state.failovers.values()),
            tuple(sorted({topic for topic, _ in state.positions if self._selects(topic) and by_hand.is_paused(topic)})),
            by_hand.descriptions(),
            dict(state.placements),
            troubles_of(state),
            deselected_topics(self.chosen, state.positions),
            closed_notes(self.flow, self.settings.clusters[self.flow.target].bootstrap_servers, state),
            state.run.untroubled_at_ms if state.run else None,
        )

    def is_running(self) -> bool:
        """See `FlowEnds`."""
        state, liveness = self.liveness.look(self._state)
        return is_engine_running(state.run, liveness)

    def ends(self) -> Ends:
        """See `FlowEnds`."""
        with self._old_cluster() as source:
            topics = source.topics()
            for name, why in topics.problems.items():
                if self._selects(name):
                    raise ClusterError(source.alias, f"looking at the topic {name}", why)
            chosen = [each for name, topic in topics.items() if self._selects(name) for each in topic.topic_partitions]
            starts, visible = source.offsets(chosen, "earliest"), source.offsets(chosen, "latest")
            # A broker that is not the leader any more tells what it has written itself, and no error.
            written = source.offsets(chosen, "written")
            for each, why in (starts.problems | visible.problems | written.problems).items():
                raise ClusterError(source.alias, f"asking where {each} ends", why)
            ids = {name: topic.topic_id for name, topic in topics.items() if self._selects(name)}
            ends = {each: max(end, written[each]) for each, end in visible.items()}
            return Ends(source.cluster_id, starts, ends, ids)

    def uncopied_of_deselected(self) -> Sequence[str]:
        """See `FlowEnds`."""
        left = {each: at for each, at in self._state().positions.items() if not self.chosen.replicates(each.topic)}
        if not left:
            return []
        with self._old_cluster() as source:
            more = grown_past(source, left)
        words = f"copied once, and no longer selected by topics of {self.flow}; {self.flow.source} has more of"
        return [f"{words}: {named(more)}"] if more else []

    def rewritten(self, *, by_epochs: bool = False) -> Rewritten:
        """See `FlowEnds`."""
        state = self._state()
        own = {each: position for each, position in state.positions.items() if self._selects(each.topic)}
        with self._source() as source, self._target() as target:
            return find_rewritten(self.chosen, state, own, source, target, by_epochs=by_epochs)

    def topics(self, names: Collection[str]) -> Mapping[str, OldTopic]:
        """See `FlowEnds`."""
        with self._old_cluster() as old:
            return old_topics.look_at(old, names)

    def estimate(self, names: Collection[str]) -> CopyEstimate:
        """See `FlowEnds`."""
        with self._old_cluster() as cluster, self._source() as source:
            return estimate_of(*sampled(cluster.topics(names), source, read_committed=self.reads_committed))

    def save_unmatched(self, names: Collection[str], directory: Path) -> Stranded:
        """See `FlowEnds`."""
        topics, ends = self.topics(names), self.ends()
        stretches = {each: (ends.starts[each], end) for each, end in ends.ends.items() if each.topic in topics}
        with self._target() as target:
            return self._save(
                *(topics, stretches, directory),
                lambda batches, *place: stranded_files.unmatched(batches, self._copies(target, *place)),
            )

    def save_stretches(self, stretches: Mapping[TopicPartition, tuple[int, int]], directory: Path) -> Stranded:
        """See `FlowEnds`."""
        copied_back = self._copied_back()

        def found(batches: Iterable[tuple[memoryview, Header]], *_: object) -> Iterator[Record]:
            for content, header in batches:
                if header.record_count and header.producer_id not in copied_back:
                    yield from batch.records(content)

        return self._save(self.topics({each.topic for each in stretches}), stretches, directory, found)

    def _save(
        self,
        topics: Mapping[str, OldTopic],
        stretches: Mapping[TopicPartition, tuple[int, int]],
        directory: Path,
        found: Callable[[Iterator[tuple[memoryview, Header]], TopicPartition, int, int], Iterable[Record]],
    ) -> Stranded:
        """Save of stretches of the source what is ``found`` in their batches."""
        stranded_files.make_private(directory)
        files: list[StrandedFile] = []
        with self._source() as source, self.progress() as watch:
            for number, (each, (start, end)) in enumerate(sorted(stretches.items())):
                watch(f"saving what only {self.flow.source} has", number, len(stretches))
                batches = read_batches(source, each, start, end, read_committed=self.chosen.reads_committed)
                kept = (record for record in found(batches, each, start, end) if start <= record.offset < end)
                files.append(stranded_files.save(directory, each, end, kept))
        saved = Stranded(directory, tuple(topics.values()), tuple(files))
        stranded_files.seal(saved)
        return saved

    def save_group_positions(self, names: Collection[str], path: Path) -> int:
        """See `FlowEnds`."""
        # Those that the source hides are not listed.
        known = checkpoints_on_record(self.chosen, self.settings.clusters[self.flow.target].client)
        with self._old_cluster() as old:
            groups = {*(group for group, _ in known), *(each.group for each in old.groups())}
            found = old.positions_of_groups(sorted(groups))
        for group, why in found.problems.items():
            raise ClusterError(self.flow.source, f"asking where group {group} is", why)
        places = ((group, *each, at.position) for group, of_group in found.items() for each, at in of_group.items())
        rows = sorted(each for each in places if each[1] in names)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_new(path, text.getvalue())
        return len(rows)

    def close_topics(self, topics: Collection[OldTopic]) -> None:
        """See `FlowEnds`."""
        with self._old_cluster() as old:
            old_topics.close(old, topics)

    def open_topics(self, topics: Collection[OldTopic]) -> None:
        """See `FlowEnds`."""
        with self._old_cluster() as old:
            old_topics.open_again(old, [each.as_closed for each in topics])

    def delete_topics(self, topics: Collection[OldTopic]) -> None:
        """See `FlowEnds`."""
        with self._old_cluster() as old:
            old_topics.delete(old, topics)

    def create_topics(self, topics: Collection[OldTopic]) -> None:
        """See `FlowEnds`."""
        with self._standby() as standby:
            copies = standby.topics([self.copy_of(each.name) for each in topics])
        counts = {name: len(copy.partitions) for name, copy in copies.items()}
        with self._old_cluster() as old:
            old_topics.create(old, topics, counts)

    def holding(self, stretches: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `FlowEnds`."""
        # What was copied from the target, the target has.
        return self._holding(stretches, read_committed=self.chosen.reads_committed, but_for=self._copied_back())

    def written_by_others(
        self, stretches: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `FlowEnds`."""
        back = self.settings.back_of(self.flow)
        copied_back = list(self._state_of(back.flow).writers) if back is not None else []
        return self._holding(stretches, read_committed=False, but_for=copied_back)

    def _copied_back(self) -> set[int]:
        """Return the producer ids that the flow back has written with, whether it is enabled now or not."""
        back = Flow(self.flow.target, self.flow.source)
        return {producer_of(back).producer_id, *self._state_of(back).writers}

    def not_copied_back(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `FlowEnds`."""
        back = self.settings.back_of(self.flow)
        copies = self._copies_that_stay(back)
        with self._target() as channel:
            ends = channel.offsets(copies.keys() - channel.absent(copies), LATEST, View.WRITTEN)
            # Of a topic that was created anew there, or truncated, nothing was copied by the flow.
            anew = {each for each in ends if differ(copies[each].target_id, channel.topic_id(each.topic))}
            behind = {
                each: position.downstream if each not in anew and position.downstream <= ends.get(each, 0) else 0
                for each, position in copies.items()
            }
            state, begun, own = self._state(), self._begun_later(back), self._own_writers()
            beside = ended_at_the_cut(channel, state, self._beside(back)).reached
            before = ended_at_the_cut(channel, state, begun).reached
            latest = channel.offsets(beside, LATEST, View.WRITTEN)
            after = written_in(channel, {each: (behind[each], end) for each, end in ends.items()}, own)
            among = held(channel, holes_among(channel, state, ends.keys() - anew).since, own)
            return {
                **after,
                **{each: (start, after.get(each, (0, end))[1]) for each, (start, end) in among.items()},
                **written_in(channel, {each: (beside[each], end) for each, end in latest.items()}, own),
                **written_in(channel, {each: (at, begun[each]) for each, at in before.items()}, own),
            }

    def untold_since_cut(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `FlowEnds`."""
        back = self.settings.back_of(self.flow)
        begun, own, copies = self._begun_later(back), self._own_writers(), self._copies_that_stay(back)
        with self._target() as channel:
            before = ended_at_the_cut(channel, self._state(), begun).untold.items()
            untold = {each: (start, min(end, begun[each])) for each, (start, end) in before}
            untold |= ended_at_the_cut(channel, self._state(), self._beside(back)).untold
            among = holes_among(channel, self._state(), copies).untold
            return {**held(channel, among, own), **written_in(channel, untold, own)}

    def _copies_that_stay(self, back: FlowSettings | None) -> dict[TopicPartition, Position]:
        """Return how far each copy on the target reaches that the flow back does not copy, by its partition there."""
        copies = {
            TopicPartition(position.target or self.copy_of(each.topic), each.partition): position
            for each, position in self._state().positions.items()
            if self._selects(each.topic)
        }
        return {each: at for each, at in copies.items() if back is None or not back.replicates(each.topic)}

    def _own_writers(self) -> set[int]:
        """Return the producer ids of mirrors into the target."""
        return {producer_of(self.flow).producer_id, *self._mirrors_into(self.flow.target)}

    def _beside(self, back: FlowSettings | None) -> list[TopicPartition]:
        """Return the partitions of the old names on the target that the flow back does not copy.

        Under other names than the copies' the applications go on with these.
        """
        return [
            each
            for each in self._state().positions
            if self._selects(each.topic)
            and self.copy_of(each.topic) != each.topic
            and not (back is not None and back.replicates(each.topic))
        ]

    def _begun_later(self, back: FlowSettings | None) -> dict[TopicPartition, int]:
        """Return where the flow back began in logs that were there before (`auto.offset.reset = latest`)."""
        if back is None:
            return {}
        positions = self._state_of(back.flow).positions
        return {each: at.origin for each, at in positions.items() if not at.complete and back.replicates(each.topic)}

    def _holding(
        self,
        stretches: Mapping[TopicPartition, tuple[int, int]],
        *,
        read_committed: bool,
        but_for: Collection[int],
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        with self._source() as channel:
            return {
                each: (start, end)
                for each, (start, end) in stretches.items()
                if holds_record(channel, each, start, end, read_committed=read_committed, but_for=but_for)
            }

    def open_transactions(self) -> Sequence[str]:
        """See `FlowEnds`."""
        partitions = list(self.ends().ends)
        with self._source() as channel:
            return open_transactions(channel, partitions)

    def writers(self) -> Writers:
        """See `FlowEnds`."""
        partitions = list(self.ends().ends)
        own = self._mirrors_into(self.flow.source)
        state, liveness = self.liveness.look(self._state)
        now = now_ms()
        if state.run is not None and is_engine_running(state.run, liveness):
            # If this machine's clock is ahead, what was written just now is old by it.
            now = min(now, state.run.at_ms)
        with self._source() as channel:
            return find_writers(channel, partitions, own=own, since_ms=now - RECENT_MS)

    def members(self, groups: Sequence[str]) -> Sequence[str]:
        """See `FlowEnds`."""
        with self._old_cluster() as source:
            found = source.describe_groups(groups)
        return [
            *(f"group {group}: {why}" for group, why in found.problems.items()),
            *(
                f"group {group} has {counted(state.members, 'member')} ({state.state})"
                for group, state in found.items()
                if state.is_active
            ),
        ]

    def first_written(self, since_ms: int) -> int | None:
        """See `FlowEnds`."""
        with self._standby() as target:
            topics = target.topics()
        back = self.settings.back_of(self.flow)
        names = set(topics)
        if back is None:
            # Nobody says what applications write there; under their old names, or in the copies, they do.
            copied = {each.topic for each in self._state().positions}
            names &= copied | set(map(self.copy_of, copied))
        written = [
            each
            for name in sorted(names)
            if not self.chosen.policy.is_heartbeats_topic(name) and (back is None or back.replicates(name))
            for each in topics[name].topic_partitions
        ]
        reached = self._copied_into(self.flow.target)
        with self._target() as channel:
            # Copied records may bear any time, also one to come: a copy counts where others have written behind it.
            ends = channel.find_offsets([each for each in written if each in reached], LATEST)
            behind = {each: (reached[each], end) for each, end in ends.items()}
            alone = ends.keys() - written_in(channel, behind, self._own_writers()).keys()
            return first_write(channel, [each for each in written if each not in alone], since_ms)

    def idle_groups(self, groups: Collection[str], placed: Placed) -> Mapping[str, str]:
        """See `FlowEnds`."""
        with self._standby() as target:
            return idle_groups(target, groups, placed)

    def gone_on(self, placed: Placed) -> Sequence[str]:
        """See `FlowEnds`."""
        with self._standby() as target:
            return gone_on(target, placed)

    def of_groups(self, pattern: str) -> ClusterEnds:
        """See `FlowEnds`."""
        return replace(self, pattern=pattern)

    def staying(self) -> Staying:
        """See `FlowEnds`."""
        there = self._state_of(Flow(self.flow.target, self.flow.source))
        put = {(group, partition.topic) for group, partition in there.placements}
        return find_staying(self.chosen, self.settings.clusters, {each.topic for each in there.positions}, put)

    def but_for(self, staying: Staying) -> ClusterEnds:
        """See `FlowEnds`."""
        return replace(self, apart=staying)

    def remaining(self, moved: Collection[str]) -> Remaining:
        """See `FlowEnds`."""
        known = checkpoints_on_record(self.chosen, self.settings.clusters[self.flow.target].client)
        with self._old_cluster() as source:
            return find_remaining(self.chosen, source, moved, {group for group, _ in known})

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        """See `FlowEnds`."""
        return plan_moves(
            self.chosen,
            self.settings.clusters,
            pattern=self.pattern,
            ask_source=ask_source,
            flows=self.settings.enabled_flows,
            back=self.settings.back_of(self.flow),
            with_left_out=True,
            log=self.followed.log(self.settings.clusters, self.flow),
        ).without(self.apart.groups)

    def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
        """See `FlowEnds`."""
        return apply_moves(plan, self.settings.clusters, snapshot=snapshot)

    def restore_groups(self, snapshot: Path) -> Sequence[str]:
        """See `FlowEnds`."""
        saved, target = GroupSnapshot.load(snapshot), self.settings.clusters[self.flow.target]
        decisions = restore(look_at(saved, self.flow, target, snapshot), target, saved)
        return [
            f"group {each.saved.group}, {each.saved.partition}: {each.reason}"
            for each in decisions
            if each.action is RestoreAction.REFUSED
        ]

    def pause(self) -> Cut:
        """See `FlowEnds`."""
        cut = self.pausing.pause(self.flow)
        return replace(cut, limit=", and ".join(filter(None, (cut.limit, self.open_closed(forgets=False)))) or None)

    def open_closed(self, *, forgets: bool) -> str | None:
        """See `FlowEnds`."""
        # Whoever has closed them does not delete them any more.
        if not (closed := self._state().closed):
            return None
        with self._standby() as target:
            opened = open_again(target, closed.values())
        if opened.records and forgets:
            self._record(*opened.records)
        return ", and ".join(opened.problems.values()) or None

    def resume(self) -> str:
        """See `FlowEnds`."""
        return self.pausing.resume(self.flow)

    def is_paused(self) -> bool:
        """See `FlowEnds`."""
        return self.pausing.is_paused(self.flow)

    def is_cut(self) -> bool:
        """See `FlowEnds`."""
        return self.pausing.is_cut(self.flow)

    def verify(self, remember: Path | None = None) -> tuple[Verdict, str]:
        """See `FlowEnds`."""
        return self.compare(self.chosen, remember)

    def put(self, entry: FailoverEntry) -> None:
        """See `FlowEnds`."""
        self._record(failover_record(entry))

    def take(self, run: str) -> None:
        """See `FlowEnds`."""
        self._record(no_failover_record(run))

    def _copies(
        self, target: Channel, partition: TopicPartition, start: int, end: int
    ) -> Iterator[tuple[memoryview, Header]]:
        """Return the batches of a copy with the source's offsets that lie at these offsets; none if it has none."""
        copy = TopicPartition(self.copy_of(partition.topic), partition.partition)
        starts = target.find_offsets([copy], EARLIEST)
        if copy in starts.problems:
            return
        start, end = max(start, starts[copy]), min(end, target.offsets([copy], LATEST)[copy])
        if start < end:
            yield from read_batches(target, copy, start, end, read_committed=self.chosen.reads_committed)

    def _known(self) -> Known:
        state = self._state()
        return Known(state.source_brokers, state.source_id)

    def _record(self, *records: StateRecord) -> None:
        with closing(LogWriter(self.chosen.target_producer, alias=self.flow.target)) as writer:
            recorder(self.chosen, writer)(records)

    def _selects(self, topic: str) -> bool:
        # Heartbeats come from the engine itself, whatever the applications do.
        is_seen = self.chosen.replicates(topic) and topic not in self.apart.topics
        return is_seen and not self.chosen.policy.is_heartbeats_topic(topic)

    def _state(self) -> FlowState:
        return self._state_of(self.flow)

    def _state_of(self, flow: Flow) -> FlowState:
        return self.followed.state(self.settings.clusters, flow)

    def _mirrors_into(self, alias: str) -> set[int]:
        """Return the producer ids of the file's flows to a cluster, as far as they are on record."""
        into = (each.flow for each in self.settings.enabled_flows if each.flow.target == alias)
        return {producer_id for flow in into for producer_id in self._state_of(flow).writers}

    def _copied_into(self, alias: str) -> dict[TopicPartition, int]:
        """Return how far the copies reach that the file's flows have on a cluster."""
        return {
            TopicPartition(position.target or each.copy_of(source.topic), source.partition): position.downstream
            for each in self.settings.enabled_flows
            if each.flow.target == alias
            for source, position in self._state_of(each.flow).positions.items()
        }

    def _old_cluster(self) -> Cluster:
        return Cluster.connect(self.settings.clusters[self.flow.source])

    def _standby(self) -> Cluster:
        return Cluster.connect(self.settings.clusters[self.flow.target])

    def _source(self) -> AbstractContextManager[Channel]:
        return self._channel(self.flow.source)

    def _target(self) -> AbstractContextManager[Channel]:
        return self._channel(self.flow.target)

    def _channel(self, alias: str) -> AbstractContextManager[Channel]:
        return closing(Channel(alias, self.settings.clusters[alias].client, bootstrap_ms=_BOOTSTRAP_MS))
