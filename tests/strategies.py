"""Hypothesis strategies for the values of the model."""

from __future__ import annotations

import string

from hypothesis import strategies as st

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
