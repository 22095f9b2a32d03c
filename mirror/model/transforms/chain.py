"""The chain of transforms of a flow, and what is left of it for one topic.

Routers and name predicates go by the topic alone. So for each topic they are resolved before anything is copied: where
its records go, and which transforms look at single records. A topic that none of them looks at needs no decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias

from mirror.model.partition import TopicPartition
from mirror.model.references import Unusable
from mirror.model.transforms.python_function import PythonFunction
from mirror.model.transforms.record import R
from mirror.model.transforms.stock import (
    DropHeaders,
    Filter,
    InsertHeader,
    Predicate,
    RecordPredicate,
    RegexRouter,
    TopicNameMatches,
)

RecordTransform: TypeAlias = InsertHeader | DropHeaders | Filter | PythonFunction


@dataclass(frozen=True, slots=True)
class ChainedTransform:
    """One transform with its name in the file, and the predicate it depends on, if any.

    Raises
    ------
    ValueError
        for a router that depends on single records: the records of one partition would go to several topics.
    """

    alias: str
    transform: RecordTransform | RegexRouter
    predicate: Predicate | None = None
    negate: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be resolved for a topic."""
        if isinstance(self.transform, RegexRouter) and not isinstance(self.predicate, TopicNameMatches | None):
            raise ValueError(f"the router {self.alias} depends on single records")


@dataclass(frozen=True, slots=True)
class Step:
    """A transform of single records, the predicate on them, if any, and the name the topic has at this place."""

    alias: str
    transform: RecordTransform
    predicate: RecordPredicate | None
    negate: bool
    topic: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that a transform could not take, left out because errors are tolerated."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The record at which the chain came to its end, and why."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Transformed(Generic[R]):
    """What became of records.

    Attributes
    ----------
    records
        what is to be sent, in order, each with the offset of its original.
    skipped
        what was left out because of an error, in order.
    failed
        where it ended; nothing behind that was looked at. None if all went through.
    """

    records: list[R]
    skipped: tuple[Skipped, ...] = ()
    failed: Failed | None = None


@dataclass(frozen=True, slots=True)
class TopicTransform:
    """What is done to each record of one topic.

    Attributes
    ----------
    skips_errors
        whether a record that a transform fails on is left out (``errors.tolerance = all``) instead of ending the copy.
    """

    steps: tuple[Step, ...]
    skips_errors: bool = False

    def apply(self, records: Iterable[R], partition: int) -> Transformed[R]:
        """Put records of one partition through the chain, in order."""
        kept: list[R] = []
        skipped: list[Skipped] = []
        for record in records:
            made: R | None = record
            for step in self.steps:
                assert made is not None
                if step.predicate is not None and step.predicate.holds(made) is step.negate:
                    continue
                try:
                    made = step.transform.apply(made, TopicPartition(step.topic, partition))
                except Unusable as problem:
                    # Tolerated, this would drop everything.
                    return Transformed(kept, tuple(skipped), Failed(record.offset, f"{step.alias}: {problem}"))
                except Exception as error:  # noqa: BLE001  # a function of somebody else may raise anything
                    reason = f"the transform {step.alias} failed: {type(error).__name__}: {error}"
                    if not self.skips_errors:
                        return Transformed(kept, tuple(skipped), Failed(record.offset, reason))
                    skipped.append(Skipped(record.offset, reason))
                    made = None
                if made is None:
                    break
            if made is not None:
                kept.append(made)
        return Transformed(kept, tuple(skipped))


@dataclass(frozen=True, slots=True)
class Chain:
    """All transforms of a flow in their order (``transforms``); each gets what the one before it made."""

    stages: tuple[ChainedTransform, ...] = ()
    skips_errors: bool = False

    @property
    def has_routers(self) -> bool:
        """Whether any topic may be sent to another."""
        return any(isinstance(stage.transform, RegexRouter) for stage in self.stages)

    def route(self, topic: str) -> str:
        """Return the topic that the records of ``topic``, a name on the target, are sent to in the end."""
        return self._resolve(topic)[1]

    def chosen(self, topics: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return, by the name of each transform, which of these topics, names on the target, it gets records of.

        As far as the topic decides that: a predicate on records may hold for none of them.
        """
        found: dict[str, list[str]] = {stage.alias: [] for stage in self.stages}
        for topic in topics:
            for stage, _ in self._met_by(topic):
                found[stage.alias].append(topic)
        return {alias: tuple(names) for alias, names in found.items()}

    def of_topic(self, topic: str, *, with_functions: bool = True) -> TopicTransform | None:
        """Return what is done to each record of ``topic``, a name on the target; None if nothing is.

        Without ``with_functions`` the functions of one's own are left out.
        """
        steps, _ = self._resolve(topic)
        if not with_functions:
            steps = tuple(step for step in steps if not isinstance(step.transform, PythonFunction))
        return TopicTransform(steps, self.skips_errors) if steps else None

    def _met_by(self, topic: str) -> Iterator[tuple[ChainedTransform, str]]:
        """Yield the transforms that the records of a topic come to, each with the name the topic has behind it."""
        for stage in self.stages:
            if isinstance(stage.predicate, TopicNameMatches) and stage.predicate.holds_for(topic) is stage.negate:
                continue
            if isinstance(stage.transform, RegexRouter):
                topic = stage.transform.route(topic)
            yield stage, topic

    def _resolve(self, topic: str) -> tuple[tuple[Step, ...], str]:
        steps: list[Step] = []
        for stage, name in self._met_by(topic):
            topic = name
            if not isinstance(stage.transform, RegexRouter):
                predicate = None if isinstance(stage.predicate, TopicNameMatches) else stage.predicate
                steps.append(Step(stage.alias, stage.transform, predicate, stage.negate, topic))
        return tuple(steps), topic
