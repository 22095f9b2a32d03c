"""Stranded records in files: one of JSON lines for each partition, and a manifest that says what is in them.

A line is ``{"offset", "timestamp", "key", "value", "headers": [[name, value]]}``; keys and values are base64, or null.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirror.atomic_file import force_names, write_atomically
from mirror.evidence.facts import Json
from mirror.kafka import batch
from mirror.kafka.batch import CorruptBatch, Header, Record
from mirror.kafka.old_topics import OldTopic
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.recovery.step_facts import named

_NAME, _MANIFEST = "stranded", "manifest.json"
# Of a file, in bytes; names of topics are ASCII.
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class StrandedFile:
    """The records of one partition that are saved.

    Attributes
    ----------
    path
        of the file.
    sha256
        of its content, in hexadecimal digits.
    end
        of the log that was looked through; nothing behind it is in the file.
    """

    partition: TopicPartition
    path: Path
    records: int
    sha256: str
    end: int

    def __str__(self) -> str:
        """Return it for people, below the name of the folder."""
        return f"{self.partition}: {counted(self.records, 'record')} in {self.path.name}"

    def as_json(self) -> dict[str, Any]:
        """Return what the manifest says of the file, and ``--json``."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "name": self.path.name,
            "records": self.records,
            "sha256": self.sha256,
            "end": self.end,
        }

    def problem(self) -> str | None:
        """Return why the file is not what was written; None: it is."""
        found, digest = 0, hashlib.sha256()
        try:
            with self.path.open("rb") as lines:
                for line in lines:
                    found += 1
                    digest.update(line)
        except OSError as unread:
            return f"{self.path} cannot be read: {unread.strerror or unread}"
        if (found, digest.hexdigest()) == (self.records, self.sha256):
            return None
        return f"{self.path} is not what was written: it has {found} records, and had {self.records}"


@dataclass(frozen=True, slots=True)
class Stranded:
    """What was saved at one time of some topics, and what the topics were like."""

    directory: Path
    topics: tuple[OldTopic, ...]
    files: tuple[StrandedFile, ...]

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(each.records for each in self.files)

    def ends(self) -> dict[TopicPartition, int]:
        """Return up to where each log was looked through."""
        return {each.partition: each.end for each in self.files}

    def problems(self) -> list[str]:
        """Return which of the files are not what was written."""
        return [problem for each in self.files if (problem := each.problem()) is not None]

    def rows(self) -> list[Json]:
        """Return a row a file, for a journal."""
        return [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "records": each.records,
                "path": str(each.path),
            }
            for each in self.files
        ]

    def of(self, names: Sequence[str]) -> Stranded:
        """Return what concerns some of the topics."""
        return Stranded(
            self.directory,
            tuple(each for each in self.topics if each.name in names),
            tuple(each for each in self.files if each.partition.topic in names),
        )


def next_directory(run: Path) -> Path:
    """Return where the next records are saved: what was saved before is never written over."""
    taken = [int(each.name.rpartition("-")[2]) for each in run.glob(f"{_NAME}-[0-9]*")]
    return run / f"{_NAME}-{max(taken, default=0) + 1}"


def make_private(directory: Path) -> None:
    """Make a new folder for records, which others on the machine are not to read."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700)


def save(directory: Path, partition: TopicPartition, end: int, records: Iterable[Record]) -> StrandedFile:
    """Write records of a partition to a file of ``directory``, forced to disk.

    Raises
    ------
    OSError
        if it cannot be written.
    """
    path, count, digest = directory / _file_name(partition), 0, hashlib.sha256()
    with path.open("xb") as file:
        for record in records:
            line = _line(record)
            file.write(line)
            digest.update(line)
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return StrandedFile(partition, path, count, digest.hexdigest(), end)


def _file_name(partition: TopicPartition) -> str:
    """Return the name of a partition's file; of a topic whose name is too long for one a part, and its digest."""
    name = f"{partition}.jsonl"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(partition.topic.encode()).hexdigest()[:16]
    return f"{partition.topic[:200]}-{digest}-{partition.partition}.jsonl"


def seal(stranded: Stranded) -> None:
    """Write the manifest: from then on what was saved counts.

    Raises
    ------
    OSError
        if it cannot be written.
    """
    content = {
        "topics": [each.as_json() for each in stranded.topics],
        "files": [each.as_json() for each in stranded.files],
    }
    write_atomically(stranded.directory / _MANIFEST, json.dumps(content, indent=2) + "\n")
    # What was saved is deleted next: the folder must still be there by its name after a power cut.
    force_names(stranded.directory.parent)


def saved_whole(save: Callable[[], Stranded], cluster: str) -> Stranded | str:
    """Return what ``save`` has saved of a cluster, read again; or, for people, why it is not all there."""
    try:
        saved = save()
    except CorruptBatch as corrupt:
        return f"{cluster} has a record that cannot be read: {corrupt}"
    return named(saved.problems()) or saved


def saved_in(run: Path) -> Mapping[str, Stranded]:
    """Return what a run has saved, the newest of each topic, by topic.

    Raises
    ------
    OSError, ValueError
        if a manifest cannot be read.
    """
    found: dict[str, Stranded] = {}
    for path in sorted(
        run.glob(f"{_NAME}-[0-9]*/{_MANIFEST}"), key=lambda each: int(each.parent.name[len(_NAME) + 1 :])
    ):
        content = json.loads(path.read_text(encoding="utf-8"))
        whole = Stranded(
            path.parent,
            tuple(OldTopic.of_json(each) for each in content["topics"]),
            tuple(_file_of(path.parent, each) for each in content["files"]),
        )
        found |= {each.name: whole.of([each.name]) for each in whole.topics}
    return found


def _file_of(directory: Path, row: Mapping[str, Any]) -> StrandedFile:
    partition = TopicPartition(row["topic"], row["partition"])
    return StrandedFile(partition, directory / row["name"], row["records"], row["sha256"], row["end"])


def unmatched(
    source: Iterable[tuple[memoryview, Header]], copies: Iterable[tuple[memoryview, Header]]
) -> Iterator[Record]:
    """Yield the records of a log that another one does not have at the same offset: key, value and headers.

    Both are the data batches of a partition, in order.
    """
    from mirror.kafka.fingerprints import prints  # NumPy: other commands start sooner without it

    there = _Copies(copies)
    for content, header in source:
        if header.record_count == 0:
            continue
        own = prints(content, header)
        hashes = zip(own.offsets.tolist(), own.hashes.tolist(), strict=True)
        lacking = {offset for offset, print_ in hashes if there.print_at(offset) != print_}
        if lacking:
            yield from (each for each in batch.records(content) if each.offset in lacking)


class _Copies:
    """The prints of the records of a log, asked for by ascending offsets."""

    def __init__(self, batches: Iterable[tuple[memoryview, Header]]) -> None:
        from mirror.kafka.fingerprints import all_fingerprints

        self._left = all_fingerprints(batches)
        self._held: dict[int, int] = {}
        self._last = -1

    def print_at(self, offset: int) -> int | None:
        while self._last < offset and (found := next(self._left, None)) is not None:
            self._held = dict(zip(found.offsets.tolist(), found.hashes.tolist(), strict=True))
            self._last = int(found.offsets[-1])
        return self._held.get(offset)


def _line(record: Record) -> bytes:
    content = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _base64(record.key),
        "value": _base64(record.value),
        # Bytes of a name that are not UTF-8 are escaped, and read back as they were.
        "headers": [[name, _base64(value)] for name, value in record.headers],
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
