"""Which partition of the target each partition of the source is copied to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mirror.config.settings import FlowSettings
from mirror.kafka.cluster_model import Topic
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Routes:
    """What is copied where, and what is wrong with the topics that transforms send elsewhere.

    Attributes
    ----------
    partitions
        (source, target, ids of both topics).
    """

    partitions: tuple[tuple[TopicPartition, TopicPartition, str, str], ...]
    problems: tuple[str, ...] = ()


def plan_routes(
    source: Mapping[str, Topic],
    target: Mapping[str, Topic],
    settings: FlowSettings,
    copied: Collection[TopicPartition] = (),
    loop_problem: Callable[[str], str | None] = lambda _: None,
) -> Routes:
    """Return where the partitions of the replicated topics go.

    A copy that is still to be created, or to grow, is waited for. But nobody creates a topic that records are sent to
    by a transform: as in Connect it must be there. It can be the copy of one topic only, of the one already ``copied``.
    A topic whose records would go round (``loop_problem`` says why) is not copied at all.
    """
    known = {each.topic for each in copied}
    names = sorted((name for name in source if settings.replicates(name)), key=lambda name: (name not in known, name))
    partitions: list[tuple[TopicPartition, TopicPartition, str, str]] = []
    problems: list[str] = []
    taken: dict[str, str] = {}
    for name in names:
        if (loop := loop_problem(name)) is not None:
            problems.append(loop)
            continue
        remote = settings.copy_of(name)
        is_routed = remote != settings.policy.format_remote_topic(settings.flow.source, name)
        first = taken.setdefault(remote, name)
        if first != name:
            problems.append(
                f"{name} is not copied: the transforms send it to {remote}, which is the copy of {first} already; "
                "give each topic a copy of its own"
            )
            continue
        wanted, copy = len(source[name].partitions), target.get(remote)
        there = 0 if copy is None else len(copy.partitions)
        if is_routed and there < wanted:
            has = f"has {counted(there, 'partition')}" if copy else "does not exist"
            problems.append(
                f"{name} is not copied{' whole' if there else ''}: the transforms send it to {remote}, which {has} on "
                f"{settings.flow.target}; create it with {counted(wanted, 'partition')}"
            )
        partitions += [
            (TopicPartition(name, number), TopicPartition(remote, number), source[name].topic_id, copy.topic_id)
            for number in range(min(wanted, there))
            if copy is not None
        ]
    return Routes(tuple(sorted(partitions)), tuple(problems))
