"""What lies in the topic of parked records, for whoever compares: no more of it than is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.log import decoded, read_batches
from mirror.model.absences import Absence, AbsenceKind
from mirror.model.ledger import digest, encode_content
from mirror.model.parked import origin, parked_topic
from mirror.model.partition import TopicPartition
from mirror.proof.declared_gaps import ParkedContent


def parked_contents(
    target: Channel, source_alias: str, absences: Mapping[TopicPartition, Iterable[Absence]]
) -> dict[TopicPartition, dict[int, ParkedContent]]:
    """Return what is parked of the records that are said to be, by source partition and offset.

    One that lies there twice, after a crash, is one. Where the topic is gone nothing is.

    Raises
    ------
    KafkaProblem
        if the topic cannot be read.
    """
    asked = {
        (source, absence.start)
        for source, each in absences.items()
        for absence in each
        if absence.kind is AbsenceKind.PARKED
    }
    found: dict[TopicPartition, dict[int, ParkedContent]] = defaultdict(dict)
    address = TopicPartition(parked_topic(source_alias), 0)
    starts = target.find_offsets([address], EARLIEST) if asked else {}
    if address not in starts:
        return found
    end = target.offsets([address], LATEST)[address]
    for content, _ in read_batches(target, address, starts[address], end):
        for record in decoded(target, address, content):
            known = origin(record.headers)
            if known is not None and (known.source, known.offset) in asked:
                content_digest = digest(encode_content(record.key, record.value, known.headers))
                found[known.source][known.offset] = ParkedContent(content_digest, known.timestamp)
    return found
