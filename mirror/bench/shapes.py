"""What is copied: how many records of what size, in what batches, compressed how; pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mirror.lab.errors import BadRequest

KEY_BYTES = 8
_RECORD_OVERHEAD_BYTES = 20
_BATCH_OVERHEAD_BYTES = 61
_LARGEST_BATCH_BYTES = 1_048_588
_USUAL_RECORD_BYTES = 1000
_MATRIX_SIZES = (100, 1000, 10_000)
_MATRIX_BATCHES = (1, 10, 100)


class Codec(StrEnum):
    """How batches are compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class Shape:
    """The records of a topic; ``record_bytes`` are those of key and value together, before compression."""

    records: int
    record_bytes: int
    records_per_batch: int
    codec: Codec
    partitions: int

    @property
    def value_bytes(self) -> int:
        """Size of a value."""
        return self.record_bytes - KEY_BYTES

    def __str__(self) -> str:
        """Return it as a title has it."""
        return f"{self.record_bytes:,} B, {self.records_per_batch} a batch, {self.codec}, {self.partitions} partitions"


def plan_shape(records: int, record_bytes: int, records_per_batch: int, codec: Codec, partitions: int) -> Shape:
    """Return a shape of at least so many records: whole batches, as many on each partition.

    Raises
    ------
    BadRequest
        if a batch would be larger than brokers take.
    """
    size = records_per_batch * (record_bytes + _RECORD_OVERHEAD_BYTES) + _BATCH_OVERHEAD_BYTES
    if size > _LARGEST_BATCH_BYTES:
        raise BadRequest(
            f"{records_per_batch} records of {record_bytes:,} bytes make batches of {size:,} bytes, and brokers take "
            f"no more than {_LARGEST_BATCH_BYTES:,}: give a smaller --records-per-batch"
        )
    a_round = records_per_batch * partitions
    return Shape(-(-records // a_round) * a_round, record_bytes, records_per_batch, codec, partitions)


def matrix(records: int, partitions: int) -> tuple[Shape, ...]:
    """Return the table of shapes: every size with every batch in lz4, then the other codecs for the usual one.

    Parameters
    ----------
    records
        of 1,000 bytes; there are twice as many smaller ones, and of larger ones as many as make the same bytes.
    """
    shapes = [
        plan_shape(_as_many(records, size), size, in_batch, Codec.LZ4, partitions)
        for size in _MATRIX_SIZES
        for in_batch in _MATRIX_BATCHES
    ]
    others = [codec for codec in Codec if codec is not Codec.LZ4]
    shapes += [plan_shape(records, _USUAL_RECORD_BYTES, _MATRIX_BATCHES[-1], codec, partitions) for codec in others]
    return tuple(shapes)


def _as_many(records: int, record_bytes: int) -> int:
    return max(1, min(2 * records, records * _USUAL_RECORD_BYTES // record_bytes))
