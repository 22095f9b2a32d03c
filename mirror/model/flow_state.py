"""What a flow knows of itself, as records of its compacted state topic ``mm2-state.<source>.internal`` on the target.

Keys are JSON arrays whose first element says what kind of record it is; values are JSON objects. The newest record of
a key counts; one without a value says that there is none any more. The name of the topic matches MirrorMaker 2's
default excludes, so no flow ever mirrors it.

Versions: a value's field ``v`` is the version of its kind, 1 when it is absent. A field may be added to a kind if who
does not know it can do without: it has a default, and positions and gaps are written on with the fields that are not
known. Whatever must not be done without gets a higher version. What a version does not know is never dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import pairwise
from typing import Any

from mirror.model.acl import Acl, QuotaKey
from mirror.model.checkpoint import CheckpointedCopy, CopyId
from mirror.model.failover import FailoverEntry
from mirror.model.gap import Acknowledgement, Gap, GapKey, GapKind
from mirror.model.leader_epochs import EpochEnd
from mirror.model.leadership import Claim, newest
from mirror.model.mm2_trace import Pair
from mirror.model.not_understood import NotUnderstood
from mirror.model.offset_map import Chunk, OffsetMap, Run, Runs, SparseOffsetMap, runs_before
from mirror.model.partition import TopicPartition
from mirror.model.pause import CUT, PauseReport, Pauses, PauseWish
from mirror.model.placement import Placement
from mirror.model.position import INCARNATION_KEY, NextBatch, Position
from mirror.model.state_record import (
    FIRST_COUNTS,
    GAP_KEY,
    OF_THE_LEADER,
    OUTSIDE_TRANSACTIONS,
    POSITION_KEY,
    StateRecord,
    compact_json,
)
from mirror.model.state_values import (
    NOT_KNOWN,
    PAUSE_KEY,
    ClosedCopy,
    DataProducer,
    ForeignWriter,
    Loss,
    RunReport,
    Standby,
    Takeover,
    WrittenAs,
    pause_report_record,
    placement_record,
    transactional_id_record,
)


@dataclass(frozen=True, slots=True)
class DeadChunks:
    """Chunks of the offset map that may be forgotten, if the copy has not gone back since ``incarnation``.

    Only who copies the partition writes its chunks, so that none is forgotten that was just written anew.
    """

    incarnation: int
    chunks: tuple[int, ...]


# The version of each kind of record that this version of the program reads and writes, if it is not 1.
_VERSIONS: dict[str, int] = {}
# Of these what was understood before still holds.
_KEPT = frozenset({"claim", "producer", "transactional_id", "writer"})


@dataclass(slots=True)
class FlowState:
    """The state topic folded: the newest of everything. Filled by :meth:`apply`, in the order of the log.

    ``not_understood`` has, by key, the records that this version does not understand; each stops only the partition
    concerned.
    """

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    chunks: dict[TopicPartition, dict[int, Chunk]] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    gaps: dict[GapKey, Gap] = field(default_factory=dict)
    acknowledgements: dict[GapKey, Acknowledgement] = field(default_factory=dict)
    sparse_maps: dict[TopicPartition, dict[int, SparseOffsetMap]] = field(default_factory=dict)
    takeovers: dict[TopicPartition, Takeover] = field(default_factory=dict)
    #: Since when each transactional id is registered, in ms since the epoch.
    registered: dict[str, int] = field(default_factory=dict)
    #: Those of them with which nobody writes for now: producer id and epoch of a transaction that has not ended.
    unended: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: As whom an engine has written with them since it took them over.
    written_as: dict[str, WrittenAs] = field(default_factory=dict)
    #: With which producer the last transaction was written of an id that an engine was about to take over.
    fencing: dict[str, tuple[int, int]] = field(default_factory=dict)
    acls: dict[Acl, Acl] = field(default_factory=dict)
    quotas: dict[QuotaKey, float] = field(default_factory=dict)
    placements: dict[tuple[str, TopicPartition], Placement] = field(default_factory=dict)
    checkpointed: dict[TopicPartition, CheckpointedCopy] = field(default_factory=dict)
    #: By run, in the order in which they came on record.
    failovers: dict[str, FailoverEntry] = field(default_factory=dict)
    claim: Claim | None = None
    standbys: dict[str, Standby] = field(default_factory=dict)
    producer: DataProducer | None = None
    #: Whether an engine has obtained that, or was about to.
    is_producer_asked_for: bool = False
    # Keys of which a record came from an engine that no longer led, or from a task of an epoch that was over: what
    # counts is to be written again.
    overwritten: set[bytes] = field(default_factory=set)
    # In which term, and epoch, a task has written the newest of a key.
    _written_in: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    # How far such engines had copied, of partitions of which such a position came.
    late: dict[TopicPartition, int] = field(default_factory=dict)
    source_id: str = ""
    #: Where its brokers were last, for who has to find out whether it is gone.
    source_brokers: tuple[str, ...] = ()
    #: The ids of the clusters that the flow copied from before.
    former_sources: tuple[str, ...] = ()
    foreign: dict[tuple[TopicPartition, int], ForeignWriter] = field(default_factory=dict)
    #: By name, of the target.
    closed: dict[str, ClosedCopy] = field(default_factory=dict)
    run: RunReport | None = None
    #: What is wished of the flow's topics, as far as it is understood; see :attr:`pauses`.
    wishes: Pauses = field(default_factory=Pauses)
    #: Whether the newest that was read of a cut has ended it.
    is_cut_ended: bool = False
    #: None also behind the end of a cut, until the leader has said something that knows of it.
    pause_report: PauseReport | None = None
    loss: Loss | None = None
    #: The partitions whose tails are not known since the last loss: nothing was recorded of them behind it.
    unsettled: set[TopicPartition] = field(default_factory=set)
    not_understood: dict[bytes, NotUnderstood] = field(default_factory=dict)

    def apply(self, key: bytes | None, value: bytes | None, term: int | None = None, epoch: int | None = None) -> bool:
        """Take in one record of the state topic; one that this version does not understand goes to ``not_understood``.

        One of an engine that led in an earlier ``term`` than the flow's leader by then does not count, if there is
        one that does: it was on its way when the other took over. None: it is not of an engine, or of a version without
        terms.

        Nor does one of a task behind one of a task of a later ``epoch`` in that term: who is cut off from its engine,
        or was stopped, goes on for a while. Nor one of a later term than the leader's: its claim would stand before
        it, so it comes from an engine that led in a topic of this name that was deleted.

        Returns
        -------
        whether it counts
        """
        if key is not None and key.startswith(OF_THE_LEADER):
            is_late = term is not None and self._is_of_another_term(term)
            if term is not None and epoch is not None:
                is_late |= (term, epoch) < self._written_in.get(key, (term, epoch))
            # The first position of a partition stands there before its first record does, which may have come too; so
            # do a transactional id before its first transaction, and a placement before the group's position. A gap may
            # have been found by nobody else.
            if is_late and (not key.startswith(FIRST_COUNTS) or self.record_of(key)[1] is not None):
                self.overwritten.add(key)
                self._note_late(key, value)
                return False
            self.overwritten.discard(key)
            if is_late and key.startswith(GAP_KEY) and value is not None:
                # Whoever leads writes it again, as one that is not the newest of its partition.
                self.overwritten |= {key}
            if term is not None and epoch is not None:
                self._written_in[key] = term, epoch
        self.not_understood.pop(key or b"", None)
        names: Any = None
        try:
            names = json.loads(key or b"")
            if value is None or names[0] not in _KEPT:
                self._forget(names)
            if value is not None:
                content = json.loads(value)
                version, known = content.pop("v", 1), _VERSIONS.get(names[0], 1)
                if version > known:
                    raise ValueError(f"it is of version {version}, and this program knows version {known}")
                self._apply(names, content, value)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
            if value is not None:
                self.not_understood[key or b""] = NotUnderstood.of(names, f"{type(problem).__name__}: {problem}", value)
        return True

    def in_new_topic(self) -> FlowState:
        """Return it as it is in a topic created anew: terms begin anew, who led in the former leads no more."""
        return replace(self, claim=None, _written_in={})

    def _is_of_another_term(self, term: int) -> bool:
        claim = self.claim
        if claim is None or term == claim.term:
            return False
        # Behind a claim of a later version, which is not understood, terms go on.
        return term < claim.term or not any(each.kind == "claim" for each in self.not_understood.values())

    def _note_late(self, key: bytes, value: bytes | None) -> None:
        """Remember how far an engine had copied that did not lead any more: MirrorMaker's position may say so too."""
        with suppress(KeyError, TypeError, ValueError):
            if key.startswith(POSITION_KEY) and value is not None:
                source = TopicPartition(*json.loads(key)[1:])
                self.late[source] = max(self.late.get(source, 0), json.loads(value)["upstream"])

    def _forget(self, key: Any) -> None:
        """Forget what was said under a key: the newest record of it counts alone."""
        match key:
            case ["position", topic, partition]:
                self.positions.pop(TopicPartition(topic, partition), None)
                self.unsettled.discard(TopicPartition(topic, partition))
            case ["runs", topic, partition, chunk]:
                self.chunks.get(TopicPartition(topic, partition), {}).pop(chunk, None)
            case ["sketch", topic, partition, start]:
                self.sparse_maps.get(TopicPartition(topic, partition), {}).pop(start, None)
            case ["takeover", topic, partition]:
                self.takeovers.pop(TopicPartition(topic, partition), None)
            case ["gap", topic, partition, start, found_at_ms]:
                self.gaps.pop((TopicPartition(topic, partition), start, found_at_ms), None)
            case ["acknowledged", topic, partition, start, found_at_ms]:
                self.acknowledgements.pop((TopicPartition(topic, partition), start, found_at_ms), None)
            case ["foreign", topic, partition, producer_id]:
                self.foreign.pop((TopicPartition(topic, partition), producer_id), None)
            case ["closed", topic]:
                self.closed.pop(topic, None)
            case ["checkpointed", topic, partition]:
                self.checkpointed.pop(TopicPartition(topic, partition), None)
            case ["placement", group, topic, partition]:
                self.placements.pop((group, TopicPartition(topic, partition)), None)
            case ["writer", producer_id]:
                self.writers.discard(producer_id)
            case ["transactional_id", transactional_id]:
                self.registered.pop(transactional_id, None)
                self._forget_marks(transactional_id)
            case ["acl", *names]:
                self.acls.pop(Acl.of_key(names), None)
            case ["quota", entity, limit]:
                self.quotas.pop(_quota_key(entity, limit), None)
            case ["source"]:
                self.source_id, self.source_brokers, self.former_sources = "", (), ()
            case ["failover", run]:
                self.failovers.pop(run, None)
            case ["claim"]:
                self.claim = None
            case ["standby", engine]:
                self.standbys.pop(engine, None)
            case ["producer"]:
                self.producer, self.is_producer_asked_for = None, False
            case ["run"]:
                self.run = None
            case ["pause"]:
                self.wishes = self.wishes.without(None)
            case ["pause", None, "cut"]:
                self.wishes, self.is_cut_ended, self.pause_report = self.wishes.without_cut(), True, None
            case ["pause", topics]:
                self.wishes = self.wishes.without(topics)
            case ["paused"]:
                self.pause_report = None
            case ["lost"]:
                self.loss = None
                self.unsettled.clear()

    def _forget_marks(self, transactional_id: str) -> None:
        self.unended.pop(transactional_id, None)
        self.written_as.pop(transactional_id, None)
        self.fencing.pop(transactional_id, None)

    def _apply(self, key: Any, content: Any, value: bytes) -> None:
        match key:
            case ["runs", topic, partition, chunk]:
                self.chunks.setdefault(TopicPartition(topic, partition), {})[chunk] = Chunk.parse(value)
            case ["position", topic, partition]:
                epochs = tuple(EpochEnd(*numbers) for numbers in content.get("epochs", ()))
                incarnation, compared = content.get("compared", (-1, -1))
                compared = compared if incarnation == content.get(INCARNATION_KEY, 0) else -1
                incarnation, *stretch = content.get("uncompared", (-1, 0, 0))
                uncompared = (stretch[0], stretch[1]) if incarnation == content.get(INCARNATION_KEY, 0) else None
                *at, producer_id, epoch, sequence = content.get("next_batch", (-1, -1, -1, -1, -1))
                incarnation, *gaps = content.get("passed_gaps", (-1,))
                passed_gaps = tuple(map(tuple, gaps)) if incarnation == content.get(INCARNATION_KEY, 0) else ()
                is_its_own = at == [content["upstream"], content["downstream"]]
                next_batch = NextBatch(producer_id, epoch, sequence) if is_its_own else None
                read = {
                    "epochs": epochs,
                    "compared": compared,
                    "uncompared": uncompared,
                    "next_batch": next_batch,
                    "passed_gaps": passed_gaps,
                }
                position = Position(**_known(Position, content) | read)
                self.positions[TopicPartition(topic, partition)] = position
            case ["writer", producer_id]:
                self.writers.add(producer_id)
            case ["gap", topic, partition, start, found_at_ms]:
                found = {"source": TopicPartition(topic, partition), "start": start, "found_at_ms": found_at_ms}
                gap = Gap(**_known(Gap, content) | found)
                gap = replace(gap, is_repeated=gap.is_repeated or gap.record()[0] in self.overwritten)
                self.gaps[gap.key] = gap
                if not (gap.passed or gap.is_repeated):
                    # Found after it, at the same offset and by a clock that stepped back at the same time.
                    self.acknowledgements.pop(gap.key, None)
            case ["acknowledged", topic, partition, start, found_at_ms]:
                key = TopicPartition(topic, partition), start, found_at_ms
                self.acknowledgements[key] = Acknowledgement(**_known(Acknowledgement, content))
            case ["sketch", topic, partition, start]:
                pairs = tuple(Pair(*numbers) for numbers in content["pairs"])
                sparse_map = SparseOffsetMap(**_known(SparseOffsetMap, content) | {"start": start, "pairs": pairs})
                self.sparse_maps.setdefault(TopicPartition(topic, partition), {})[start] = sparse_map
            case ["takeover", topic, partition]:
                source = TopicPartition(topic, partition)
                self.takeovers[source] = Takeover(**_known(Takeover, content) | {"source": source})
            case ["transactional_id", transactional_id]:
                self.registered[transactional_id] = content.get("since_ms", 0)
                self._forget_marks(transactional_id)
                if content.get("unended"):
                    producer_id, epoch = content["unended"]
                    self.unended[transactional_id] = producer_id, epoch
                if content.get("written_as"):
                    self.written_as[transactional_id] = WrittenAs(*content["written_as"])
                if content.get("fencing"):
                    producer_id, epoch = content["fencing"]
                    self.fencing[transactional_id] = producer_id, epoch
            case ["foreign", topic, partition, producer_id]:
                copy = TopicPartition(topic, partition)
                found = {"copy": copy, "producer_id": producer_id}
                self.foreign[copy, producer_id] = ForeignWriter(**_known(ForeignWriter, content) | found)
            case ["closed", topic]:
                self.closed[topic] = ClosedCopy(**_known(ClosedCopy, content) | {"topic": topic})
            case ["checkpointed", topic, partition]:
                copy, since = TopicPartition(topic, partition), content["since"]
                self.checkpointed[copy] = CheckpointedCopy(copy, CopyId(**_known(CopyId, content)), since)
            case ["placement", group, topic, partition]:
                copy = TopicPartition(topic, partition)
                self.placements[group, copy] = Placement(
                    **_known(Placement, content) | {"group": group, "partition": copy}
                )
            case ["source"]:
                self.source_id, self.source_brokers = content["cluster_id"], tuple(content.get("brokers", ()))
                self.former_sources = tuple(content.get("former", ()))
            case ["failover", run]:
                self.failovers[run] = FailoverEntry.of_content(run, content)
            case ["claim"]:
                self.claim = newest(self.claim, Claim.of_content(content))
            case ["standby", engine]:
                differs_in = tuple(content.get("differs_in", ()))
                self.standbys[engine] = Standby(
                    **_known(Standby, content) | {"engine": engine, "differs_in": differs_in}
                )
            case ["producer"]:
                producer = DataProducer(**_known(DataProducer, content))
                self.producer = producer if producer.producer_id != NOT_KNOWN else None
                self.is_producer_asked_for = True
            case ["run"]:
                notes = tuple(content.get("notes", ()))
                stopped = {TopicPartition(topic, number): why for topic, number, why in content.get("stopped", ())}
                reasons, at_ms = tuple(content["reasons"]), content["at_ms"]
                untroubled = content.get("untroubled_at_ms")
                by = content.get("settings", "")
                self.run = RunReport(content["state"], reasons, at_ms, notes, stopped, untroubled, by)
            case ["pause"]:
                self.wishes = self.wishes.with_wish(PauseWish.of(None, content))
                # Whatever was wished by hand before, it is over. A cut is ended by its own wish alone.
                self.not_understood = {
                    key: each
                    for key, each in self.not_understood.items()
                    if each.kind != PAUSE_KEY or json.loads(key) == ["pause", None, CUT]
                }
            case ["pause", None, "cut"]:
                self.wishes = self.wishes.with_wish(PauseWish.of(None, content, is_cut=True))
                self.is_cut_ended = not self.wishes.is_cut
            case ["pause", str(topics)]:
                self.wishes = self.wishes.with_wish(PauseWish.of(topics, content))
            case ["paused"]:
                self.pause_report = PauseReport.of(content)
            case ["lost"]:
                self.loss = Loss(**_known(Loss, content))
                self.unsettled = set(self.positions) if self.loss.are_tails_unknown else set()
            case ["acl", *names]:
                if content["origin"] is not None:
                    self.acls[Acl.of_key(names)] = Acl.of_key(content["origin"])
            case ["quota", entity, limit]:
                if content["value"] is not None:
                    self.quotas[_quota_key(entity, limit)] = content["value"]
            case _:
                raise ValueError("this program knows no such kind of record")

    def with_beyond(self, records: Iterable[tuple[bytes | None, bytes | None, int | None]]) -> FlowState:
        """Return the state with what was written outside of transactions behind the start of one that is open.

        ``records`` are what lies there: keys, values and terms, in the order of the log.
        """
        beyond = [each for each in records if each[0] is not None and each[0].startswith(OUTSIDE_TRANSACTIONS)]
        if not beyond:
            return self
        found = replace(
            self,
            writers=set(self.writers),
            standbys=dict(self.standbys),
            failovers=dict(self.failovers),
            not_understood=dict(self.not_understood),
            overwritten=set(self.overwritten),
        )
        for key, value, term in beyond:
            found.apply(key, value, term)
        return found

    @property
    def pauses(self) -> Pauses:
        """Return what is paused; everything, if there is a wish that this version does not understand."""
        problem = next((each.problem for each in self.not_understood.values() if each.kind == PAUSE_KEY), None)
        return replace(self.wishes, obscure=problem)

    @property
    def leaders_pause_report(self) -> PauseReport | None:
        """Return what is said of paused topics by the engine that leads the flow, or led it last; None: nothing.

        An engine of a version that knows of no pauses says nothing, and copies.
        """
        report, claim = self.pause_report, self.claim
        return report if report is not None and claim is not None and report.engine == claim.engine else None

    @property
    def stops(self) -> dict[TopicPartition, str]:
        """Return the partitions that must not be copied because of what is not understood of them, and why."""
        newer = {
            source: f"a gap of a kind that this version does not know ({gap.reason}): run the version that found it, "
            "or acknowledge it (mirror gaps FILE --acknowledge)"
            for source, gap in self.barriers.items()
            if gap.kind is GapKind.OTHER and gap.key not in self.acknowledgements
        }
        return newer | {
            each.source: f"the record {key.decode(errors='replace')} of the state topic is not understood "
            f"({each.problem}), so what is copied of the partition cannot be known: run the version that wrote it, or, "
            "if none did, write a record with that key and no value"
            for key, each in self.not_understood.items()
            if each.source is not None
        }

    @property
    def stopped(self) -> dict[TopicPartition, str]:
        """Return why partitions are stopped: :attr:`stops`, and the first of those that the engine has named."""
        return self.stops | (dict(self.run.stopped) if self.run is not None else {})

    def record_of(self, key: bytes) -> StateRecord:
        """Return the record of a key that counts, of those that the leader alone writes; with no value if none does."""
        match json.loads(key):
            case ["position", topic, partition] if (source := TopicPartition(topic, partition)) in self.positions:
                return self.positions[source].record(source)
            case ["runs", topic, partition, number]:
                chunk = self.chunks.get(TopicPartition(topic, partition), {}).get(number)
                return key, chunk.content if chunk is not None else None
            case ["gap", topic, partition, start, found_at_ms]:
                gap = self.gaps.get((TopicPartition(topic, partition), start, found_at_ms))
                return self._repeated(gap).record() if gap is not None else (key, None)
            case ["takeover", topic, partition] if (source := TopicPartition(topic, partition)) in self.takeovers:
                return self.takeovers[source].record()
            case ["placement", group, topic, partition]:
                placement = self.placements.get((group, TopicPartition(topic, partition)))
                return placement_record(placement) if placement is not None else (key, None)
            case ["producer"] if self.producer is not None:
                return self.producer.record()
            case ["transactional_id", name] if name in self.registered:
                marks = self.unended.get(name), self.written_as.get(name), self.fencing.get(name)
                return transactional_id_record(name, self.registered[name], *marks)
            case ["run"] if self.run is not None:
                return self.run.record()
            case ["paused"] if self.pause_report is not None:
                return pause_report_record(self.pause_report)
            case _:
                return key, None

    def _repeated(self, gap: Gap) -> Gap:
        """Return a gap as it is written again: it is not to look newer than one that was found after it."""
        of_partition = [each for each in self.gaps.values() if each.source == gap.source and not each.is_repeated]
        return replace(gap, is_repeated=gap.is_repeated or of_partition[-1] != gap)

    @property
    def transactional_ids(self) -> set[str]:
        """Return the transactional ids that the flow has written transactions with, or may have."""
        return set(self.registered)

    @property
    def open_gaps(self) -> list[Gap]:
        """Return the gaps that nobody has acknowledged, in order."""
        return [self.gaps[key] for key in sorted(self.gaps) if key not in self.acknowledgements]

    def gaps_of(self, source: TopicPartition) -> list[Gap]:
        """Return the gaps of a source partition's log as it is now; offsets of a former log have other records."""
        # In the order of the log: clocks step back.
        own = [each for each in self.gaps.values() if each.source == source]
        return [each for place, each in enumerate(own) if not any(map(each.is_void_by, own[place:]))]

    @property
    def barriers(self) -> dict[TopicPartition, Gap]:
        """Return the gap before which the copy of a partition has stopped, by source.

        A gap that was recorded later and is passed says that the copy has gone on. Clocks have no say: the ledger is in
        the order of the log, but for those that were written again.
        """
        newest = {gap.source: gap for gap in self.gaps.values() if not gap.is_repeated}
        return {source: gap for source, gap in newest.items() if not gap.passed}

    def open_runs(self, source: TopicPartition) -> tuple[Run, ...]:
        """Return the runs of the chunk that is still being filled, as far as the position speaks of them."""
        position = self.positions.get(source)
        if position is None:
            return ()
        chunk = self.chunks.get(source, {}).get(position.chunk)
        return runs_before(chunk.runs(), position.upstream) if chunk else ()

    def chunk_before(self, source: TopicPartition, upstream: int) -> tuple[int, tuple[Run, ...]]:
        """Return the chunk that is open again, and what is left in it, once the copy goes back to ``upstream``.

        With it and that position written, all that the map says of later offsets is forgotten; so runs stay in order
        although the copy goes over the same upstream offsets a second time.
        """
        position, chunks = self.positions[source], self.chunks.get(source, {})
        for number in sorted((one for one in chunks if one <= position.chunk), reverse=True):
            runs = runs_before(chunks[number].runs(), min(upstream, position.upstream))
            if runs:
                return number, runs
        return 0, ()

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        """Return the exact offset map of ``source``, or None when nothing of it was copied, or that cannot be known.

        Of what was written ahead of the position the last commit, perhaps never finished, may be wrong: it is left out.
        """
        position = self.positions.get(source)
        if position is None or any(each.source == source for each in self.not_understood.values()):
            return None
        chunks = self.chunks.get(source, {})
        runs = Runs(chunks[number] for number in sorted(chunks) if number <= position.chunk)
        return OffsetMap(
            position.origin,
            position.complete,
            runs.before(position.upstream),
            position.upstream,
            position.downstream,
            tuple(sparse_map for _, sparse_map in sorted(self.sparse_maps.get(source, {}).items())),
            is_pruned=min(chunks, default=0) > 0,
            same_offsets=position.same_offsets,
        )

    def dead_chunks(self, source: TopicPartition, target_start: int) -> DeadChunks | None:
        """Return the chunks of which the target, whose log begins at ``target_start``, has nothing any more.

        A position that they speak of, on either side, leads a reader before the log; without them it leads to what is
        left. The last chunk that begins before the log is kept: by it a reader at the log's start is led back. The
        chunk that is still being filled is never among them. None if there are none.
        """
        position = self.positions[source]
        known = sorted(self.chunks.get(source, {}).items())
        dead = tuple(
            number
            for (number, _), (following, chunk) in pairwise(known)
            if following <= position.chunk and chunk.downstream < target_start
        )
        return DeadChunks(position.incarnation, dead) if dead else None


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind)) - {"unknown"}


def _known(kind: type, content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a value that a class knows; the others as its ``unknown``, if it keeps them."""
    names = _names(kind)
    if "incarnation" in names and INCARNATION_KEY in content:
        content = {name: value for name, value in content.items() if name != INCARNATION_KEY} | {
            "incarnation": content[INCARNATION_KEY]
        }
    known = {name: value for name, value in content.items() if name in names}
    more = {name: value for name, value in content.items() if name not in names}
    if kind is Gap and known.setdefault("kind", GapKind.SKIPPED) not in set(GapKind):
        more["kind"], known["kind"] = known["kind"], GapKind.OTHER
    if kind is Gap:
        known["kind"] = GapKind(known["kind"])
    return known | ({"unknown": compact_json(more).decode()} if more and kind in (Gap, Position) else {})


def _quota_key(entity: Any, limit: str) -> QuotaKey:
    return QuotaKey(tuple((kind, name) for kind, name in entity), limit)
