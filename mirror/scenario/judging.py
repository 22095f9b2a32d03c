"""Judging a run from its ledger and the logs of its clusters, read to their ends: what was found, and the verdict.

Invariants:

(a) What a scenario tolerates has a limit that is judged too: an era, a size, an objective, what the replicator has
    told. Records sent before, during and after a log is replaced are judged apart: offsets begin again, and a gap of
    the old log excuses nothing of the new one. A defect put in on purpose is to be found as the records it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import read_records
from mirror.model.counts import are, counted
from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.shadow import Forecast
from mirror.model.verdict import Verdict, worst
from mirror.proof.account import Account, Sides, settle_account
from mirror.proof.delivery import GroupCommits, GroupReading, Place, Route, judge_groups
from mirror.proof.eras import Replaced, judge_by_era
from mirror.proof.evidence import MissingEvidence
from mirror.proof.final_read import FinalRead, final_read
from mirror.proof.final_values import FinalValues, compare_final_values
from mirror.proof.findings import AT_LEAST_ONCE, Anomaly, Delivery, Finding, PartitionCount
from mirror.proof.group_move import GroupMove
from mirror.proof.group_positions import read_positions
from mirror.proof.history import missing_acked
from mirror.proof.losses import MissingRecords, Ranges, measure_losses
from mirror.proof.objectives import Objectives, Rpo, compute_rpo, judge_objectives
from mirror.proof.same_offsets import count_moved
from mirror.proof.shared_logs import shared_places
from mirror.proof.torn_transactions import TransactionCount, count_transactions
from mirror.scenario.declaration import Judged, Procedure, Replicator, Scenario
from mirror.scenario.outcome import Figures, GroupFigures
from mirror.scenario.planted import Planted, unfound, without
from mirror.scenario.routes import CopyRoute

READ_SECONDS = 90.0
"""How long groups may take to read what there is."""

_MOST_REASONS = 12

ToldGaps = Mapping[Flow, Ranges]
"""The offsets that the replicator says it has not copied, by flow and source partition."""

_READ_AGAIN: Mapping[Replicator, Set[Anomaly]] = {
    Replicator.MIRROR: AT_LEAST_ONCE,
    # It translates by offset syncs that lie ever further apart, and promises no bound (OST-04).
    Replicator.MM2: AT_LEAST_ONCE | {Anomaly.REWOUND},
}
"""What groups may be handed again: exact positions are kept, translated by syncs they are not."""


@dataclass(frozen=True, slots=True)
class ScenarioEvidence:
    """What there is to be judged; all of it can be sent to another process.

    Attributes
    ----------
    ledger, work, properties
        directories, and the file that leads to the clusters.
    sent
        where applications wrote.
    routes
        to all copies of that, on clusters that are still there in the end.
    readings
        what every group was told to read, wherever.
    gone
        clusters that were not active any more in the end: no group is to have read what is only there.
    told
        the gaps that the replicator has named.
    recovery
        the chain of a failover.
    rpo
        measured before the old cluster came back, where it did.
    returned_at_ms
        when the applications were back again.
    late, unread
        copies that had not caught up, and groups that had not read to the end, when the time was over.
    moves
        where groups went on, on other clusters.
    replaced
        logs that were replaced or emptied on purpose.
    planted
        defects that were put in.
    forecasts
        by group, what the failover was to cost it.
    """

    scenario: Scenario
    ledger: Path
    work: Path
    properties: Path
    sent: tuple[Place, ...]
    routes: tuple[CopyRoute, ...]
    readings: tuple[GroupReading, ...]
    gone: frozenset[str] = frozenset()
    told: ToldGaps | None = None
    recovery: FailoverInstants | None = None
    rpo: Rpo | None = None
    returned_at_ms: int | None = None
    replicator: Replicator = Replicator.MIRROR
    late: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    moves: tuple[GroupMove, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    planted: tuple[Planted, ...] = ()
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)

    @property
    def compacted(self) -> frozenset[str]:
        """The topics of which only the newest value of each key is sure to stay."""
        return frozenset(topic.name for topic in self.scenario.topics if topic.is_compacted)

    @property
    def is_transactional(self) -> bool:
        """Whether applications write in transactions; they are then read so."""
        return any(load.transaction_records for load in self.scenario.loads)


@dataclass(frozen=True, slots=True)
class Found:
    """What the judges found.

    Attributes
    ----------
    moved
        records at other offsets than their originals, where they were to keep them.
    unsent
        partitions with records that no application has written, which all keep a ledger.
    """

    own: Delivery
    copies: Delivery
    groups: Delivery | None
    missing: MissingRecords
    rpo: Rpo | None
    transactions: TransactionCount | None
    account: Account | None
    acked: int
    gaps: tuple[MissingEvidence, ...]
    values: FinalValues = field(default_factory=FinalValues)
    moved: int = 0
    unsent: tuple[PartitionCount, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of a run.

    Attributes
    ----------
    reasons
        why the verdict is not PASS.
    beside
        how what was found differs from the defect that a scenario holds; nothing of one that holds none.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    figures: Figures
    beside: tuple[str, ...] = ()


def measure_rpo(evidence: ScenarioEvidence, fault_at_ms: int) -> Rpo:
    """Return what the standby lacks of what the active cluster had acknowledged, while the latter is still away."""
    scenario = evidence.scenario
    routes = [each.route for each in evidence.routes if _is_forward(each.route, scenario)]
    clusters = load(evidence.properties).clusters
    with final_read(
        evidence.ledger, clusters, [route.kept for route in routes], evidence.work, with_reads=False
    ) as found:
        missing = [each for route in routes for each in missing_acked(found.sends, found.logs, route)]
    return compute_rpo(missing, fault_at_ms)


def measure(evidence: ScenarioEvidence) -> Found:
    """Read every log to its end and put it before all judges; takes a Spark session."""
    scenario = evidence.scenario
    copies = [each.route for each in evidence.routes]
    own = [Route.own(place) for place in evidence.sent]
    read = [place for reading in evidence.readings for place in reading.places]
    places = list(dict.fromkeys([*(route.sent for route in own), *(route.kept for route in copies), *read]))
    clusters = load(evidence.properties).clusters
    with final_read(
        evidence.ledger,
        clusters,
        places,
        evidence.work,
        read_committed=evidence.is_transactional,
        with_reads=bool(evidence.readings),
    ) as found:
        sends, logs, gaps = found.sends, found.logs, found.gaps
        missing = MissingRecords()
        values = FinalValues()
        for each in evidence.routes:
            if each.route.sent.topic in evidence.compacted:
                values += _final_values(each.route, clusters)
                continue
            # What a detour lacks may lack since any of its flows; only a direct copy's gaps can be known by offset.
            ranges = (evidence.told or {}).get(each.over[0], {}) if len(each.over) == 1 else {}
            missing += measure_losses(
                sends,
                logs,
                each.route,
                ranges,
                replaced=next((log for log in evidence.replaced if log.place == each.route.sent), None),
                least_bytes=scenario.least_left_out_bytes,
            )
        with_same_offsets = tuple(_with_same_offsets(evidence))
        moved = sum(count_moved(logs, route) for route in with_same_offsets)
        groups = None
        if evidence.readings:
            lasting = logs.where(~logs.cluster.isin(sorted(evidence.gone))) if evidence.gone else logs
            positions, unknown = read_positions(evidence.readings, clusters, evidence.gone)
            gaps = (*gaps, *unknown)
            groups = judge_groups(
                found.reads,
                sends,
                lasting,
                evidence.readings,
                GroupCommits(positions, found.commits, evidence.moves),
                tolerated=_READ_AGAIN[evidence.replicator],
                gaps=gaps,
            )
        rpo = evidence.rpo
        if rpo is None and evidence.recovery is not None:
            routes = [route for route in copies if _is_forward(route, scenario)]
            not_copied = [each for route in routes for each in missing_acked(sends, logs, route)]
            rpo = compute_rpo(not_copied, evidence.recovery.fault_at_ms)
        shared = shared_places([*own, *copies])
        own_delivery = judge_by_era(sends, logs, own, shared=shared, replaced=evidence.replaced, gaps=gaps)
        copies_delivery = judge_by_era(sends, logs, copies, shared=shared, replaced=evidence.replaced, gaps=gaps)
        return Found(
            own=own_delivery,
            copies=copies_delivery,
            groups=groups,
            missing=missing,
            rpo=rpo,
            transactions=_count_transactions(found, evidence),
            account=_settle(found, evidence),
            acked=sends.where("status = 'acked'").count(),
            gaps=gaps,
            values=values,
            moved=moved,
            # Tombstones fill holes of copies with the source's offsets.
            unsent=unsent((own_delivery, copies_delivery), {route.kept for route in with_same_offsets}),
        )


def unsent(deliveries: Iterable[Delivery], filled: Set[Place]) -> tuple[PartitionCount, ...]:
    """Return the partitions with records that carry no id of the ledger, but for places whose holes are ``filled``."""
    found = {
        (count.cluster, count.partition): count
        for delivery in deliveries
        for count in delivery.counts
        if count.without_ledger and Place(count.cluster, count.partition.topic) not in filled
    }
    return tuple(found[where] for where in sorted(found))


def judge(evidence: ScenarioEvidence) -> Judgement:
    """Measure and judge."""
    found = measure(evidence)
    return Judgement(*verdict_of(found, evidence), figures_of(found, evidence), beside_planted(found, evidence))


def figures_of(found: Found, evidence: ScenarioEvidence) -> Figures:
    """Return what is kept of what was found."""
    anomalies = {Judged.SOURCE: found.own, Judged.COPY: found.copies}
    if found.groups is not None:
        anomalies[Judged.GROUPS] = found.groups
    return Figures(
        acked=found.acked,
        anomalies={
            where: {anomaly.value: count for anomaly, count in delivery.totals.items() if count}
            for where, delivery in anomalies.items()
        },
        told_losses=found.missing.told,
        silent_losses=found.missing.silent,
        tail=found.missing.tail,
        uncopied=found.missing.uncopied,
        rpo_records=found.rpo.records if found.rpo else None,
        rpo_seconds=found.rpo.seconds if found.rpo else None,
        rto_seconds=evidence.recovery.seconds if evidence.recovery else None,
        rto_links=evidence.recovery.links if evidence.recovery else (),
        transactions=found.transactions.whole + found.transactions.torn if found.transactions else None,
        torn_transactions=found.transactions.torn if found.transactions else None,
        groups=tuple(_group_figures(found.groups, evidence.readings, evidence.forecasts)) if found.groups else (),
    )


def verdict_of(found: Found, evidence: ScenarioEvidence) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict and why it is not PASS."""
    scenario = evidence.scenario
    deliveries = {Judged.SOURCE: found.own, Judged.COPY: found.copies}
    deliveries |= {Judged.GROUPS: found.groups} if found.groups else {}
    # Two measures of the same records: what the copies lack behind later ones, and what of it has been named.
    unnamed = max(0, found.copies.total(Anomaly.LOST) - found.missing.told)
    verdicts: list[tuple[Verdict, str]] = []
    for where, delivery in deliveries.items():
        verdicts += [
            (_verdict(finding), str(finding))
            for finding in delivery.findings
            if not finding.is_tolerated and not scenario.tolerates(finding, where, unnamed_losses=unnamed)
        ]
        if not any(count.expected for count in delivery.counts):
            verdicts.append((Verdict.UNKNOWN, "there was nothing to judge"))
    verdicts += [(Verdict.UNKNOWN, str(gap)) for gap in found.gaps]
    verdicts += [(Verdict.UNKNOWN, f"not measured: {what}") for what in _unmeasured(found, evidence)]
    if found.missing.silent:
        verdicts.append((Verdict.FAIL, f"{found.missing.silent} acknowledged records are missing, and nobody said so"))
    returned_or_stayed = evidence.recovery is None or evidence.returned_at_ms is not None
    if found.missing.uncopied and returned_or_stayed:
        uncopied = f"{counted(found.missing.uncopied, 'record')} {are(found.missing.uncopied)}"
        verdicts.append((Verdict.FAIL, f"{uncopied} on their source and not on its copy"))
    if found.groups is not None:
        verdicts += [(_verdict(each), str(each)) for each in _read_twice(found.groups, scenario)]
    if found.moved:
        verdicts.append(
            (Verdict.FAIL, f"{counted(found.moved, 'record')} {are(found.moved)} not at the source's offset")
        )
    verdicts += [
        (
            Verdict.FAIL,
            f"{each.cluster} {each.partition}: {counted(each.without_ledger, 'record')} that no application has sent",
        )
        for each in found.unsent
    ]
    if found.values.stale:
        verdicts.append((Verdict.FAIL, f"{found.values.stale} of {found.values.keys} keys have not their newest value"))
    if found.transactions is not None and found.transactions.aborted_seen:
        verdicts.append(
            (Verdict.FAIL, f"records of {found.transactions.aborted_seen} aborted transactions were copied")
        )
    torn = found.transactions.torn if found.transactions else 0
    if torn and returned_or_stayed:
        verdicts.append((Verdict.FAIL, f"{torn} transactions are on the copy in part"))
    if found.account is not None and found.account.verdict is not Verdict.PASS:
        verdicts.append((found.account.verdict, "the account of all acknowledged records does not balance"))
    verdicts += _objectives(scenario.objectives, found.rpo, evidence.recovery)
    verdicts += [(Verdict.FAIL, f"not caught up in {scenario.drain_seconds:g} s: {late}") for late in evidence.late]
    verdicts += [(Verdict.FAIL, f"not read to the end in {READ_SECONDS:g} s: {group}") for group in evidence.unread]
    if not verdicts:
        return Verdict.PASS, ()
    verdict = worst(each for each, _ in verdicts)
    reasons = [reason for each, reason in sorted(verdicts, key=lambda item: item[0] is not verdict)]
    more = [f"and {len(reasons) - _MOST_REASONS} more"] if len(reasons) > _MOST_REASONS else []
    return verdict, (*reasons[:_MOST_REASONS], *more)


