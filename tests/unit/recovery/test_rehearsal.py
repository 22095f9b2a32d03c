"""Which gaps a test failover takes for the reason why a copy lacks records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.recovery import rehearsal

ORDERS = TopicPartition("orders", 0)


def test_a_gap_of_a_former_log_is_no_reason_why_the_copy_lacks_what_the_source_has_there_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unclean election has cut the log at 5: what has been written there since is to be copied.

    So is what the target had lost and the source still has.
    """
    state = FlowState()
    kinds = (GapKind.TRUNCATED, 5), (GapKind.RECREATED, 20), (GapKind.SKIPPED, 40), (GapKind.TARGET_LOST, 60)
    for kind, start in kinds:
        state.apply(*Gap(ORDERS, start, start + 10, "why", 1, kind, 3).record())
    known: list[object] = []
    monkeypatch.setattr(rehearsal, "judge", lambda *given: known.append(given[-1]))
    plan = cast(Any, SimpleNamespace(source=ORDERS, is_tried=False))
    handed = cast(Any, SimpleNamespace(records=()))
    nothing = cast(Any, None)
    rehearsal._judge_one(plan, handed, None, nothing, nothing, state, is_compacted=False, limits=nothing)
    assert known == [[(40, 50)]]
