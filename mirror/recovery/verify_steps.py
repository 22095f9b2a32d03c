"""A copy compared with its source in two parts: what is there while the applications go on, the rest behind the stop.

What was found equal is on record in the directory of the run, in the form of ``mirror verify --remember``
(`mirror.proof.verified_ranges`): of each partition up to which offsets, of which topics by their ids, and the last
batches that were compared. Behind the stop only what is not on record, or is not there any more as it was, is compared.
"""

from __future__ import annotations

from pathlib import Path

from mirror.model.verdict import Verdict
from mirror.recovery.flow_ends import FlowEnds
from mirror.recovery.step_facts import named
from mirror.recovery.steps import Known, Result, Step

VERIFY_SO_FAR, VERIFY = "verify so far", "verify"
RECORD = "compared.json"


def verify_so_far_step(ends: FlowEnds, directory: Path) -> Step:
    """Return the step that compares what is copied already, and starts all that is needed for it: nothing waits for it.

    A difference ends the run before anything is stopped. What cannot be compared now is compared behind the stop.
    """
    source, target = ends.flow.source, ends.flow.target

    def act(_: Known) -> Result:
        found = _compared(ends, directory / RECORD)
        if found.verdict is not Verdict.UNKNOWN:
            return found
        return Result(
            Verdict.PASS, f"not all of it could be compared yet, and is once more behind the stop: {found.detail}"
        )

    doing = f"compare what {target} has by then with {source} while the applications go on; on record in {RECORD}"
    return Step(VERIFY_SO_FAR, doing, act)


def verify_step(ends: FlowEnds, directory: Path) -> Step:
    """Return the step that compares the copy with its source; what is not compared proves nothing.

    What :func:`verify_so_far_step` has on record in the directory is not compared again, as long as it is as it was.
    """
    record = directory / RECORD

    def act(_: Known) -> Result:
        found = _compared(ends, record if record.exists() else None)
        if found.verdict is not Verdict.PASS:
            return Result(Verdict.FAIL, found.detail)
        left = ends.uncopied_of_deselected()
        return Result(Verdict.UNKNOWN if left else Verdict.PASS, "; ".join((found.detail, *left)))

    return Step(VERIFY, f"compare {ends.flow.target} with {ends.flow.source}, record by record where need be", act)


def _compared(ends: FlowEnds, record: Path | None) -> Result:
    if gaps := ends.copied().open_gaps:
        unacknowledged = f"gaps not acknowledged (mirror gaps FILE --acknowledge): {named(gaps)}"
        return Result(Verdict.FAIL, f"the copy has {unacknowledged}")
    verdict, detail = ends.verify(record)
    return Result(verdict, detail if verdict is Verdict.PASS else f"{verdict}: {detail}")
