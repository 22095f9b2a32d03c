"""The verdict on a whole run: what its steps say, held against the evidence's own consistency."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.evidence.run_evidence import Evidence
from mirror.model.counts import counted
from mirror.model.verdict import Verdict, worst


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and why it is not PASS; no reasons when it is.

    Attributes
    ----------
    tampered
        what of the evidence is not as the run has left it; the reasons have it too.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    tampered: tuple[str, ...] = ()


def judge(evidence: Evidence) -> Judgement:
    """Judge a run.

    The worst of its steps (one that was not run is UNKNOWN), and beyond what the steps claim:

    * a record that is lost at the end is FAIL: no delivery mode tolerates loss;
    * an account that says it balances and does not add up is FAIL;
    * a recovery point or time beyond its objective is FAIL;
    * a journal whose chain is broken or that has no end, evidence that is not as it was sealed, or in another form than
      agreed, is at best UNKNOWN.
    """
    found: list[tuple[Verdict, str]] = []
    for step in evidence.steps:
        if step.outcome is None:
            found.append((Verdict.UNKNOWN, f"{step.settings.title}: not run"))
        elif step.verdict is not Verdict.PASS:
            because = step.outcome.reasons or ("no reason was given",)
            found.extend((step.verdict, f"{step.settings.title}: {each}") for each in because)
    if evidence.totals is not None and evidence.totals.lost:
        found.append((Verdict.FAIL, f"{evidence.totals.lost:,} acknowledged records are lost"))
    found.extend(_account(evidence))
    found.extend(_objectives(evidence))
    if evidence.journal.problem is None and not evidence.is_over:
        found.append((Verdict.UNKNOWN, "the run has not come to its end"))
    found.extend((Verdict.UNKNOWN, f"malformed evidence: {problem}") for problem in evidence.problems)
    if not evidence.steps:
        found.append((Verdict.UNKNOWN, "the run has no steps"))
    tampered = _tampered(evidence)
    known = {reason for step in evidence.steps if step.outcome for reason in step.outcome.reasons}
    found.extend((Verdict.UNKNOWN, each) for each in tampered if each not in known)
    if not found:
        return Judgement(Verdict.PASS, ())
    verdict = worst(verdict for verdict, _ in found)
    # What made the verdict comes first.
    reasons = sorted(found, key=lambda item: item[0] is not verdict)
    return Judgement(verdict, tuple(reason for _, reason in reasons), tampered)


def _tampered(evidence: Evidence) -> tuple[str, ...]:
    """Return what is not as the run has left it: its journal, those of the procedure's runs, and what is sealed."""
    broken = [f"the journal is not intact: {evidence.journal.problem}"] if evidence.journal.problem else []
    broken += [
        f"the journal of the procedure in {each.path.parent.name} is not intact: {each.problem}"
        for each in evidence.procedures
        if each.problem is not None
    ]
    return (*broken, *map(str, evidence.broken))


def _account(evidence: Evidence) -> list[tuple[Verdict, str]]:
    failback = evidence.failback
    if failback is None:
        return []
    if not failback.adds_up:
        message = f"{failback.accounted_records:,} of {failback.acked_records:,} acknowledged records are accounted for"
        return [(Verdict.FAIL, f"the account does not add up: {message}")]
    if not failback.balances:
        return [(Verdict.FAIL, "the account does not balance")]
    return []


def _objectives(evidence: Evidence) -> list[tuple[Verdict, str]]:
    failover = evidence.failover
    if failover is None:
        return []
    missed: list[tuple[Verdict, str]] = []
    rpo, rto = failover.rpo, failover.rto_seconds
    if rpo and rpo.objective_seconds is not None and rpo.seconds > rpo.objective_seconds:
        message = f"RPO of {rpo.seconds:.1f} s is beyond its objective of {rpo.objective_seconds:g} s"
        missed.append((Verdict.FAIL, message))
    if rpo and rpo.objective_records is not None and rpo.records > rpo.objective_records:
        message = f"RPO of {counted(rpo.records, 'record')} is beyond its objective of {rpo.objective_records:,}"
        missed.append((Verdict.FAIL, message))
    objective = failover.rto_objective_seconds
    if rto is not None and objective is not None and rto > objective:
        missed.append((Verdict.FAIL, f"RTO of {rto:.1f} s is beyond its objective of {objective:g} s"))
    return missed
