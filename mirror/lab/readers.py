"""Readers: applications that consume in a group, and write down every record they are handed.

Run as ``python -m mirror.lab.readers``, one process per group or per place of it, or for several groups that read the
same. Each consumer first writes down what
it read and then commits, so a record may be read again after a crash but is never committed unread. Which commits were
acknowledged it writes down too: what was, no group may be handed again. Brokers may die and
come back: the consumers go on until SIGTERM or SIGINT; then they close the ledger, commit and leave the group, and the
process exits 0. Where nobody answers any more it does so without having said goodbye.

With ``--bookmarks`` the one consumer goes on where a file of its own says, and saves it before each commit, which then
is for others to look at: as Flink does, it takes all partitions and never asks where the group stands.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror.lab import bookmarks as bookmark_files
from mirror.lab.load import EXIT_USAGE, StopRequest, now_ms, parse_properties
from mirror.lab.reachability import Reachability
from mirror.model import partition as partitions
from mirror.model.ledger import COMMITS, READS, digest, encode_content, record_id
from mirror.parts import PartWriter

_PART_SECONDS = 1.0
_POLL_SECONDS = 0.1
_BURST = 2000
_ANSWER_SECONDS = 2.0
_GOODBYE_SECONDS = 4.0


@dataclass(slots=True)
class Reading:
    """What a consumer has read and not yet written down, and where it stands."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    positions: dict[tuple[str, int], tuple[int, int | None]] = field(default_factory=dict)
    read_number: int = 0

    def note(self, group: str, consumer: str, cluster: str, message: Message) -> None:
        """Note a record that was handed out."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        headers: Any = message.headers() or []
        identity = record_id(headers)
        self.rows.append(
            (
                group,
                consumer,
                self.read_number,
                cluster,
                topic,
                partition,
                offset,
                identity.producer if identity else None,
                identity.sequence if identity else None,
                digest(encode_content(message.key(), message.value(), headers)),
                message.timestamp()[1],
                now_ms(),
            )
        )
        self.read_number += 1
        # With its leader epoch, as consumers commit: by it readers are told from who sets positions.
        self.positions[topic, partition] = offset + 1, message.leader_epoch()

    def take(self) -> tuple[list[tuple[Any, ...]], list[TopicPartition]]:
        """Return the rows to be written down and the positions to be committed after that; start afresh."""
        rows, self.rows = self.rows, []
        positions = [
            TopicPartition(topic, partition, at, leader_epoch=epoch)
            for (topic, partition), (at, epoch) in self.positions.items()
        ]
        self.positions = {}
        return rows, positions


@dataclass(slots=True)
class Commits:
    """The commits of a consumer that were acknowledged and are not written down yet."""

    group: str
    consumer: str
    cluster: str
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def note(self, error: KafkaError | None, partitions: Sequence[TopicPartition] | None) -> None:
        """Note what the coordinator answered to a commit; one that it refused is none."""
        if error is not None:
            return
        self.rows += [
            (self.group, self.consumer, self.cluster, each.topic, each.partition, each.offset, now_ms())
            for each in partitions or ()
            if each.error is None and each.offset >= 0
        ]

    def take(self) -> list[tuple[Any, ...]]:
        """Return the rows to be written down; start afresh."""
        rows, self.rows = self.rows, []
        return rows


class GroupMember(threading.Thread):
    """One consumer of the group, in a thread of its own.

    Parameters
    ----------
    max_rate
        Most records a second it takes; 0 is as many as come. A slow member puts its group at another place of the log.
    first_part_seconds
        After so long it writes down for the first time what it has read, and each second from then on: the members of
        a process do so one after the other, since all at once they would hold up one another's reading.
    bookmarks
        The file by which it goes on, instead of by where the group stands; None: by that.
    """

    def __init__(
        self,
        name: str,
        *,
        group: str,
        cluster: str,
        consumer: Consumer,
        topics: Sequence[str],
        parts: PartWriter,
        commits: Commits,
        commit_parts: PartWriter,
        max_rate: float,
        stopping: threading.Event,
        reach: Reachability,
        first_part_seconds: float = _PART_SECONDS,
        bookmarks: Path | None = None,
    ) -> None:
        """Prepare; `start` begins to read."""
        # A daemon, so that a client that waits for a dead cluster cannot keep the process.
        super().__init__(name=name, daemon=True)
        self._group = group
        self._cluster = cluster
        self._consumer = consumer
        self._topics = list(topics)
        self._parts = parts
        self._commits = commits
        self._commit_parts = commit_parts
        self._max_rate = max_rate
        self._stopping = stopping
        self._reach = reach
        self._first_part_seconds = first_part_seconds
        self._bookmarks_file = bookmarks
        self._bookmarks = {} if bookmarks is None else bookmark_files.load(bookmarks)
        self._reading = Reading()
        self._sent: dict[tuple[str, int], TopicPartition] = {}
        self._last_problem: str | None = None
        self.failure: BaseException | None = None

    @property
    def is_cut_off(self) -> bool:
        """Whether it has read to its end without a broker to say goodbye to."""
        return self._reach.is_lost and not self.is_alive()

    @property
    def records(self) -> int:
        """Records handed to this consumer so far."""
        return self._reading.read_number

    def run(self) -> None:
        """Read until asked to stop; then commit, leave and close the ledger."""
        try:
            if self._bookmarks_file is None:
                self._consumer.subscribe(self._topics, on_revoke=self._on_revoke, on_lost=self._on_lost)
            else:
                self._take_all()
            self._read()
            self._ask()
            self._checkpoint(last=True)
        except BaseException as failure:
            self.failure = failure
            self._stopping.set()
            raise
        finally:
            if not self._reach.is_lost:
                self._consumer.close()

    def _read(self) -> None:
        began = time.monotonic()
        part_due = began + self._first_part_seconds
        taken_before = 0
        while not self._stopping.is_set():
            now = time.monotonic()
            if now >= part_due:
                self._checkpoint()
                part_due = now + _PART_SECONDS
            burst = _BURST
            if self._max_rate:
                owed = int((now - began) * self._max_rate) - (self.records - taken_before)
                burst = min(owed, _BURST)
                if burst <= 0:
                    # The client keeps its place in the group by itself as long as it is polled now and then.
                    self._stopping.wait(min(_POLL_SECONDS, 1.0 / self._max_rate))
                    continue
                if owed > self._max_rate:
                    began, taken_before = now, self.records
            losses = self._reach.losses
            for message in self._consumer.consume(burst, _POLL_SECONDS):
                error = message.error()
                if error is None:
                    self._reach.answered(losses=losses)
                    self._reading.note(self._group, self.name, self._cluster, message)
                else:
                    self._log_problem(error)

    def _ask(self) -> None:
        """Ask for an answer: of a loss the client tells behind all it had fetched, of which a slow reader has much."""
        if not self._reach.is_lost:
            try:
                self._consumer.list_topics(timeout=_ANSWER_SECONDS)
            except KafkaException:
                self._reach.is_lost = True

    def _take_all(self) -> None:
        """Take all partitions, each from its bookmark, or from its beginning, once all topics are there."""
        while not self._stopping.is_set():
            known = self._consumer.list_topics(timeout=_GOODBYE_SECONDS).topics
            if all(topic in known and known[topic].partitions for topic in self._topics):
                found = [partitions.TopicPartition(each, n) for each in self._topics for n in known[each].partitions]
                self._consumer.assign(
                    [TopicPartition(*each, self._bookmarks.get(each, OFFSET_BEGINNING)) for each in found]
                )
                # For whoever looks at the group: where there is nothing more to read no commit would follow.
                if shown := [TopicPartition(*each, self._bookmarks[each]) for each in found if each in self._bookmarks]:
                    self._consumer.commit(offsets=shown, asynchronous=True)
                return
            self._stopping.wait(_POLL_SECONDS)

    def _save_bookmarks(self, positions: Sequence[TopicPartition]) -> None:
        if self._bookmarks_file is not None and positions:
            moved = {partitions.TopicPartition(each.topic, each.partition): each.offset for each in positions}
            self._bookmarks |= moved
            bookmark_files.save(self._bookmarks_file, self._bookmarks)

    def _checkpoint(self, *, last: bool = False) -> None:
        """Write down what was read, then commit it; the last time, also wait for the answer.

        In between nothing is waited for: a commit stands in the connection before whatever comes next, also before the
        request to join the group again, and a dead coordinator must not hold up the ledger.
        """
        rows, positions = self._reading.take()
        self._parts.write(rows, last=last)
        self._save_bookmarks(positions)
        self._commit_parts.write(self._commits.take())
        self._sent |= {(each.topic, each.partition): each for each in positions}
        if last:
            # Once more what was sent and may not be answered yet: the ledger is to have it.
            owned = {(each.topic, each.partition) for each in self._consumer.assignment()}
            positions = [each for place, each in self._sent.items() if place in owned]
        try:
            # Where a commit fails the group stays behind what it has read, and reads that again: nothing is lost.
            if positions and last and self._reach.is_lost:
                self._log_lost()
            elif positions and last:
                self._commits.note(None, self._consumer.commit(offsets=positions, asynchronous=False))
            elif positions:
                self._consumer.commit(offsets=positions, asynchronous=True)
        except KafkaException as refused:
            self._log_problem(refused.args[0])
        if last:
            self._commit_parts.write(self._commits.take(), last=True)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._checkpoint()
        self._forget(partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        rows, _ = self._reading.take()  # somebody else owns these partitions: not ours to commit any more
        self._parts.write(rows)
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        """Forget what was committed of partitions that somebody else goes on with."""
        for each in partitions:
            self._sent.pop((each.topic, each.partition), None)

    def _log_lost(self) -> None:
        typer.echo(f"{self.name}: no broker answers, so what was read last is not committed", err=True)

    def _log_problem(self, error: KafkaError) -> None:
        """Put a problem into the log of the process, once until another one comes."""
        problem = f"{error.name()}: {error.str()}"
        if problem != self._last_problem:
            self._last_problem = problem
            typer.echo(f"{self.name}: {problem}", err=True)


def client_settings(
    bootstrap: str, group: str, name: str, *, auto_offset_reset: str, further: Mapping[str, str]
) -> dict[str, str | int | bool]:
    """Return the settings of a consumer that commits what was written down, and notices a lost member soon."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": auto_offset_reset,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
        # Bounds a commit, and so the end of this process, when the coordinator is gone.
        "socket.timeout.ms": 5000,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 5000,
        "allow.auto.create.topics": False,
        # A slow reader must not hold megabytes it will read in an hour.
        "queued.max.messages.kbytes": 16384,
        "log_level": 2,
        **further,
    }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def readers(
    *,
    bootstrap: Annotated[str, typer.Option(help="Brokers to start from, host:port,...")],
    cluster: Annotated[str, typer.Option(help="Alias of the cluster, as written in the ledger.")],
    group: Annotated[list[str], typer.Option(help="Group to read in; several times for more, each reads all.")],
    topic: Annotated[list[str], typer.Option(help="Topic to read, or ^regular expression; several times for more.")],
    ledger: Annotated[Path, typer.Option(help="Directory of the ledger; reads/ is made in it.")],
    name: Annotated[str, typer.Option(help="Prefix of the consumers' names, unique among all readers of a run.")] = "",
    consumers: Annotated[int, typer.Option(min=1, help="Number of members of each group in this process.")] = 1,
    max_rate: Annotated[float, typer.Option(min=0, help="Most records a second of each; 0 is no limit.")] = 0,
    auto_offset_reset: Annotated[str, typer.Option(help="Where a group without position begins.")] = "earliest",
    bookmarks: Annotated[
        Path | None, typer.Option(help="File by which the one consumer goes on; saved before each commit.")
    ] = None,
    client_property: Annotated[list[str] | None, typer.Option(help="Further librdkafka setting, key=value.")] = None,
) -> None:
    """Consume in groups and keep a ledger of every record read."""
    groups = {
        f"{name or f'{one}-{cluster}'}{f'-{one}' if len(group) > 1 else ''}-{number}": one
        for one in group
        for number in range(consumers)
    }
    if bookmarks is not None and len(groups) > 1:
        typer.echo("readers: bookmarks are those of one consumer", err=True)
        raise typer.Exit(EXIT_USAGE)
    commits = {each: Commits(one, each, cluster) for each, one in groups.items()}
    reaches = {each: Reachability() for each in groups}
    stopping = threading.Event()
    try:
        further = parse_properties(client_property or [])
        members = [
            GroupMember(
                each,
                group=one,
                cluster=cluster,
                consumer=Consumer(
                    {
                        **client_settings(bootstrap, one, each, auto_offset_reset=auto_offset_reset, further=further),
                        "on_commit": commits[each].note,
                        "error_cb": reaches[each].failed,
                    }
                ),
                topics=topic,
                parts=PartWriter(ledger / "reads", each, READS),
                commits=commits[each],
                commit_parts=PartWriter(ledger / "commits", each, COMMITS),
                max_rate=max_rate,
                stopping=stopping,
                reach=reaches[each],
                first_part_seconds=_PART_SECONDS * number / len(groups),
                bookmarks=bookmarks,
            )
            for number, (each, one) in enumerate(groups.items(), 1)
        ]
    except (ValueError, FileExistsError, KafkaException) as error:
        typer.echo(f"readers: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from error
    stop = StopRequest()
    stop.listen()
    message = f"group {group[0]} reads" if len(group) == 1 else f"{len(group)} groups read"
    typer.echo(f"readers: {message} {', '.join(topic)} on {cluster} ({bootstrap}) as {', '.join(groups)}")
    for member in members:
        member.start()
    while not stop.asked and not stopping.is_set():
        stopping.wait(_POLL_SECONDS)
    stopping.set()
    deadline = time.monotonic() + _GOODBYE_SECONDS
    for member in members:
        member.join(max(0.0, deadline - time.monotonic()))
    typer.echo(json.dumps({member.name: member.records for member in members}))
    if any(member.failure for member in members):
        raise typer.Exit(1)
    if any(member.is_alive() or member.is_cut_off for member in members):
        typer.echo(
            f"readers: left {', '.join(group)} without saying goodbye: the coordinator does not answer", err=True
        )
        # The clients' own threads would hold an orderly exit up until they give up.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    app()
