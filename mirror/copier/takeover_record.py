"""What is recorded of a partition taken over from Java MirrorMaker: position, offset map, and how it was found."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.copier import resume
from mirror.copier.resume import Ends, Ready
from mirror.copier.takeover import Found
from mirror.copier.work import Handover, PartitionWork
from mirror.model.mm2_trace import Mm2Trace, Pair, safe_pairs
from mirror.model.offset_map import Run, SparseOffsetMap, runs_before, runs_from
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import Takeover, sparse_map_record


def taken(work: PartitionWork, trace: Mm2Trace, at: Pair, found: Found, ends: Ends, note: str) -> Ready:
    """Return where the copy goes on, and all that is to be recorded of it.

    Parameters
    ----------
    at
        where the match began; what Java MirrorMaker copied before is known by its syncs only.
    note
        what else there is to know of how it was found.
    """
    old = work.handover
    downstream = ends.target_end
    # Behind the place where it began MirrorMaker may have gone back before it.
    first = min([at, *(Pair(run.upstream, run.downstream) for run in found.runs[:1])])
    records: list[StateRecord] = []
    if old is None:
        runs, chunk, origin = found.runs, 0, first.upstream
        # Nothing that it could have copied before lies on the target.
        complete = first.downstream <= ends.target_start
        start, downstream_start = 0, ends.target_start
    else:
        runs, origin, complete = _continued(old, found.runs), old.position.origin, old.position.complete
        chunk = old.position.chunk
        start, downstream_start = old.position.upstream, old.position.downstream
        records += old.unwritten
    if (old is not None or not complete) and start < first.upstream:
        stretches = [tuple(pair for pair in each if pair.downstream >= downstream_start) for each in trace.stretches]
        pairs = safe_pairs([each for each in stretches if each], first)
        if old is not None:
            # A reader who has read all that we copied goes on behind it.
            pairs = (Pair(start - 1, downstream_start - 1), *(pair for pair in pairs if pair.upstream >= start))
        records.append(
            sparse_map_record(
                work.source, SparseOffsetMap(start, first.upstream, downstream_start, first.downstream, pairs)
            )
        )
    full, runs, chunk = resume.in_chunks(work.source, runs, chunk)
    position = Position(
        found.upstream,
        downstream,
        origin,
        complete,
        chunk,
        work.topic_id,
        work.target_id,
        target=work.target.topic,
        incarnation=old.position.incarnation if old else 0,
        compared=downstream,
    )
    report = Takeover(
        work.source,
        trace.position,
        found.upstream,
        downstream,
        downstream - at.downstream,
        downstream - at.downstream,
        found.records,
        found.doubled,
        found.foreign,
        found.gone,
        note,
    )
    records += (*full, position.record(work.source), report.record())
    beyond = sum(run.length for run in found.runs) if trace.position is None else _beyond(found.runs, trace.position)
    return Ready(Handover(position, runs, clean=True), tuple(records), beyond)


def _beyond(runs: Sequence[Run], position: int) -> int:
    """Return how many records the runs hold from an upstream offset on."""
    return sum(run.length for run in runs_from(runs, position))


def _continued(old: Handover, found: Sequence[Run]) -> tuple[Run, ...]:
    """Return the open chunk of our own map, continued with what was found behind it.

    Where MirrorMaker went back before our position, its later copies count, unless the map of the former ones is in
    chunks that are full already; those stay.
    """
    kept = old.runs
    if found and found[0].upstream < old.position.upstream:
        if kept and kept[0].upstream <= found[0].upstream:
            kept = runs_before(kept, found[0].upstream)
        else:
            found = runs_from(found, old.position.upstream)
    return (*kept, *found)
