"""Where the standby's logs ended at a cut is on record as far as a record has room for it."""

from __future__ import annotations

import pytest

from mirror.kafka.log import side_batches
from mirror.model.pause import PauseWish
from mirror.model.state_record import stamped
from mirror.model.state_values import pause_record
from mirror.recovery.cut_log_ends import fitting

MOST_MESSAGE_BYTES = 1_048_588


@pytest.mark.parametrize(
    ("topics", "length", "fits", "ids_fit"),
    [(10, 20, True, True), (4_000, 100, True, False), (4_000, 249, False, False), (12_000, 80, False, False)],
)
def test_a_standby_of_many_topics_can_be_cut(topics: int, length: int, fits: bool, ids_fit: bool) -> None:
    """The record was larger than brokers take: no failover was possible."""
    names = [f"{number:0{length}}" for number in range(topics)]
    found = fitting({name: [1_234_567] for name in names}, dict.fromkeys(names, "AbCdEfGhIjKlMnOpQrStUv"))
    assert (found is not None, found is not None and found.ids is not None) == (fits, ids_fit)
    ends, ids = found or (None, None)
    wish = PauseWish("cut", None, True, "mirror failover", 1, is_cut=True, log_ends=ends, log_ids=ids)
    assert PauseWish.of(None, wish.content(), is_cut=True) == wish
    (batch,) = side_batches(stamped([pause_record(wish)], None, 1))
    assert len(batch) < MOST_MESSAGE_BYTES
