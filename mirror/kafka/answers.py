"""Answers of brokers to requests about many things at once: each thing has its own result or problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from kafka import errors as client_errors

from mirror.kafka import codes
from mirror.kafka.problems import AccessDenied, ClusterError, RequestFailed
from mirror.model.partition import TopicPartition

K = TypeVar("K")


V = TypeVar("V")


P = TypeVar("P")


class Answers(dict[K, V], Generic[K, V, P]):
    """The answers by item, as a dict, and beside them the problem of every item that has no answer."""

    def __init__(self, answers: Mapping[K, V] | None = None, problems: Mapping[K, P] | None = None) -> None:
        super().__init__(answers or {})
        self.problems: dict[K, P] = dict(problems or {})

    def __repr__(self) -> str:
        """Show both halves."""
        return f"{type(self).__name__}({super().__repr__()}, problems={self.problems!r})"


class Found(Answers[K, V, str]):
    """Answers for people: problems are texts."""


class PartitionAnswers(Answers[TopicPartition, V, RequestFailed]):
    """Answers of the leaders of partitions: by the kind of a problem it is decided what to do."""

    def whole(self) -> Self:
        """Return itself.

        Raises
        ------
        RequestFailed
            if one of the partitions has no answer.
        """
        for problem in self.problems.values():
            raise problem
        return self


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What came of a change to one item.

    Attributes
    ----------
    item
        the topic, group or partition (``orders-3``) that was to be changed.
    problem
        why it was not, None if it was or if there was nothing left to do.
    existed
        whether it was there before: the topic to create or to delete, the partitions to add.
    """

    item: str
    problem: str | None = None
    existed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer for one item: an error code (0 for none), its message, and the value."""

    code: int
    message: str | None = None
    value: Any = None

    @property
    def is_transient(self) -> bool:
        """Whether asking again may help."""
        return self.code in codes.TRANSIENT

    @property
    def problem(self) -> str | None:
        """The error in words, None if there is none."""
        return None if self.code == 0 else spelled(self.code, self.message)

    def needing(self, right: str) -> Answer:
        """Return the same, which names the ``right`` that is lacking where the broker says only that one is."""
        return replace(self, message=f"needs {right}") if self.code in codes.DENIED else self


LEFT_OUT = Answer(-1, "the broker's answer leaves it out")


# Not one of those that are asked again.
UNKNOWN_SERVER_ERROR = -1


def spelled(code: int, message: str | None) -> str:
    """Return an error code of the protocol by name, with what the broker says or what the code means."""
    error = client_errors.for_code(code)
    name = getattr(error, "message", None) or f"error {code}"
    text = message or " ".join((getattr(error, "description", None) or "").split())
    return f"{name}: {text}" if text else str(name)


def found_of(answers: Mapping[K, Answer]) -> Found[K, Any]:
    """Return values and problems apart."""
    return Found(
        {item: answer.value for item, answer in answers.items() if answer.code == 0},
        {item: str(answer.problem) for item, answer in answers.items() if answer.code},
    )


def item_results(answers: Mapping[Any, Answer]) -> list[ItemResult]:
    """Return what became of each item of a change."""
    return [ItemResult(str(item), answer.problem) for item, answer in answers.items()]


def refusal_of(alias: str, doing: str, answer: Answer) -> ClusterError:
    """Return the error to raise for an answer that is one."""
    error = client_errors.for_code(answer.code)
    kind = AccessDenied if issubclass(error, client_errors.AuthorizationError) else ClusterError
    return kind(alias, doing, str(answer.problem))