def _read_twice(groups: Delivery, scenario: Scenario) -> Iterator[Finding]:
    """Yield where an application with bookmarks of its own was handed again what it had finished."""
    keeps = {group.name for group in scenario.groups if group.bookmarks}
    yield from (each for each in groups.findings if each.group in keeps and each.anomaly is Anomaly.REDELIVERED)


def _unmeasured(found: Found, evidence: ScenarioEvidence) -> Iterator[str]:
    """Yield what belongs to a scenario and was not looked at: whatever is wrong there, nobody would see it."""
    scenario = evidence.scenario
    counts = found.groups.counts if found.groups else ()
    read = {count.group for count in counts if count.expected}
    yield from (f"what {group.name} read" for group in scenario.groups if group.name not in read)
    if any(load.transaction_records and load.cluster == scenario.active for load in scenario.loads):
        seen = found.transactions or TransactionCount()
        if not seen.whole + seen.torn + seen.absent:
            yield "transactions"
    if evidence.compacted and not found.values.keys:
        yield "the newest values of compacted topics"
    if scenario.procedure is not Procedure.NONE and evidence.recovery is None:
        yield "the failover"
    if scenario.procedure is Procedure.FAIL_OVER_AND_BACK:
        if evidence.returned_at_ms is None:
            yield "the failback"
        elif found.account is None:
            yield "the account of all acknowledged records"


