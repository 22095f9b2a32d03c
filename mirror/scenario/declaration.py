"""What a scenario says: clusters, flows, topics, applications, faults, procedure, what may happen and what may not.

A scenario is a value without logic, a file each in ``scenarios/``. Times are seconds after the applications run and
the copy has begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum

from mirror.lab.applications import Group as Group  # noqa: PLC0414  # a scenario's file takes all its words from here
from mirror.lab.applications import Load as Load  # noqa: PLC0414
from mirror.model.flow import Flow
from mirror.proof.findings import MOST_EXAMPLES, Anomaly, Era, Finding
from mirror.proof.objectives import Objectives

__all__ = [
    "Fault",
    "FaultKind",
    "Group",
    "Judged",
    "Load",
    "Procedure",
    "Replicator",
    "Scenario",
    "Site",
    "Tolerated",
    "Topic",
]


class ScenarioError(ValueError):
    """A scenario contradicts itself; the message names it and says what about it."""


class Replicator(StrEnum):
    """Who copies."""

    MIRROR = "mirror"
    """This engine."""
    MM2 = "mm2"
    """Java MirrorMaker 2, from the same file."""


class FaultKind(StrEnum):
    """What is done to a running system. The words after it say what ``on`` names."""

    KILL_CLUSTER = "kill -9 of all brokers"
    """a cluster; healed: the brokers are started again with the disks they died on."""
    FREEZE_CLUSTER = "all brokers frozen"
    """a cluster: SIGSTOP; healed: SIGCONT."""
    KILL_BROKER = "kill -9 of one broker"
    """a cluster: the broker is chosen by the seed unless it is named."""
    STOP_BROKER = "one broker shut down"
    """a cluster: cleanly, so that leaders move before it goes."""
    KILL_REPLICATOR = "kill -9 of the replicator"
    """its driver, or its JVM; healed: another is started."""
    FREEZE_REPLICATOR = "the replicator frozen"
    """with everything it has started: SIGSTOP; healed: SIGCONT."""
    RESTART_REPLICATOR = "the replicator restarted"
    """SIGTERM, as an operator does it, and started again."""
    KILL_SPARK_WORKER = "kill -9 of a Spark worker"
    """a worker of its Spark cluster if it has one, else one of its Python workers."""
    KILL_SPARK_JVM = "kill -9 of Spark's JVM"
    """the one inside the replicator."""
    CUT_LINK = "link cut"
    """a cluster: between it and the replicator nothing passes, and nobody is told."""
    CUT_ANSWERS = "link cut in one direction"
    """a cluster: what the replicator sends arrives there, what it is answered does not."""
    RESET_LINK = "link reset"
    """a cluster: connections of the replicator are reset, and refused."""
    SLOW_LINK = "link slow"
    """a cluster: delay and bandwidth between it and the replicator."""
    DELETE_RECORDS = "records deleted, as by retention"
    """a cluster: all that ``topic`` holds there."""
    RECREATE_TOPIC = "topic deleted and created again"
    """a cluster: ``topic``."""
    ELECT_UNCLEANLY = "unclean leader election"
    """a cluster: the leaders of ``topic`` die with records that their followers do not have."""
    FILL_DISK = "disk full"
    """a cluster with a small disk; healed: room is made, and brokers that gave up are started again."""
    JOIN_GROUP = "a member joins the group"
    """a group; healed: the member leaves."""
    LOSE_COPIES = "copies removed in secret"
    """a cluster: the first records of the copy of ``topic``. A defect that must be found."""
    START_PRODUCER = "a forgotten producer wakes up"
    """a cluster: somebody writes to ``topic`` there who knows nothing of any failover."""


ON_A_TOPIC = frozenset(
    {
        FaultKind.DELETE_RECORDS,
        FaultKind.RECREATE_TOPIC,
        FaultKind.ELECT_UNCLEANLY,
        FaultKind.LOSE_COPIES,
        FaultKind.START_PRODUCER,
    }
)
REPLACING = frozenset({FaultKind.DELETE_RECORDS, FaultKind.RECREATE_TOPIC, FaultKind.ELECT_UNCLEANLY})
"""After these the log of a topic is another one, or is empty."""
ON_A_LINK = frozenset({FaultKind.CUT_LINK, FaultKind.CUT_ANSWERS, FaultKind.RESET_LINK, FaultKind.SLOW_LINK})
ON_THE_REPLICATOR = frozenset(
    {
        FaultKind.KILL_REPLICATOR,
        FaultKind.FREEZE_REPLICATOR,
        FaultKind.RESTART_REPLICATOR,
        FaultKind.KILL_SPARK_WORKER,
        FaultKind.KILL_SPARK_JVM,
    }
)
ONLY_IN_MIRROR = frozenset({FaultKind.KILL_SPARK_WORKER, FaultKind.KILL_SPARK_JVM})
REPLICATOR = "replicator"


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster; with ``disk_megabytes`` its brokers have a disk of that size each."""

    alias: str
    brokers: int = 1
    disk_megabytes: int | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the applications, there from the beginning on the clusters named; a factor of 0 is all brokers."""

    name: str
    clusters: tuple[str, ...]
    partitions: int = 2
    replicas: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """Whether only the newest value of each key is sure to stay."""
        return "compact" in self.configs.get("cleanup.policy", "")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is done to the running system.

    Parameters
    ----------
    on
        the alias of a cluster, the name of a group, or ``"replicator"``; see `FaultKind`.
    at_seconds, jitter_seconds
        when; the seed puts it somewhere in so many seconds behind.
    lasts_seconds
        after how long it is healed; None: never.
    topic
        for kinds that concern one.
    broker
        number of the broker, from 1; None: the seed chooses.
    delay_ms, bandwidth
        of a slow link: on the way, in each direction; and bytes a second.
    records
        how many records are lost, or how many a second a forgotten producer writes.
    is_disaster
        whether this is what the procedure answers, and what recovery is measured from.
    """

    kind: FaultKind
    on: str
    at_seconds: float
    jitter_seconds: float = 0.0
    lasts_seconds: float | None = None
    topic: str | None = None
    broker: int | None = None
    delay_ms: float = 0.0
    bandwidth: float | None = None
    records: int = 0
    is_disaster: bool = False


