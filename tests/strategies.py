"""Hypothesis strategies for the values of the model."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition

SEPARATORS = st.sampled_from([".", "-", "_", "__", "..", "|", "$", "é"])
TOPIC_NAMES = st.text(alphabet=string.ascii_letters + string.digits + "._-", min_size=1, max_size=40)
OFFSETS = st.integers(min_value=0, max_value=2**63 - 1)
PARTITIONS = st.builds(TopicPartition, TOPIC_NAMES, st.integers(min_value=0, max_value=2**31 - 1))
UNICODE = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=30)


def aliases(separator: str) -> st.SearchStrategy[str]:
    """Aliases that cannot be mistaken for two pieces of a topic name."""
    letters = [letter for letter in string.ascii_lowercase + string.digits if letter not in separator]
    return st.text(alphabet=letters, min_size=1, max_size=10)


def sync_logs(partition: TopicPartition, *, least_step: int) -> st.SearchStrategy[list[OffsetSync]]:
    """Logs of offset syncs of one partition: upstream goes up by ``least_step`` (negative: down) or more at a time.

    Downstream goes up with it, less where upstream skips offsets, but by one at least: no two records land on one.
    """
    steps = st.tuples(st.integers(min_value=least_step, max_value=2000), st.integers(min_value=1, max_value=2000))

    def as_log(drawn: list[tuple[int, int]]) -> list[OffsetSync]:
        log, upstream, downstream = [], 0, 0
        for up, down in drawn:
            upstream, downstream = max(0, upstream + up), downstream + min(down, abs(up))
            log.append(OffsetSync(partition, upstream, downstream))
        return log

    return st.lists(steps, min_size=1, max_size=80).map(as_log)