def beside_planted(found: Found, evidence: ScenarioEvidence) -> tuple[str, ...]:
    """Return how what was found differs from the defect that was put in; nothing where none was to be put in."""
    if not evidence.scenario.must_fail:
        return ()
    copies, missing = without(evidence.planted, found.copies, found.missing)
    _, others = verdict_of(replace(found, copies=copies, missing=missing), evidence)
    return (*unfound(evidence.planted, found.copies, found.missing), *others)


def _verdict(finding: Finding) -> Verdict:
    return Verdict.FAIL if finding.is_proven else Verdict.UNKNOWN


def _objectives(objectives: Objectives, rpo: Rpo | None, rto: FailoverInstants | None) -> Iterable[tuple[Verdict, str]]:
    watched_until = None if rto is None else rto.fault_at_ms + 1_000_000
    for result in judge_objectives(objectives, rpo=rpo, rto=rto, observed_until_ms=watched_until):
        if result.verdict is not Verdict.PASS:
            achieved = "not reached" if result.achieved is None else f"{result.achieved:g}"
            yield result.verdict, f"{result.name} is {achieved}, promised is {result.objective:g}"


def _is_forward(route: Route, scenario: Scenario) -> bool:
    return (route.sent.cluster, route.kept.cluster) == (scenario.active, scenario.standby)


