"""How many bytes to ask for in a fetch, learned from how answers arrive over one connection.

On a long line a partition that has more to give is asked for more at once; on a narrow one answers are kept so small
that they arrive within about a second. A broker throws away an answer that would go over a quota, and says for how long
to be silent: the next is asked to be smaller, or one as large as the quota's whole window would never be sent while
others read a little under the same quota.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror.model.partition import TopicPartition

FIRST_PARTITION_BYTES = 1 << 20
FIRST_TOTAL_BYTES = 4 << 20

# Between two fetches the line is empty for a round trip: an answer should take some times as long.
_ROUND_TRIPS_AN_ANSWER = 3
# On a shorter line the first size is 200 MB/s; larger answers only leave the processor's caches.
_SHORT_SECONDS = 0.005
# An answer that takes longer holds up the partitions that are not in it, and the end of the epoch.
_LONGEST_ANSWER_SECONDS = 1.0
# What nobody would ask for; the settings limit it further.
_LARGEST_BYTES = 1 << 30
# A broker sends a first batch whole however little is asked for: that less is held back says nothing of the size.
_LEAST_BYTES = 16 << 10


class FetchSizes:
    """What has been learned of one connection."""

    def __init__(self) -> None:
        """Begin with what does well on a short line."""
        self._total = FIRST_TOTAL_BYTES
        # What the quotas seem to allow in one answer.
        self._allowed = _LARGEST_BYTES
        self._by_partition: dict[TopicPartition, int] = {}

    def total(self, most_bytes: int) -> int:
        """Return how much one answer is to bring, ``most_bytes`` at most."""
        return min(self._total, self.allowed(most_bytes))

    def allowed(self, most_bytes: int) -> int:
        """Return how much one answer may bring by the quotas, ``most_bytes`` at most."""
        return min(self._allowed, most_bytes)

    def throttled(self, asked_bytes: int) -> None:
        """Take in that an answer was held back because of a quota, when so much was asked for."""
        if asked_bytes >= _LEAST_BYTES:
            self._allowed = max(_LEAST_BYTES, self.allowed(asked_bytes) // 2)

    def brought(self, total_bytes: int) -> None:
        """Take in the size of an answer that no quota held back."""
        if 2 * total_bytes > self._allowed:
            self._allowed = min(2 * self._allowed, _LARGEST_BYTES)

    def of(self, partition: TopicPartition, most_bytes: int) -> int:
        """Return how much of a partition one answer is to bring, ``most_bytes`` at most."""
        return min(self._by_partition.get(partition, FIRST_PARTITION_BYTES), most_bytes)

    def learn(
        self, total_bytes: int, seconds: float, round_trip: float, parts: Mapping[TopicPartition, tuple[int, int]]
    ) -> None:
        """Take in one answer.

        Parameters
        ----------
        total_bytes, seconds
            its size, and how long it took from its first byte to its last.
        round_trip
            seconds from a request to the first byte of its answer, when the source has no reason to wait.
        parts
            (bytes asked for, bytes brought) of the partitions that brought any.
        """
        if seconds > _LONGEST_ANSWER_SECONDS:
            self._total = max(FIRST_PARTITION_BYTES, self._total // 2)
        elif 2 * total_bytes > self._total and 4 * seconds < _LONGEST_ANSWER_SECONDS:
            self._total = min(2 * self._total, _LARGEST_BYTES)
        is_long = round_trip > _SHORT_SECONDS and seconds < _ROUND_TRIPS_AN_ANSWER * round_trip
        for partition, (asked, brought) in parts.items():
            if brought >= asked and is_long:
                self._by_partition[partition] = min(2 * asked, _LARGEST_BYTES)
            elif 4 * brought < asked:
                self._by_partition.pop(partition, None)
