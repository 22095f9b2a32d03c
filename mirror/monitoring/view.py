"""What is known of an engine and its flows at one moment: metrics, readiness and status are made of it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror.control.flow_status import FlowStatus
from mirror.engine.copy_counters import CopiedSince
from mirror.history.kept import Kept
from mirror.model.copied import Ages
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.recovery.fenced_side import FencedSide

CONNECTORS: Final = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow as an engine knows it.

    Attributes
    ----------
    term
        the term in which this engine leads the flow; None: it stands by.
    has_reported
        whether an epoch has said, since it leads, how the copying goes, or there is nothing to copy.
    stopped
        the partitions on the source that this engine does not copy on by itself, and why.
    copies
        the partitions on the target by those on the source.
    figures
        of the partitions on the source that this engine has copied.
    checkpoints
        by group and partition on the target, how long after the listing of groups checkpoints were written.
    rereads
        by group, the records that a failover just before the last checkpoints would have handed it again.
    status, seen_ms
        what the two clusters said when they were last looked at, and when; None before the first look.
    side
        who writes to the source although the flow is failed over; None: it is not.
    source_names, checkpoint_names
        the names of MirrorMaker's metrics, ``legacy`` and ``new``.
    connectors
        those of MirrorMaker whose work is done for it.
    """

    flow: Flow
    term: int | None = None
    has_reported: bool = False
    stopped: Mapping[TopicPartition, str] = field(default_factory=dict)
    copies: Mapping[TopicPartition, TopicPartition] = field(default_factory=dict)
    figures: Mapping[TopicPartition, CopiedSince] = field(default_factory=dict)
    checkpoints: Mapping[tuple[str, TopicPartition], Ages] = field(default_factory=dict)
    rereads: Mapping[str, int] = field(default_factory=dict)
    status: FlowStatus | None = None
    seen_ms: int | None = None
    side: FencedSide | None = None
    source_names: frozenset[str] = frozenset({"legacy"})
    checkpoint_names: frozenset[str] = frozenset({"legacy"})
    connectors: tuple[str, ...] = CONNECTORS


@dataclass(frozen=True, slots=True)
class EngineView:
    """An engine.

    Attributes
    ----------
    at_ms
        the moment, in ms since the epoch.
    wrong
        its parts that are not at work, and why.
    is_stopping
        whether it was told to end.
    cliff_seconds
        how soon the source must delete what is not copied for a flow not to be ready.
    tasks
        how many copy what it leads, unless they follow the cores of a Spark cluster.
    history
        what is kept of what is seen of the flows; None: nothing.
    """

    version: str
    at_ms: int
    flows: tuple[FlowView, ...] = ()
    wrong: tuple[str, ...] = ()
    is_stopping: bool = False
    epochs_ended: int = 0
    epochs_failed: int = 0
    seam_seconds: float | None = None
    cliff_seconds: float = 3600.0
    history: Kept | None = None
    tasks: int = 1
