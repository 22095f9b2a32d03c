"""Message handlers and rebalance listeners: Python in place of MirrorMaker 1's Java classes (MM1-08, MM1-09).

A handler gets a `SourceRecord` and returns those `TargetRecord` that are sent for it, none to leave it out. It is a
function ``f(record)``, ``f(record, args)`` where ``--message.handler.args`` is given, or a class, made once a stream
with the args if there are any, whose instances are called with the record. A listener is a class with
``on_partitions_assigned`` and ``on_partitions_revoked``, each called with a list of `TopicPartition`.

Invariants:

(a) A batch that a broker refuses as too large is refused whole, and librdkafka does not cut it, as Java's producer
    does: with ``--abort.on.send.failure false`` its records are sent again, each by itself, and only what is refused
    then is skipped. Batches are as small as Java's there, so that a record of a refused size mostly travels alone;
    what goes again may come behind others of its key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from mirror.config.definition import PYTHON, own_class
from mirror.legacy.options import BadOption, OwnCode
from mirror.model.partition import TopicPartition
from mirror.model.references import Unusable, named
from mirror.model.transforms.python_function import NotARecord, require_sendable
from mirror.model.transforms.record import Headers, SourceRecord

__all__ = ["Handler", "RebalanceListener", "TargetRecord"]


class TargetRecord(NamedTuple):
    """A record to be sent.

    Attributes
    ----------
    timestamp
        in ms; None: when it is sent.
    partition
        None: the one that Java's producer chooses, by the key if there is one.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


Handler: TypeAlias = Callable[[SourceRecord], Iterable[TargetRecord]]


class RebalanceListener(Protocol):
    """Who is told of the partitions of a stream."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when the stream has got partitions, before it reads them."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when the stream has given partitions away, after what it read of them is committed."""


def same(record: SourceRecord) -> tuple[TargetRecord]:
    """Return the record under its topic's name, its partition left to the producer (MM1-22)."""
    timestamp = record.timestamp if record.timestamp >= 0 else None
    return (TargetRecord(record.topic, record.key, record.value, record.headers, timestamp),)


def handler_of(code: OwnCode | None) -> Handler:
    """Return the handler that is named; the one that changes nothing if there is none.

    Raises
    ------
    BadOption
        if it is not available.
    """
    if code is None:
        return same
    found, arguments = _found(code, "function or class with a handler"), code.arguments
    if not inspect.isclass(found):
        return found if arguments is None else lambda record: found(record, arguments)
    made = _made(code, found)
    if not callable(made):
        raise BadOption(code.option, f"{code.reference} makes what cannot be called with a record; give it __call__")
    return cast(Handler, made)


def listener_of(code: OwnCode | None) -> RebalanceListener | None:
    """Return the listener that is named, None if there is none.

    Raises
    ------
    BadOption
        if it is not available.
    """
    if code is None:
        return None
    made = _made(code, _found(code, "class of a listener"))
    for method in ("on_partitions_assigned", "on_partitions_revoked"):
        if not callable(getattr(made, method, None)):
            raise BadOption(code.option, f"{code.reference} has no method {method}(partitions)")
    return made  # type: ignore[no-any-return]


def handled(handler: Handler, record: SourceRecord) -> list[TargetRecord]:
    """Return what a handler makes of a record.

    Raises
    ------
    NotARecord
        if it makes what cannot be sent.
    Exception
        whatever the handler raises.
    """
    made = handler(record)
    if handler is same:
        return list(made)
    if not isinstance(made, Iterable):
        raise NotARecord(f"it returned a {type(made).__name__}, no list of records")
    return [_sendable(each) for each in made]


def _sendable(made: Any) -> TargetRecord:
    if not isinstance(made, TargetRecord):
        raise NotARecord(
            f"it returned a {type(made).__name__} among others; records are TargetRecord(topic, key, value)"
        )
    topic: object = made.topic
    partition: object = made.partition
    if not isinstance(topic, str) or not topic:
        raise NotARecord(f"its topic {topic!r} is no name")
    if partition is not None and not (isinstance(partition, int) and partition >= 0):
        raise NotARecord(f"its partition {partition!r} is no number of a partition")
    require_sendable(0 if made.timestamp is None else made.timestamp, made.key, made.value, made.headers)
    return made


def _found(code: OwnCode, what: str) -> Callable[..., Any]:
    reference = own_class(code.reference)
    if reference is None:
        raise BadOption(
            code.option,
            f"{code.reference} names a Java class, and none can be loaded here; give {PYTHON}package.module:name, the "
            f"{what} in Python (its folder in PYTHONPATH)",
        )
    try:
        return named(reference, what)
    except Unusable as problem:
        raise BadOption(code.option, str(problem)) from problem


def _made(code: OwnCode, found: Callable[..., Any]) -> Any:
    try:
        return found() if code.arguments is None else found(code.arguments)
    except Exception as problem:  # it is somebody else's code
        message = f"{type(problem).__name__}: {problem}"
        raise BadOption(code.option, f"{code.reference} cannot be made: {message}") from problem
