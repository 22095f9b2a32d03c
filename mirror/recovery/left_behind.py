"""What others have written to the standby of a flow that was failed over, and nobody copies back.

Applications that were moved write to topics of their own there, or under the old names where those are copied back.
One that writes into a copy instead, to an old name that the flow back does not select, or before that flow began with
``auto.offset.reset = latest``, has its records where the flow back leaves them out: behind a failback whoever reads on
the old cluster never sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirror.evidence.facts import Json
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.recovery.flow_ends import FlowEnds
from mirror.recovery.move import Move
from mirror.recovery.step_facts import named, positions_named, rows_of, stretches_named
from mirror.recovery.steps import Known, Result, Step
from mirror.recovery.stranded_files import next_directory, saved_whole

LEFT_BEHIND = "left behind"
_SAVED_UNTIL = "saved_until"


def left_behind_refusal(forward: FlowEnds, *, is_accepted: bool) -> str | None:
    """Return why no failback is possible yet; None: nobody else has written into the copies, or it is accepted.

    Raises
    ------
    KafkaProblem
        if the target does not answer.
    """
    found = {} if is_accepted else forward.not_copied_back()
    return _refused(forward, found) if found else None


def left_behind_step(move: Move, forward: FlowEnds, *, is_accepted: bool) -> Step:
    """Return the step that looks for such records, and saves them if somebody has said that they may stay there."""
    target = forward.flow.target

    def act(_: Known) -> Result:
        found = forward.not_copied_back()
        if found and not is_accepted:
            return Result(Verdict.FAIL, _refused(forward, found))
        untold = forward.untold_since_cut()
        verdict, limit = (Verdict.UNKNOWN, f"; {_doubted(forward, untold)}") if untold else (Verdict.PASS, "")
        if not found:
            rest = "else " if untold else ""
            message = f"all {rest}that others have written to {target} since {forward.flow} was cut is copied back"
            return Result(verdict, message + limit)
        directory = next_directory(move.directory / "left-behind")
        saved = saved_whole(lambda: move.ends.save_stretches(found, directory), target)
        if isinstance(saved, str):
            return Result(Verdict.FAIL, saved)
        stay = f"{named(stretches_named(found))} on {target} stay there"
        facts: dict[str, Json] = {
            "files": saved.rows(),
            _SAVED_UNTIL: rows_of({each: end for each, (_, end) in found.items()}),
        }
        return Result(verdict, f"{stay}, and nobody copies them; saved in {saved.directory}{limit}", facts)

    doing = f"look for what was written to {target} since {forward.flow} was cut, and is not copied back"
    return Step(LEFT_BEHIND, doing, act)


def with_none_left_since(look: Step, forward: FlowEnds) -> Step:
    """Return the last look before the applications are started, which fails where such a record came since."""

    def act(known: Known) -> Result:
        found = look.act(known)
        # It may be UNKNOWN for something else.
        if found.verdict is Verdict.FAIL:
            return found
        saved = positions_named(known.get(LEFT_BEHIND, {}), _SAVED_UNTIL)
        left = {
            each: (max(start, saved.get(each, start)), end) for each, (start, end) in forward.not_copied_back().items()
        }
        left = {each: (start, end) for each, (start, end) in left.items() if start < end}
        return Result(Verdict.FAIL, _refused(forward, left)) if left else found

    return replace(look, act=act)


def _doubted(forward: FlowEnds, untold: Mapping[TopicPartition, tuple[int, int]]) -> str:
    flow = forward.flow
    return (
        f"whether others have written {named(stretches_named(untold))} to {flow.target} before {flow} was cut or since "
        "is not known, and nobody copies it back: where these logs ended then is not on record (their leader was "
        "silent, an earlier version has made the cut, or somebody has ended it by hand: mirror resume). Look there, "
        "and have what is to be kept produced to a topic that is copied back"
    )


def _refused(forward: FlowEnds, found: Mapping[TopicPartition, tuple[int, int]]) -> str:
    flow = forward.flow
    return (
        f"others than {flow} have written to {flow.target} since it was cut, and nobody copies that back: "
        f"{named(stretches_named(found))}; these are copies of {flow}, topics that the flow back does not select, or "
        "what it left out when it began (auto.offset.reset = latest). Have whoever wrote it produce it to a topic that "
        "is copied back; with --leave-behind it is saved in the run's directory, and stays there"
    )
