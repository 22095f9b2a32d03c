"""The report of a run: one HTML page that needs nothing else, to be read first and to be kept.

`summarise` decides what is said (pure, over `Evidence`); the template decides how it looks. Pictures are inline SVG
(`mirror.evidence.pictures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mirror.drill.judgement import Judgement, judge
from mirror.evidence.facts import Json
from mirror.evidence.journal import Event, JournalReading
from mirror.evidence.pages import page_templates
from mirror.evidence.pictures import picture
from mirror.evidence.plots import (
    TimelineMark,
    flows,
    lag_plot,
    rto_chain_plot,
    timeline_marks,
    timeline_plot,
)
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_evidence import Evidence, read_evidence
from mirror.evidence.run_model import Totals
from mirror.model.counts import counted
from mirror.model.verdict import Verdict
from mirror.recovery.steps import NOT_TAKEN_BACK

_TEMPLATES = Path(__file__).parent / "templates"
_MINUS = "\N{MINUS SIGN}"
_MOST_EXAMPLES = 20
_MOST_PARTITIONS = 24
_MOST_TAMPERED = 3
_BEGUN = "begun; nothing is on record of how it ended"
_AGREED_FACTS = frozenset(
    {"clusters", "versions", "totals", "findings", "rehearsed", "rpo", "rto_chain", "account", "partitions"}
)


@dataclass(frozen=True, slots=True)
class Card:
    """One figure at the top of the page.

    Attributes
    ----------
    tone
        ``good``, ``bad`` or ``plain``; ``absent`` when it was not measured.
    """

    title: str
    value: str
    unit: str
    notes: tuple[str, ...]
    tone: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What the page says above its details."""

    judgement: Judgement
    headline: str
    sentences: tuple[str, ...]
    objectives: tuple[Card, ...]
    totals: tuple[Card, ...]


def write_report(run: RunDirectory) -> tuple[Path, Judgement]:
    """Write ``report.html`` of a run, finished or not; return its path, and how the run was judged.

    Raises
    ------
    FactError
        when ``run.json`` cannot be read; any other missing or damaged evidence is named on the page.
    """
    evidence = read_evidence(run)
    run.report.write_text(render_report(evidence), encoding="utf-8")
    return run.report, judge(evidence)