def _with_same_offsets(evidence: ScenarioEvidence) -> Iterator[Route]:
    """Yield the routes whose copies are to have the source's offsets."""
    flows = {each.flow: each for each in load(evidence.properties).enabled_flows}
    for each in evidence.routes:
        settings = flows.get(each.over[0]) if len(each.over) == 1 else None
        if settings is not None and settings.pad_limit(each.route.sent.topic) is not None:
            yield each.route


def _final_values(route: Route, clusters: Mapping[str, ClusterSettings]) -> FinalValues:
    """Compare the newest values of all partitions of a compacted topic and its copy."""
    found = FinalValues()
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(Cluster.connect(clusters[place.cluster])) for place in (route.sent, route.kept)
        )
        for partition in source.topics([route.sent.topic])[route.sent.topic].topic_partitions:
            copy = TopicPartition(route.kept.topic, partition.partition)
            found += compare_final_values(_records(source, clusters, partition), _records(target, clusters, copy))
    return found


def _records(cluster: Cluster, clusters: Mapping[str, ClusterSettings], partition: TopicPartition) -> Iterable[Record]:
    """Yield all records of a partition."""
    start, end = (cluster.offsets([partition], where)[partition] for where in ("earliest", "latest"))
    return read_records(clusters[cluster.alias].client, partition, start, end)


