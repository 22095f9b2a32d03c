"""As whom an engine that leads a flow writes it, and where each of these producers stands."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirror.kafka.batch import Producer
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class TakenProducers:
    """As whom a flow is written.

    Attributes
    ----------
    slots
        with transactions: of each task the transactional id and its producer.
    producer
        the producer of what is written outside of transactions; None if that was never done.
    is_first
        whether the flow was never written as that producer before: nothing of it can arrive late.
    unended
        partitions in which a transaction has not ended that is decided: to be written to once it has; and those of
        positions that can take none now.
    was_used_before
        whether the cluster has given out one of these ids before, and the state topic knew of none: an engine has
        written as this flow, and what was on record of it is lost. By their epochs: for clusters that did not tell when
        they were asked, see :meth:`mirror.engine.flow_producers.FlowProducers.was_given`.
    is_next
        whether nobody has had the producer since what is on record of it; False: somebody has, and the state topic has
        lost that, with all that was put on record since.
    """

    slots: tuple[tuple[str, Producer], ...] = ()
    producer: Producer | None = None
    is_first: bool = False
    unended: frozenset[TopicPartition] = frozenset()
    was_used_before: bool = False
    is_next: bool = True


@dataclass(frozen=True, slots=True)
class Writing:
    """As whom a flow is written without transactions.

    Attributes
    ----------
    sequences
        the producer's next sequence on each partition of the target that it has written to.
    """

    producer: Producer | None = None
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
