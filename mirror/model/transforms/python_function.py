"""A transform of one's own: a Python function from record to record, named in the properties file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirror.model.partition import TopicPartition
from mirror.model.references import named
from mirror.model.transforms.record import R, SourceRecord, altered


class NotARecord(TypeError):
    """The function returned something that cannot be sent. The message says what."""


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """Hands each record to ``package.module:function`` and takes what it returns; None drops the record.

    The function must go by the record alone: after a crash it is applied again, and what it then returns is compared
    with what had been written. Topic, partition and offset are not its to change. It is shipped by name: the module
    must be found (``PYTHONPATH``) wherever a task runs.
    """

    reference: str

    def apply(self, record: R, place: TopicPartition) -> R | None:
        """Return what the function makes of the record.

        Raises
        ------
        Unusable
            if it cannot be imported here.
        NotARecord
            if it returns what is none.
        Exception
            whatever the function raises.
        """
        given = SourceRecord(*place, record.offset, record.timestamp, record.key, record.value, record.headers)
        made = named(self.reference)(given)
        if made is None:
            return None
        if made is given:
            return record
        if not isinstance(made, SourceRecord):
            raise NotARecord(f"it returned a {type(made).__name__}, neither a SourceRecord nor None")
        if made[:3] != given[:3]:
            raise NotARecord("it changed topic, partition or offset; a record is sent elsewhere by a RegexRouter only")
        headers = tuple((name, content) for name, content in made.headers)
        require_sendable(made.timestamp, made.key, made.value, headers)
        return altered(record, timestamp=made.timestamp, key=made.key, value=made.value, headers=headers)


def require_sendable(timestamp: Any, key: Any, value: Any, headers: tuple[tuple[Any, Any], ...]) -> None:
    """Return if brokers take such a record.

    Raises
    ------
    NotARecord
        saying what of it they do not take.
    """
    if not isinstance(timestamp, int) or timestamp < 0:
        raise NotARecord(f"its timestamp {timestamp!r} is not a number of milliseconds since 1970")
    for what, content in (("key", key), ("value", value), *((f"header {name!r}", one) for name, one in headers)):
        if content is not None and not isinstance(content, bytes):
            raise NotARecord(f"its {what} is a {type(content).__name__}, neither bytes nor None")
    for name, _ in headers:
        if not isinstance(name, str):
            raise NotARecord(f"the name of its header {name!r} is no str")