class Procedure(StrEnum):
    """What is done about a disaster."""

    NONE = "none"
    FAIL_OVER = "fail over"
    """Detect, fence the applications, cut, move the groups, start everything on the standby."""
    FAIL_OVER_AND_BACK = "fail over and back"
    """The same, then the old cluster comes back with its disks, its tail is copied, and everything moves back."""


class Judged(StrEnum):
    """Where an anomaly is found."""

    SOURCE = "source"
    """in the log the records were sent to."""
    COPY = "copy"
    """in a log the records were copied to."""
    GROUPS = "groups"
    """in what groups were handed."""


@dataclass(frozen=True, slots=True)
class Tolerated:
    """An anomaly that this situation brings about whoever copies, and why.

    It hides as little as it can: what else could look the same is a failure.

    Parameters
    ----------
    if_told
        only as many as the replicator has named: one record more that the copies lack, and none of them is tolerated.
    eras
        only of records sent then, where a fault replaces or empties the log they were sent to (`REPLACING`).
    cluster
        only there; None: anywhere.
    least_bytes
        only of records of at least that size, as far as it concerns what the replicator has left out.
    """

    anomaly: Anomaly
    where: Judged
    because: str
    if_told: bool = False
    eras: frozenset[Era] = frozenset(Era)
    cluster: str | None = None
    least_bytes: int = 0

    def covers(self, finding: Finding, where: Judged, *, unnamed_losses: int) -> bool:
        """Tell whether a finding is no failure, given how many lost records the replicator has not named."""
        return (
            finding.anomaly is self.anomaly
            and where is self.where
            and finding.era in self.eras
            and self.cluster in (None, finding.cluster)
            and not (self.if_told and unnamed_losses)
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """One situation.

    Parameters
    ----------
    name
        as its file is called, with dashes.
    shows
        one sentence: what it shows.
    sites, flows, topics, loads, groups
        what there is. The first flow leads from the active cluster to the standby.
    properties
        further lines of the replicator's file; a value may name no address.
    faults
        what happens.
    seconds
        how long the applications run (before a failover those of the active cluster).
    procedure
        what is done about the disaster.
    after_seconds
        how long the applications run on the standby, and again on the old cluster.
    tolerated, objectives
        what may happen, and what is promised.
    drain_seconds
        how long the copies may take to be complete after the last record was sent; what lacks then is missing.
    spark_workers
        workers of a Spark cluster that this engine runs on; 0: inside its own process.
    must_fail
        whether it holds a defect on purpose: its verdict must then be FAIL, for that defect and nothing else.
    replicators
        who can be put into it.
    """

    name: str
    shows: str
    sites: tuple[Site, ...]
    flows: tuple[Flow, ...]
    topics: tuple[Topic, ...]
    loads: tuple[Load, ...]
    groups: tuple[Group, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    seconds: float = 15.0
    procedure: Procedure = Procedure.NONE
    after_seconds: float = 6.0
    tolerated: tuple[Tolerated, ...] = ()
    objectives: Objectives = field(default_factory=Objectives)
    drain_seconds: float = 90.0
    spark_workers: int = 0
    must_fail: bool = False
    replicators: tuple[Replicator, ...] = (Replicator.MIRROR, Replicator.MM2)

    def __post_init__(self) -> None:
        """Refuse what contradicts itself.

        Raises
        ------
        ScenarioError
            naming the scenario and what is wrong.
        """
        problem = next(self._problems(), None)
        if problem is not None:
            raise ScenarioError(f"scenario {self.name}: {problem}")

    @property
    def active(self) -> str:
        """The cluster the applications are on at first."""
        return self.flows[0].source

    @property
    def standby(self) -> str:
        """The cluster that takes over."""
        return self.flows[0].target

    @property
    def disaster(self) -> Fault | None:
        """The fault that the procedure answers."""
        return next((fault for fault in self.faults if fault.is_disaster), None)

    @property
    def linked(self) -> frozenset[str]:
        """The clusters that the replicator reaches over a link that can be cut."""
        return frozenset(fault.on for fault in self.faults if fault.kind in ON_A_LINK)

    def tolerates(self, finding: Finding, where: Judged, *, unnamed_losses: int) -> bool:
        """Tell whether a finding is no failure, given how many lost records the replicator has not named."""
        return any(each.covers(finding, where, unnamed_losses=unnamed_losses) for each in self.tolerated)

    @property
    def least_left_out_bytes(self) -> int:
        """The size from which on the replicator may leave a record out, if it says so."""
        return max((each.least_bytes for each in self.tolerated), default=0)

    def _problems(self) -> Iterator[str]:
        aliases = {site.alias for site in self.sites}
        topics = {topic.name for topic in self.topics}
        if not self.flows or not self.loads:
            yield "it needs a flow and a load"
        named = [*(flow.source for flow in self.flows), *(flow.target for flow in self.flows)]
        named += [load.cluster for load in self.loads] + [group.cluster for group in self.groups]
        named += [alias for topic in self.topics for alias in topic.clusters]
        yield from (f"{alias} is none of its clusters" for alias in named if alias not in aliases)
        used = [topic for load in self.loads for topic in load.topics]
        yield from (f"the topic {topic} is not declared" for topic in used if topic not in topics)
        for fault in self.faults:
            yield from (f"{fault.kind.name} {problem}" for problem in self._problems_of(fault, aliases, topics))
        if (self.procedure is Procedure.NONE) != (self.disaster is None):
            yield "a procedure answers a disaster, and a disaster needs one: mark one fault with is_disaster"
        if self.procedure is Procedure.FAIL_OVER_AND_BACK and Flow(self.standby, self.active) not in self.flows:
            yield "to fail back it needs the flow from the standby to the active cluster"
        if len([fault for fault in self.faults if fault.is_disaster]) > 1:
            yield "there is one disaster at most"
        disaster = self.disaster
        if disaster and any(
            fault.at_seconds + fault.jitter_seconds > disaster.at_seconds for fault in self.faults if fault != disaster
        ):
            yield "nothing is planned for after the disaster: it is the procedure's turn"
        alone = [group for group in self.groups if group.bookmarks and (group.members > 1 or group.process)]
        yield from (
            f"{group.name} keeps its positions itself: it has one member, and its own process" for group in alone
        )
        if any(group.bookmarks for group in self.groups) and Replicator.MM2 in self.replicators:
            yield "Java MirrorMaker 2 makes no copies with the source's offsets, by which bookmarks go on"
        planted = [fault for fault in self.faults if fault.kind is FaultKind.LOSE_COPIES]
        if self.must_fail != bool(planted):
            yield "it must fail exactly if a defect is put into it"
        if any(not 1 <= fault.records <= MOST_EXAMPLES for fault in planted):
            yield f"of a defect each record is to be found again: 1 to {MOST_EXAMPLES}"
        replaced = [(fault.on, fault.topic) for fault in self.faults if fault.kind in REPLACING]
        if len(set(replaced)) < len(replaced):
            yield "a log is replaced once at most"
        if disaster and self.groups and self.objectives.rpo_seconds is None:
            yield "groups that move need rpo_seconds: what they read again is bounded by it"
        if any(fault.kind in ONLY_IN_MIRROR for fault in self.faults) and Replicator.MM2 in self.replicators:
            yield "Java MirrorMaker 2 has no Spark whose worker could be lost"

    def _problems_of(self, fault: Fault, aliases: Set[str], topics: Set[str]) -> Iterator[str]:
        if fault.kind in ON_THE_REPLICATOR:
            if fault.on != REPLICATOR:
                yield f"is on the {REPLICATOR}, not on {fault.on}"
        elif fault.kind is FaultKind.JOIN_GROUP:
            if fault.on not in {group.name for group in self.groups}:
                yield f"is on a group, not on {fault.on}"
        elif fault.on not in aliases:
            yield f"is on a cluster, not on {fault.on}"
        if (fault.topic in topics) != (fault.kind in ON_A_TOPIC):
            yield "names a topic of the scenario exactly if it concerns one"
        site = next((site for site in self.sites if site.alias == fault.on), None)
        if site and fault.broker is not None and not 1 <= fault.broker <= site.brokers:
            yield f"is on broker {fault.broker}, and {site.alias} has {site.brokers}"
        if site and fault.kind is FaultKind.FILL_DISK and site.disk_megabytes is None:
            yield f"needs a disk of its own on {site.alias}: give it disk_megabytes"
        if site and fault.kind is FaultKind.ELECT_UNCLEANLY and site.brokers < 3:
            yield f"needs three brokers on {site.alias}: the quorum must outlive two of them dying one by one"
        if fault.is_disaster and (fault.on != self.active or fault.lasts_seconds is not None):
            yield "is the disaster, so it befalls the active cluster, and only the procedure heals it"
