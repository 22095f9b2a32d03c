"""Step 3: the copy is compared with its source, record by record, while the load goes on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from mirror.drill.steps.stage import DrillStage
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_model import Factual, Finding
from mirror.lab.faults import remove_first_records
from mirror.model.absences import AbsenceKind
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.proof.comparison import Equivalence
from mirror.proof.left_out import unchecked
from mirror.recovery.verify import verify_flow

__all__ = ["STEP", "compare", "conclude", "seed_loss", "table"]

STEP = "verify"


def seed_loss(stage: DrillStage, records: int) -> str:
    """Delete the first records of one copied partition on the standby, if any are asked for; say what was done."""
    if not records:
        return "no loss is seeded"
    partition = TopicPartition(stage.remote(stage.topics[0]), 0)
    remove_first_records(stage.cluster(stage.standby).bootstrap_servers, partition, records)
    facts = {
        "cluster": stage.standby,
        "topic": partition.topic,
        "partition": partition.partition,
        "removed_records": records,
    }
    stage.run.journal.append(Event.ACTION, step=STEP, facts=facts)
    removed = f"{counted(records, 'record')} {'was' if records == 1 else 'were'} removed"
    return f"{removed} from the start of {partition} on {stage.standby}: this step must FAIL"


def compare(stage: DrillStage, flow: Flow | None = None, remember: Path | None = None) -> Equivalence:
    """Compare a flow's copies with their sources up to where it stands now; without one, that which is failed over.

    What the file ``remember`` says is equal is left out, and what was found so is written to it.
    """
    chosen, settings = stage.flow(flow or stage.forward), stage.settings
    return stage.judge(verify_flow, chosen, settings.clusters, settings.enabled_flows, remember=remember)


def table(comparison: Equivalence) -> pd.DataFrame:
    """Return a row a partition."""
    columns = ["topic", "partition", "records", "missing", "extra", "altered", "reordered", "cleaned", "verdict"]
    return pd.DataFrame(comparison.as_json()["partitions"], columns=columns)


def differences(comparison: Equivalence) -> list[Finding]:
    """Return the first difference of every partition that has one, located."""
    return [
        Finding(
            kind=str(pair.first_difference.what),
            topic=pair.source.topic,
            partition=pair.source.partition,
            record_offset=pair.first_difference.upstream_offset,
            note=pair.first_difference.detail,
        )
        for pair in comparison.partitions
        if pair.first_difference is not None
    ]


def reasons(comparison: Equivalence, flow: Flow) -> tuple[str, ...]:
    """Return, in words, what the verdict on a flow rests on."""
    wrong = [pair for pair in comparison.partitions if pair.first_difference is not None or pair.problem is not None]
    not_checked = tuple(f"{flow} {each}" for each in unchecked(comparison.left_out))
    if not wrong and not not_checked:
        absent = sum(
            pair.absent(kind) for pair in comparison.partitions for kind in (AbsenceKind.PARKED, AbsenceKind.GAP)
        )
        cleaned = sum(pair.cleaned.records for pair in comparison.partitions)
        without_copy = absent + sum(pair.cleaned.target for pair in comparison.partitions)
        records = sum(pair.records for pair in comparison.partitions) - without_copy
        known = f"; {absent} more are parked, or in gaps on record" if absent else ""
        known += f"; the log cleaner has removed {cleaned} more from one side" if cleaned else ""
        compared = counted(len(comparison.partitions), "partition")
        return (f"{flow}: all {counted(records, 'record')} of {compared} are equal on both sides{known}",)
    differing = tuple(
        f"{flow} {pair.source}: {pair.problem}"
        if pair.problem
        else f"{flow} {pair.source}: {pair.missing} missing, {pair.extra} extra, {pair.altered} altered, "
        f"{pair.reordered} reordered of {pair.records} records"
        for pair in wrong
    )
    return differing + not_checked


def conclude(stage: DrillStage, comparison: Equivalence) -> None:
    """Write the outcome: PASS when nothing differs."""
    facts: Factual = {
        "compared_records": sum(pair.records for pair in comparison.partitions),
        "partitions_compared": len(comparison.partitions),
        "findings": differences(comparison),
    }
    stage.conclude(Outcome(STEP, comparison.verdict, facts, reasons(comparison, stage.forward)))
