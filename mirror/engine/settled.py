"""The positions that an engine marks when it stops: the next one need not look at what lies behind them.

Invariants:

(a) A clean stop marks its positions as settled, and the mark is taken away before anything more is copied: a restart
    reads nothing of what others have written. A partition that could not be fenced has none; the others' count all the
    same for the leader of the next term, by the term that stands with them. No mark counts where somebody has had the
    flow's producer since, by its epoch: of that term the state topic has lost all. While a partition rests its position
    passes by what others write, by log ends asked for when all of ours was acknowledged.
"""

from __future__ import annotations

from dataclasses import replace

from mirror.engine.flow_runtime import FlowRuntime
from mirror.model.state_record import StateRecord


def settled(runtime: FlowRuntime) -> list[StateRecord]:
    """Return the positions behind which nothing of ours lies, nor can arrive, marked so; once no task copies.

    A partition that could not be fenced yet, or where nothing refuses what arrives late, has no mark; that says
    nothing of the others.
    """
    with runtime.lock:
        if runtime.slots.known or not runtime.is_known or runtime.term is None:
            # What is committed in transactions is settled anyway.
            return []
        copies = runtime.copies()
        return [
            replace(handover.position, settled=True, settled_in=runtime.term).record(source)
            for source, handover in runtime.handovers.items()
            if handover.clean and handover.is_recorded and not runtime.late.concerns(runtime.copy_of(source, copies))
        ]