def render_report(evidence: Evidence) -> str:
    """Return the page."""
    templates = page_templates(_TEMPLATES)
    templates.filters.update(
        count=_count, seconds=_seconds, size=_size, clock=_clock, moment=_moment, relative=_relative, value=_value
    )
    page = templates.get_template("report.html.j2")
    cuts = list(evidence.failover.partitions) if evidence.failover else []
    if len(cuts) > _MOST_PARTITIONS:
        cuts.sort(key=lambda cut: -cut.stranded_records)
    return page.render(
        evidence=evidence,
        summary=summarise(evidence),
        timeline=picture("timeline", "Steps and events over time", timeline_plot(evidence)),
        marks=timeline_marks(evidence),
        lags=[
            picture(f"lag-{index}", f"Lag of {flow}", lag_plot(evidence, flow))
            for index, flow in enumerate(flows(evidence))
        ],
        chain=picture("chain", "RTO chain", rto_chain_plot(evidence)),
        cuts=cuts[:_MOST_PARTITIONS],
        other_cuts=cuts[_MOST_PARTITIONS:],
        examples=evidence.findings[:_MOST_EXAMPLES],
        single_facts=_single_facts,
        procedures=[(each.path.relative_to(evidence.run.path), _taken(each)) for each in evidence.procedures],
        files=_files(evidence.run),
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """A step of a procedure as its journal has it: carried out, or taken back, where there was anything to be."""

    at_ms: int
    name: str
    verdict: Verdict | None = None
    seconds: float | None = None
    detail: str = ""


def _taken(journal: JournalReading) -> list[Taken]:
    """Return what came of the steps of a procedure, as its journal goes; one that was cut off has no verdict."""
    rows: list[Taken] = []
    for entry in journal.entries:
        if entry.event is Event.STEP_STARTED:
            rows.append(Taken(entry.at_ms, str(entry.step), detail=_BEGUN))
        elif entry.event is Event.STEP_FINISHED:
            found = Verdict(str(entry.facts["verdict"])), entry.facts.get("seconds"), str(entry.facts.get("detail", ""))
            if rows and (rows[-1].name, rows[-1].detail) == (entry.step, _BEGUN):
                rows.pop()
            rows.append(Taken(entry.at_ms, str(entry.step), *found))
        elif entry.event is Event.STEP_UNDONE:
            verdict, detail = entry.facts.get("verdict"), entry.facts.get("detail", "")
            rows.append(
                Taken(
                    entry.at_ms,
                    str(entry.step),
                    None if verdict is None else Verdict(verdict),
                    entry.facts.get("seconds"),
                    f"taken back{detail and f': {detail}'}",
                )
            )
        elif entry.event is Event.NOTE and NOT_TAKEN_BACK in entry.facts:
            detail = f"not taken back: {entry.facts[NOT_TAKEN_BACK]}"
            rows.append(Taken(entry.at_ms, str(entry.step), Verdict.FAIL, detail=detail))
    return rows


def summarise(evidence: Evidence) -> Summary:
    """Decide what the page says first: verdict, headline, the few sentences below it, and the figures."""
    judgement = judge(evidence)
    ended = {Verdict.PASS: "passed", Verdict.FAIL: "failed", Verdict.UNKNOWN: "not proven"}[judgement.verdict]
    headline = f"{evidence.settings.title}: {ended}"
    if judgement.tampered:
        headline += ", and its evidence is not as the run left it"
    return Summary(
        judgement=judgement,
        headline=headline,
        sentences=_sentences(evidence, judgement),
        objectives=_objective_cards(evidence),
        totals=_total_cards(evidence),
    )


def _sentences(evidence: Evidence, judgement: Judgement) -> tuple[str, ...]:
    messages = [f"Not as the run left it: {each}." for each in judgement.tampered[:_MOST_TAMPERED]]
    if len(judgement.tampered) > len(messages):
        messages.append(f"So are {len(judgement.tampered) - len(messages)} more, below.")
    failover, failback, totals = evidence.failover, evidence.failback, evidence.totals
    if failover and failover.rpo:
        rpo = failover.rpo
        if rpo.records:
            messages.append(
                f"At the fault {_count(rpo.records)} acknowledged records ({_size(rpo.bytes)}, reaching back "
                f"{_seconds(rpo.seconds)}) had not arrived on the standby."
            )
        else:
            messages.append("At the fault every acknowledged record had arrived on the standby.")
    if failover and failover.rto_seconds is not None:
        messages.append(
            f"Applications were writing and reading again {_seconds(failover.rto_seconds)} after the fault."
        )
    if totals and totals.lost is not None:
        messages.append(
            "No acknowledged record was lost."
            if not totals.lost
            else f"{_count(totals.lost)} acknowledged records are lost."
        )
    if failback and failback.adds_up and failback.balances:
        messages.append(
            f"The account balances: all {_count(failback.acked_records)} acknowledged records are accounted for."
        )
    messages.extend(_rehearsal_sentences(evidence))
    if judgement.verdict is not Verdict.PASS:
        messages.extend(_return_sentences(evidence))
    if not messages and judgement.verdict is Verdict.PASS:
        messages.append("Every step met its objectives.")
    return tuple(messages)


def _return_sentences(evidence: Evidence) -> list[str]:
    """Say whether the point of no return of a step that somebody has agreed to was crossed, and how to go back.

    What the run itself has on record is that somebody has agreed; a procedure has its own journal, and an exercise
    brings its fault about behind that.
    """
    agreed = [entry for entry in evidence.journal.entries if entry.event is Event.POINT_OF_NO_RETURN]
    if not agreed:
        return []
    entries = [entry for each in evidence.procedures for entry in each.entries]
    is_crossed = any(entry.event is Event.POINT_OF_NO_RETURN for entry in entries)
    is_crossed |= any(entry.event is Event.FAULT_INJECTED for entry in evidence.journal.entries)
    if is_crossed:
        back = [f"The way back: {entry.facts['undo']}." for entry in agreed[-1:] if "undo" in entry.facts]
        return ["The point of no return had been crossed.", *back]
    return ["The point of no return was not crossed." if entries else "Nothing was begun."]


def _rehearsal_sentences(evidence: Evidence) -> list[str]:
    """Say what a test failover showed of all groups together."""
    rehearsed = evidence.rehearsed
    if not rehearsed:
        return []
    passed = sum(each.verdict is Verdict.PASS for each in rehearsed)
    skipped, again = sum(each.skipped for each in rehearsed), sum(each.read_again[1] for each in rehearsed)
    firsts = [each.seconds_to_first for each in rehearsed if each.seconds_to_first is not None]
    messages = [f"{_count(passed)} of {counted(len(rehearsed), 'group')} would have gone on where they stood."]
    messages.append(
        f"{counted(skipped, 'record') if skipped else 'No record'} would have been skipped, "
        f"{'at most ' + _count(again) if again else 'none'} read again."
    )
    if firsts:
        messages.append(f"The slowest group was handed its first record after {_seconds(max(firsts))}.")
    return messages


def _objective_cards(evidence: Evidence) -> tuple[Card, ...]:
    failover = evidence.failover
    if failover is None:
        return ()
    cards: list[Card] = []
    rpo = failover.rpo
    if rpo is None:
        cards.append(Card("RPO achieved", "not measured", "", (), "absent"))
    else:
        notes = [f"{counted(rpo.records, 'record')}, {_size(rpo.bytes)}"]
        met = True
        if rpo.objective_seconds is not None:
            met = met and rpo.seconds <= rpo.objective_seconds
            notes.append(f"objective {rpo.objective_seconds:g} s")
        if rpo.objective_records is not None:
            met = met and rpo.records <= rpo.objective_records
            notes.append(f"objective {counted(rpo.objective_records, 'record')}")
        has_objective = rpo.objective_seconds is not None or rpo.objective_records is not None
        value, unit = _split(_seconds(rpo.seconds))
        cards.append(Card("RPO achieved", value, unit, tuple(notes), _tone(met, has_objective)))
    rto = failover.rto_seconds
    if rto is None:
        cards.append(Card("RTO achieved", "not measured", "", (), "absent"))
    else:
        objective = failover.rto_objective_seconds
        notes = ["from the fault to every group reading new records"]
        if objective is not None:
            notes.append(f"objective {objective:g} s")
        value, unit = _split(_seconds(rto))
        cards.append(
            Card(
                "RTO achieved",
                value,
                unit,
                tuple(notes),
                _tone(objective is None or rto <= objective, objective is not None),
            )
        )
    return tuple(cards)


def _total_cards(evidence: Evidence) -> tuple[Card, ...]:
    totals = evidence.totals or Totals()
    shown: list[tuple[str, int | None, str, bool | None]] = [
        ("acked", totals.acked, "records that a cluster acknowledged", None),
        ("mirrored", totals.mirrored, "of those, found on the target", None),
        ("stranded", totals.stranded, "acknowledged, cut off by the fault, brought back later", None),
        ("lost", totals.lost, "acknowledged and nowhere", True),
        ("duplicated", totals.duplicated, "there more than once", False),
    ]
    shown += [
        (name, number, note, must)
        for name, number, note, must in (
            ("reordered", totals.reordered, "out of order within a partition", False),
            ("altered", totals.altered, "content differs", True),
            ("indeterminate", totals.indeterminate, "sent, neither acknowledged nor refused", None),
        )
        if number is not None
    ]
    return tuple(_total_card(*row) for row in shown) if evidence.totals or evidence.failover else ()


def _total_card(title: str, number: int | None, note: str, wanted_zero: bool | None) -> Card:
    if number is None:
        return Card(title, "–", "", ("not measured",), "absent")  # noqa: RUF001 - a dash, as typeset
    tone = "plain"
    if wanted_zero is not None:
        tone = "good" if number == 0 else "bad" if wanted_zero else "plain"
    return Card(title, _count(number), "", (note,), tone)


def _tone(met: bool, has_objective: bool) -> str:
    return "plain" if met and not has_objective else "good" if met else "bad"


def _single_facts(facts: Mapping[str, Json]) -> list[tuple[str, Json]]:
    """Return those facts of a step that are a single value and that no other part of the page shows."""
    return [
        (name.replace("_", " "), value)
        for name, value in facts.items()
        if name not in _AGREED_FACTS and isinstance(value, bool | int | float | str) and not name.endswith("_at_ms")
    ]


def _files(run: RunDirectory) -> list[tuple[str, str]]:
    """Return the evidence that is there, as (path in the run directory, what it is)."""
    known = (
        (run.run_json, "what was started: steps, parameters, environment"),
        (run.journal.path, "what happened, in order; hash-chained, with the digests of what is named here"),
        (run.seal, "how long the journal was when the run was finished, and its last hash"),
        (run.lag, "samples of replication lag"),
        (run.mirror_properties, "the configuration the mirror ran from"),
        (run.outcomes, "verdict and facts of each step"),
        (run.ledger, "every send and every read, recorded outside the clusters"),
        (run.logs, "logs of the processes"),
    )
    there = [(path, what) for path, what in known if path.is_file() or (path.is_dir() and any(path.iterdir()))]
    return [(str(path.relative_to(run.path)), what) for path, what in there]


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def _size(size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size:.0f} bytes"


def _split(measured: str) -> tuple[str, str]:
    value, _, unit = measured.partition(" ")
    return (measured, "") if " " in unit else (value, unit)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def _relative(mark: TimelineMark, evidence: Evidence) -> str:
    """Return when a mark was, told from the fault, or from the run's start where there was none."""
    if evidence.fault is not None:
        return f"{(mark.at_ms - evidence.fault.from_ms) / 1000:+.1f} s".replace("-", _MINUS)
    return f"{(mark.at_ms - evidence.began_at_ms) / 1000:.1f} s"


def _value(value: Json) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return _count(value)
        case float():
            return f"{value:,.3f}".rstrip("0").rstrip(".")
        case _:
            return str(value)
