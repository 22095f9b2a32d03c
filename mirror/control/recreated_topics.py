"""Copies with the source's offsets whose source topics were deleted and created anew: deleted, to be made anew.

What a copy holds may be all that is left of the old topic, so this is done only where the file says so
(``mirror.offsets.recreated = make-anew``), and only once every broker of the source that is up says that the topic is a
new one: one that lags behind may still tell of an older one.

Invariants:

(a) A copy is deleted by its id, and that is the one on record of each of its partitions; a new topic of that name is
    left alone, however late a request arrives.
(b) Nothing appends to it any more: all its partitions have stopped, in an epoch that has ended, and it is not paused.
    That is asked once more right before it is closed, and right before it is deleted: a failover may have cut the flow
    meanwhile, and applications go on with it by then.
(c) What is gone with it is a gap on record before it is deleted, by what its logs hold: positions on record may lie
    behind that.
(d) The source is the cluster that it was copied from: what was copied from one that is lost is nowhere else. It may
    have been built anew under its former id: then none of the topics that were copied is the one that it was. Where
    there is but one, nobody can tell.
(e) Nobody else has written to it: applications may have gone on with it while the source was down, and their records
    are nowhere else. Brokers refuse what they send from before the look at it on (``max.message.bytes = 0``); a copy
    that is kept takes records again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, replace

from mirror.config.settings import FlowSettings
from mirror.control import closed_copies
from mirror.control.flow_tick import RecordingTick
from mirror.control.topics import ClusterTopics, plan_topics
from mirror.kafka import old_topics, topic_ids
from mirror.kafka.answers import Found, ItemResult
from mirror.kafka.brokers import known_topic_ids
from mirror.kafka.channel import Channel
from mirror.kafka.cluster_model import ConfigChange, NewTopic, Topic
from mirror.kafka.log import read_batches
from mirror.kafka.old_topics import OldTopic
from mirror.kafka.problems import ClusterError, KafkaProblem
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.same_offsets.chain import producer_of
from mirror.waiting import last_seen

# Brokers take in a changed setting within moments, each by itself; what they took before lies in the log then.
_CLOSED_SECONDS = 3.0
# For as long a broker is waited for that tells of a topic as it was before.
_TOLD_SECONDS = 10.0
# Behind it the reason of a gap says that the copy is not deleted yet, and why.
_STILL_THERE = "; it is still there, with what it has, since "
_NOT_STOPPED = "the flow was paused or cut, or copies it again, meanwhile"


@dataclass(frozen=True, slots=True)
class OutdatedCopy:
    """A copy of a topic that is another one by now.

    Attributes
    ----------
    topic
        the topic on the source, as it is now.
    copy
        the topic on the target, whose records are of the former one.
    positions
        how far that was copied, by partition of the source.
    """

    topic: Topic
    copy: Topic
    positions: Mapping[TopicPartition, Position]

    @property
    def former_id(self) -> str:
        """The id of the topic that it is a copy of."""
        return next(each.topic_id for each in self.positions.values() if each.target_id == self.copy.topic_id)


def outdated_copies(
    state: FlowState, settings: FlowSettings, upstream: Mapping[str, Topic], downstream: Mapping[str, Topic]
) -> tuple[OutdatedCopy, ...]:
    """Return the copies to be deleted, as both clusters describe their topics; see the module's invariants."""
    past = {gap.topic_id for gap in state.gaps.values() if gap.kind is GapKind.RECREATED}
    found = []
    for name, known in _with_same_offsets(state, settings).items():
        topic = upstream.get(name)
        if topic is None or topic.topic_id in past:
            continue
        present = [known[each] for each in topic.topic_partitions if each in known]
        names = {position.target or settings.copy_of(name) for position in present}
        copy = downstream.get(next(iter(names), ""))
        if copy is None or len(names) != 1:
            continue
        is_new = all(topic_ids.differ(position.topic_id, topic.topic_id) for position in present)
        if is_new and all(position.target_id == copy.topic_id != topic_ids.NONE for position in present):
            found.append(OutdatedCopy(topic, copy, known))
    return tuple(found)


def may_be_rebuilt(state: FlowState, upstream: Mapping[str, Topic]) -> bool:
    """Whether each of several topics that were copied is gone or another one: the cluster may have been built anew.

    That a topic goes on as the new one it is, translated or with a copy made anew, says nothing: its id on record is
    that of the new one.
    """
    anew = {gap.source.topic for gap in state.gaps.values() if gap.kind is GapKind.RECREATED}
    known = {(source.topic, position.topic_id) for source, position in state.positions.items() if position.topic_id}
    are_others = all(
        name in anew or name not in upstream or topic_ids.differ(before, upstream[name].topic_id)
        for name, before in known
    )
    return are_others and len({name for name, _ in known}) > 1


