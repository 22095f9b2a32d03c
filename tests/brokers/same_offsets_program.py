"""Copies one partition with the source's offsets, record by record as the steps say, until it is killed or done.

Run as a program with a number, it kills itself with SIGKILL right behind the request of that number: whether the broker
has read it by then nobody knows. Without one it copies to the end of the source.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from mirror.copier.markers import Markers
from mirror.copier.same_offsets import Moved, NotFilled, SameOffsetsCopy, leave_many, leave_one
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Record, encode, records
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.connection import Connection
from mirror.kafka.log import read_batches
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of
from mirror.same_offsets.filling import Ahead, ManyMarkers, OneMarker, RaiseEpoch, Records, next_step

FLOW = Flow("east", "west")
RECORDS_A_BATCH = 40


def next_records(
    channel: Channel, source: TopicPartition, position: int, end: int, *, read_committed: bool
) -> list[Record]:
    """The next records of the source in a row, some of them."""
    found: list[Record] = []
    for content, header in read_batches(channel, source, position, end, read_committed=read_committed):
        for each in records(content) if header.next_offset > position else ():
            if each.offset < position:
                continue
            if found and (each.offset != found[-1].offset + 1 or len(found) == RECORDS_A_BATCH):
                return found
            found.append(each)
    return found


def copy(told: dict[str, Any]) -> None:
    """Carry out one step after the other."""
    source, target = TopicPartition(*told["source"]), TopicPartition(*told["target"])
    flow = Flow(told["flow"], "west")
    channel = Channel("east", told["east"])
    with Appender("west", told["west"]) as appender:
        # The first start of the source is on record; here whoever begins says it.
        begins_at = told["begins_at"]
        view = View.STABLE if told["read_committed"] else View.VISIBLE
        end = channel.offsets([source], LATEST, view)[source]
        markers = Markers(flow, appender.channel, writes_many=told["writes_many"])
        made = SameOffsetsCopy(producer_of(flow), appender, markers, target, is_compacted=told["is_compacted"])
        while True:
            position = max(made.place.copy.bounds.end, channel.offsets([source], EARLIEST)[source])
            found = next_records(channel, source, position, end, read_committed=told["read_committed"])
            ahead = Ahead(found[0].offset, len(found)) if found else None
            step = next_step(begins_at, made.place.copy, ahead, markers.known)
            if step is None:
                break
            if isinstance(step, Records):
                content = encode(found, 0, made.producer, made.place.sequence)
                made.append(content, step.count)
            elif isinstance(step, OneMarker):
                try:
                    require(leave_one(appender, markers, [made]))
                except Moved:
                    # What an engine of before had sent came in between.
                    made.look()
            elif isinstance(step, ManyMarkers):
                require(leave_many(appender, markers, {made: step.count}))
            elif isinstance(step, RaiseEpoch):
                markers.raise_epoch()
            else:
                made.fill(step, int(time.time() * 1000))
    channel.close()


def require(problems: Mapping[TopicPartition, NotFilled]) -> None:
    """End by a problem."""
    for problem in problems.values():
        raise problem


def killed_behind(number: int) -> None:
    """Kill this process right behind its request of that number: before the answer, or, of a coordinator's, behind it."""
    sent = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            nonlocal sent
            answer = function(*arguments, **named)
            sent += 1
            if sent == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return wrapped

    Connection.send = counted(Connection.send)  # type: ignore[method-assign]
    Channel.call = counted(Channel.call)  # type: ignore[method-assign]


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    if options["killed_behind"]:
        killed_behind(options["killed_behind"])
    copy(options)