def _count_transactions(found: FinalRead, evidence: ScenarioEvidence) -> TransactionCount | None:
    """Count the transactions of the active cluster, if it had any."""
    scenario = evidence.scenario
    loads = [each for each in scenario.loads if each.transaction_records and each.cluster == scenario.active]
    if not loads:
        return None
    copies = {each.route.sent.topic: each.route.kept for each in evidence.routes if _is_forward(each.route, scenario)}
    return count_transactions(found.sends, found.logs, scenario.active, copies, loads[0].transaction_records)


def _settle(found: FinalRead, evidence: ScenarioEvidence) -> Account | None:
    """Settle the account of a failback."""
    if evidence.returned_at_ms is None:
        return None
    scenario = evidence.scenario
    back = (scenario.standby, scenario.active)
    routes = [each.route for each in evidence.routes if len(each.over) == 1]
    forward = tuple(route for route in routes if _is_forward(route, scenario))
    returns = tuple(route for route in routes if (route.sent.cluster, route.kept.cluster) == back)
    sides = Sides(scenario.active, scenario.standby, forward, returns, evidence.returned_at_ms)
    return settle_account(found.sends, found.logs, sides, gaps=found.gaps)


def _group_figures(
    delivery: Delivery, readings: Sequence[GroupReading], forecasts: Mapping[str, Forecast]
) -> Iterable[GroupFigures]:
    for group in dict.fromkeys(reading.group for reading in readings):
        forecast = forecasts.get(group)

        def total(anomaly: Anomaly, of: str = group) -> int:
            return sum(each.count for each in delivery.findings if each.group == of and each.anomaly is anomaly)

        yield GroupFigures(
            group,
            sum(count.expected for count in delivery.counts if count.group == group),
            total(Anomaly.REDELIVERED),
            total(Anomaly.LOST),
            total(Anomaly.UNSEEN),
            forecast_redelivered=forecast.read_again if forecast else None,
            forecast_skipped=forecast.skipped if forecast else None,
        )