def gaps_of(
    copy: OutdatedCopy,
    bounds: Mapping[TopicPartition, tuple[int, int]],
    state: FlowState,
    flow: Flow,
    at_ms: int,
) -> Iterable[Gap]:
    """Yield what is gone with a copy and is not on record yet.

    Parameters
    ----------
    bounds
        where the log of each of its partitions begins and ends: its offsets are those of the former topic.
    """
    recorded = {(gap.source, gap.topic_id) for gap in state.gaps.values() if gap.kind is GapKind.RECREATED}
    for partition, (start, end) in sorted(bounds.items()):
        source = TopicPartition(copy.topic.name, partition.partition)
        position = copy.positions.get(source)
        until = max(end, position.source_end) if position is not None else end
        if until == start or (source, copy.former_id) in recorded:
            continue
        reason = (
            f"the topic {source.topic} on {flow.source} was deleted and created anew (id {copy.former_id}, now "
            f"{copy.topic.topic_id}), and its copy {copy.copy.name} on {flow.target} is deleted by the engine to be "
            f"made anew: with that neither has the offsets {start} to {until - 1} of the old {source} any more, of "
            f"which the copy had {end - start}"
        )
        yield Gap(source, start, until, reason, at_ms, GapKind.RECREATED, None, copy.former_id)


def with_outcome(copy: OutdatedCopy, gaps: Iterable[Gap], flow: Flow, problem: str | None) -> Iterable[Gap]:
    """Yield those of the gaps that do not say yet what became of the copy; ``problem``: why it was not deleted."""
    still_there = (
        f"{_STILL_THERE}{flow.target} does not delete it: {problem}: delete the topic there, or have {flow.target} "
        "take the engine's request, which comes again"
        if problem is not None
        else ""
    )
    for gap in gaps:
        is_of_copy = (gap.kind, gap.topic_id, gap.source.topic) == (
            GapKind.RECREATED,
            copy.former_id,
            copy.topic.name,
        )
        reason = gap.reason.partition(_STILL_THERE)[0] + still_there
        if is_of_copy and reason != gap.reason:
            yield replace(gap, reason=reason)


def not_as_wanted(copy: OutdatedCopy, found: OldTopic, wanted: NewTopic, flow: Flow) -> str | None:
    """Say in what a copy that somebody else has created is another one than was ``wanted``; None: in nothing."""
    differs = []
    if found.partitions != wanted.partitions:
        becomes = "it keeps them" if found.partitions > wanted.partitions else "what lacks is added"
        counts = f"{counted(found.partitions, 'partition')}, and {copy.topic.name} on {flow.source} {wanted.partitions}"
        differs.append(f"it has {counts}; {becomes}")
    if wanted.replication_factor not in (-1, found.replication_factor):
        differs.append(f"it has {counted(found.replication_factor, 'replica')}, and not {wanted.replication_factor}")
    if not differs:
        return None
    return (
        f"{found.name} on {flow.target} was created by somebody else as soon as it was deleted to be made anew, as by "
        f"a client that asks for it where auto.create.topics.enable = true: {'; '.join(differs)}. To have it as the "
        "engine creates it, keep clients from asking for it, and delete it"
    )


def written_by_others(settings: FlowSettings, copy: TopicPartition, start: int, end: int) -> str | None:
    """Say who else has written to a copy between two offsets, None if nobody has.

    Raises
    ------
    KafkaProblem
        if they cannot be read.
    """
    if start >= end:
        return None
    ours = producer_of(settings.flow).producer_id
    with closing(Channel(settings.flow.target, settings.clients.checkpoints_consumer)) as channel:
        for _, header in read_batches(channel, copy, start, end):
            if header.producer_id != ours:
                return (
                    f"somebody else has written to {copy} at offset {header.base_offset} (producer id "
                    f"{header.producer_id}): save what is to be kept, and delete the topic"
                )
    return None


