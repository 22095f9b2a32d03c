"""What is written beside the data, and what of it the data waits for."""

from __future__ import annotations

import pytest

from mirror.model import connect_offsets
from mirror.model.partition import TopicPartition
from tests.unit.copier.test_commits import Copied
from tests.unit.copier.test_transactions import INVALID_RECORD, Target

SYNCS = TopicPartition("syncs", 0)


@pytest.mark.parametrize("answer", [None, INVALID_RECORD], ids=["not answered", "refused"])
def test_no_transaction_waits_for_an_offset_sync_or_is_lost_for_it(answer: int | None) -> None:
    """It is written beside the transaction, of what the one before has committed (OSW-07)."""
    target = Target()
    target.take(0, 0)
    target.commit()
    target.answers[SYNCS] = answer
    target.transactions.commits.emit_syncs(target.lanes)
    target.turn()
    assert SYNCS in {stream.partition for stream in target.streams}
    target.now += 1.0
    target.take(0, 1)
    target.commit()
    assert target.transactions.lost is None
    assert target.upstream() == 2


def test_mirrormaker_has_a_position_from_the_first_record_on() -> None:
    """It writes the offset of the last record that is copied, not of the next."""
    copied = Copied()
    copied.copy(1)
    copied.commit()
    assert copied.upstream_sent() == 1
    copied.answer(copied.commits.work.state_topic)
    (written,) = copied.sent(copied.commits.work.offsets_topic)
    found = connect_offsets.read_source_positions([(written.key, written.value)], "east")
    assert list(found.values()) == [1]
