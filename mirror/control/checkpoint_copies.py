"""Of which copy a checkpoint speaks: after the source or its copy was created anew, or the copy went back, of none.

A checkpoint names offsets, not the logs that they are of. So a flow keeps on record, beside its positions, from which
record of the checkpoints topic on the checkpoints of a partition are of the copy that there is now.

Invariants:

(a) A checkpoint does not say which logs its offsets are of. The state does: from which record of the checkpoints
    topic on they are of the present copy. Older ones are superseded by lower ones, also for groups that are gone, and
    no group is moved by them. Offsets of a checkpoints topic that was deleted, or truncated, begin lower again: then it
    goes on record anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mirror.control.flow_log import FlowTranslator
from mirror.model.checkpoint import Checkpoint, CheckpointedCopy, CopyId
from mirror.model.partition import TopicPartition
from mirror.model.translation import Bounded, Exact, NotMirrored


class CheckpointCopies:
    """Tells checkpoints of the present copies from those of earlier ones, by what a flow has on record."""

    def __init__(self, translator: FlowTranslator) -> None:
        """Go by what ``translator`` knows."""
        self._translator = translator

    def is_current(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is of the copy that there is now; where nothing is known of that, it is."""
        copy = self._copy(checkpoint.topic_partition)
        if copy is None:
            return True
        known = self._known(checkpoint.topic_partition)
        if known is None:
            # Nothing was put on record before this was: the copy that never began anew is the only one there was.
            return copy.incarnation == 0
        if not known.copy.is_same(copy):
            return False
        return checkpoint.offset is None or checkpoint.offset >= known.since

    def unrecorded(self, targets: Iterable[TopicPartition], since: int) -> list[CheckpointedCopy]:
        """Return what is to go on record before checkpoints of these partitions are written at ``since`` or behind."""
        found = []
        for target in sorted(set(targets)):
            copy, known = self._copy(target), self._known(target)
            if copy is not None and (known is None or not known.copy.is_same(copy) or known.since > since):
                found.append(CheckpointedCopy(target, copy, since))
        return found

    def lowered(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Return the checkpoint of the present copy that takes the place of one of an earlier copy.

        Where the source or the copy is the same one as before, the group goes on where both say that all before was
        read: at the lower position. Where neither is, it has read nothing. None if that cannot be known.
        """
        source = self._source(checkpoint.topic_partition)
        if source is None:
            return None
        copy, known = self._copy(checkpoint.topic_partition), self._known(checkpoint.topic_partition)
        was = known.copy if known else None
        is_new_source = bool(was and copy and not was.has_same_source(copy))
        is_new_target = bool(was and copy and not was.has_same_target(copy))
        upstream = self._translator.origin(source) if is_new_source else checkpoint.upstream
        again = self._translator.translate(source, upstream) if upstream is not None else NotMirrored()
        if upstream is None or not isinstance(again, Exact | Bounded):
            return None
        is_other = is_new_source and is_new_target
        downstream = again.downstream if is_other else min(again.downstream, checkpoint.downstream)
        return replace(checkpoint, upstream=upstream, downstream=downstream, offset=None)

    def _source(self, target: TopicPartition) -> TopicPartition | None:
        return self._translator.source_of(target)

    def _copy(self, target: TopicPartition) -> CopyId | None:
        source = self._source(target)
        return self._translator.copy_id(source) if source else None

    def _known(self, target: TopicPartition) -> CheckpointedCopy | None:
        return self._translator.forward.state.checkpointed.get(target)