@dataclass(eq=False, repr=False)
class RecreatedTopicsTick(RecordingTick):
    """Deletes the copies of topics that were created anew on the source, where the file says so.

    ``has_stopped`` says of a topic of the source whether nothing appends to its copy, nor will; ``others`` who else
    has written to a copy; ``pause`` lets so many seconds go by. ``log`` is read as it was last polled.
    """

    about = "recreated topics"

    has_stopped: Callable[[str], bool]
    _: KW_ONLY
    others: Callable[[FlowSettings, TopicPartition, int, int], str | None] = written_by_others
    pause: Callable[[float], object] = time.sleep

    def _round(self, at_ms: int) -> tuple[int, Sequence[str]]:
        # By a round that was broken off, or an engine that was killed.
        left = closed_copies.open_again(self.target, self.log.state.closed.values())
        self._record(left.records, at_ms)
        done, problems = self._made_anew(left.problems.keys(), at_ms)
        return done, [*left.problems.values(), *problems]

    def _made_anew(self, closed: Container[str], at_ms: int) -> tuple[int, Sequence[str]]:
        """Delete the copies that are outdated but for those that are still closed."""
        state, flow = self.log.state, self.settings.flow
        stopped = {name for name in _with_same_offsets(state, self.settings) if self.has_stopped(name)}
        if not stopped:
            return 0, ()
        upstream, downstream = (
            self.source.topics(stopped),
            self.target.topics(list(map(self.settings.copy_of, stopped))),
        )
        outdated = outdated_copies(state, self.settings, upstream, downstream)
        if not outdated or state.source_id != self.source.cluster_id:
            return 0, ()
        if state.former_sources:
            now, before = state.source_id, ", ".join(state.former_sources)
            return 0, [
                f"{each.copy.name} on {flow.target} is not deleted to be made anew: {flow.source} is cluster {now}, "
                f"and was another one before ({before}), of which the copy may be all that is left: delete the topic "
                "there to have it made anew"
                for each in outdated
            ]
        if may_be_rebuilt(state, self.source.topics({each.topic for each in state.positions})):
            return 0, [
                f"{each.copy.name} on {flow.target} is not deleted to be made anew: no topic of {flow.source} that was "
                "copied is the one that it was, so the cluster may have been built anew, and the copies may be all "
                "that is left: delete the topic there to have it made anew"
                for each in outdated
            ]
        known = known_topic_ids(self.source, [each.topic.name for each in outdated])
        copies = {
            each.copy.name: each
            for each in outdated
            if known[each.topic.name] == {each.topic.topic_id} and each.copy.name not in closed
        }
        if not copies:
            return 0, ()
        as_before = old_topics.look_at(self.target, copies)
        copies = {name: each for name, each in copies.items() if name in as_before}
        lacking = old_topics.lacking_rights(self.target, copies)
        own = self._own({name: copy for name, copy in copies.items() if name not in lacking})
        self._record([as_before[name].as_closed.record() for name in sorted(own)], at_ms)
        bounds = self._closed({name: copies[name] for name in own}, as_before)
        bounds.problems |= dict.fromkeys(self._not_stopped(bounds, copies), _NOT_STOPPED)
        for name in bounds.keys() & bounds.problems.keys():
            del bounds[name]
        kept_for = {name: f"{why}: grant it, or delete the topic there" for name, why in lacking.items()}
        problems = [
            f"{name} on {flow.target} is not deleted to be made anew: {why}"
            for name, why in (kept_for | own.problems | bounds.problems).items()
        ]
        gaps = [gap for name, logs in bounds.items() for gap in gaps_of(copies[name], logs, state, flow, at_ms)]
        self._record([gap.record() for gap in gaps], at_ms)
        # Once more: putting them on record takes its time, too.
        results = [ItemResult(name, _NOT_STOPPED) for name in self._not_stopped(bounds, copies)]
        ids = {name: copies[name].copy.topic_id for name in bounds.keys() - {each.item for each in results}}
        results += self.target.delete_topics_by_id(ids) if ids else []
        problems += [
            f"{each.item} on {flow.target} cannot be deleted to be made anew: {each.problem}"
            for each in results
            if each.problem is not None
        ]
        deleted = [copies[each.item] for each in results if each.problem is None]
        self._notes = tuple(
            f"{each.copy.name} on {flow.target} (id {each.copy.topic_id}) is deleted and made anew, as "
            f"mirror.offsets.recreated says: {each.topic.name} on {flow.source} was deleted and created anew"
            for each in deleted
        )
        problems += self._created(deleted)
        gone = {each.copy.name for each in deleted}
        kept = [
            each for name, each in sorted(as_before.items()) if name not in gone and (name in own or each.is_closed)
        ]
        opened = closed_copies.open_again(self.target, [each.as_closed for each in kept])
        problems += opened.problems.values()
        recorded = {gap.key: gap for gap in (*state.gaps.values(), *gaps)}.values()
        news = [
            gap.record() for each in results for gap in with_outcome(copies[each.item], recorded, flow, each.problem)
        ]
        self._record([*news, *opened.records, *(as_before[name].as_closed.no_record() for name in gone)], at_ms)
        return len(deleted), problems

    def _not_stopped(self, names: Iterable[str], copies: Mapping[str, OutdatedCopy]) -> list[str]:
        """Return the copies that are not to be deleted any more, by what their flow does by now."""
        return [name for name in names if not self.has_stopped(copies[name].topic.name)]

    def _created(self, deleted: Sequence[OutdatedCopy]) -> list[str]:
        """Create the copies anew, at once: elsewhere a client that asks for one may have its broker create it.

        Say where that has come first. What is refused comes again, and is told, with the other topics.
        """
        if not deleted:
            return []
        by_copy = {each.copy.name: each for each in deleted}
        upstream = {each.topic.name: each.topic for each in deleted}
        try:
            source = ClusterTopics(self.source.alias, upstream, self.source.topic_configs(upstream))
            target = ClusterTopics(self.target.alias, {}, brokers=len(self.target.broker_ids()))
            planned = plan_topics(source, target, self.settings).creates
            existed = {each.item for each in self.target.create_topics(planned) if each.existed}
            former = {name: each.copy.topic_id for name, each in by_copy.items()}
            # A broker may tell of the deleted one for a moment yet.
            found = last_seen(
                lambda: old_topics.look_at(self.target, existed),
                "the topics that somebody else has created",
                timeout_seconds=_TOLD_SECONDS,
                until=lambda seen: all(name in seen and seen[name].topic_id != former[name] for name in existed),
            )
            # Of one that is about to go nothing is changed.
            others = [each for each in planned if each.name in found and found[each.name].topic_id != former[each.name]]
            changes = {each.name: ConfigChange(set=each.configs) for each in others if each.configs}
            set_to = self.target.alter_configs(changes) if changes else []
        except ClusterError as problem:
            return [str(problem)]
        said = [not_as_wanted(by_copy[each.name], found[each.name], each, self.settings.flow) for each in others]
        refused = [
            f"{each.item} on {self.target.alias} does not get its settings: {each.problem}"
            for each in set_to
            if each.problem is not None
        ]
        return [*filter(None, said), *refused]

    def _closed(
        self, copies: Mapping[str, OutdatedCopy], as_before: Mapping[str, OldTopic]
    ) -> Found[str, dict[TopicPartition, tuple[int, int]]]:
        """Return the bounds of the copies that may be deleted: nothing can be written to them any more."""
        problems = {}
        for name in sorted(copies):
            # Behind the record: who has cut the flow by now may not have found it, and applications write there.
            if not self.has_stopped(copies[name].topic.name):
                problems[name] = _NOT_STOPPED
                continue
            try:
                old_topics.close(self.target, [as_before[name]])
            except ClusterError as refused:
                problems[name] = f"{refused.doing}: {refused.reason}"
        closed = {name: copy for name, copy in copies.items() if name not in problems}
        if closed:
            self.pause(_CLOSED_SECONDS)
        found = self._own(closed)
        found.problems = problems | found.problems
        return found

    def _bounds(self, copies: Iterable[Topic]) -> Found[str, dict[TopicPartition, tuple[int, int]]]:
        """Return where the logs of each topic's partitions begin and end; a topic is reported whole or not at all."""
        partitions = [each for copy in copies for each in copy.topic_partitions]
        starts, ends = self.target.offsets(partitions, "earliest"), self.target.offsets(partitions, "written")
        found: Found[str, dict[TopicPartition, tuple[int, int]]] = Found()
        for each in partitions:
            if each in starts and each in ends:
                found.setdefault(each.topic, {})[each] = starts[each], ends[each]
            else:
                found.problems[each.topic] = starts.problems.get(each) or ends.problems[each]
        for topic in found.problems:
            found.pop(topic, None)
        return found

    def _own(self, copies: Mapping[str, OutdatedCopy]) -> Found[str, dict[TopicPartition, tuple[int, int]]]:
        """Return the bounds of those copies alone that nobody else has written to behind what is on record."""
        bounds = self._bounds([each.copy for each in copies.values()])
        found: Found[str, dict[TopicPartition, tuple[int, int]]] = Found({}, dict(bounds.problems))
        for name, logs in bounds.items():
            try:
                found_others = self._of_others(copies[name], logs)
            except KafkaProblem as problem:
                found_others = str(problem)
            if found_others is None:
                found[name] = logs
            else:
                found.problems[name] = found_others
        return found

    def _of_others(self, copy: OutdatedCopy, logs: Mapping[TopicPartition, tuple[int, int]]) -> str | None:
        for each, (start, end) in sorted(logs.items()):
            position = copy.positions.get(TopicPartition(copy.topic.name, each.partition))
            copied = position.downstream if position is not None else 0
            if (found := self.others(self.settings, each, max(start, copied), end)) is not None:
                return found
        return None


def _with_same_offsets(state: FlowState, settings: FlowSettings) -> dict[str, dict[TopicPartition, Position]]:
    """Return the positions of topics whose copies are to be made anew once these are, by topic."""
    found: dict[str, dict[TopicPartition, Position]] = defaultdict(dict)
    for source, position in state.positions.items():
        if position.same_offsets and settings.makes_recreated_anew(source.topic):
            found[source.topic][source] = position
    return found
