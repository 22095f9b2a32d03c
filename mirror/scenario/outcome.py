"""What came of a run: its verdict, and the figures it rests on, as they are kept in ``verdict.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mirror.evidence.facts import Facts
from mirror.model.shadow import Forecast
from mirror.model.verdict import Verdict
from mirror.scenario.declaration import Judged, Replicator

Anomalies = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """What one group was handed: records it was to read, and how many went wrong.

    ``forecast`` is what was said of that just before the disaster; None where nothing was.
    """

    group: str
    records: int
    redelivered: int
    skipped: int
    unseen: int
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; None is not measured, or not asked.

    Attributes
    ----------
    acked
        records that a cluster acknowledged, by the ledger.
    anomalies
        by where they were found (`Judged`), those that were.
    told_losses, silent_losses, tail, uncopied
        see `mirror.proof.losses.MissingRecords`, over all copies.
    rpo_records, rpo_seconds, rto_seconds
        what the disaster cost.
    rto_links
        seconds by the name of the link, in order.
    transactions, torn_transactions
        committed ones, and those of which a copy holds a part.
    """

    acked: int = 0
    anomalies: Mapping[Judged, Anomalies] = field(default_factory=dict)
    told_losses: int = 0
    silent_losses: int = 0
    tail: int = 0
    uncopied: int = 0
    rpo_records: int | None = None
    rpo_seconds: float | None = None
    rto_seconds: float | None = None
    rto_links: tuple[tuple[str, float | None], ...] = ()
    transactions: int | None = None
    torn_transactions: int | None = None
    groups: tuple[GroupFigures, ...] = ()

    def anomaly(self, name: str, where: Judged = Judged.COPY) -> int:
        """Return how many records show an anomaly somewhere."""
        return self.anomalies.get(where, {}).get(name, 0)

    @property
    def redelivered(self) -> int:
        """Records that groups were handed more than once."""
        return sum(group.redelivered for group in self.groups)

    @property
    def skipped(self) -> int:
        """Records that groups were not handed, and passed."""
        return sum(group.skipped for group in self.groups)

    @property
    def forecast(self) -> Forecast | None:
        """What all groups together were said to be handed again, at most, and to skip; None unless said of each."""
        said = [group.forecast for group in self.groups if group.forecast is not None]
        if not said or len(said) < len(self.groups):
            return None
        return Forecast(sum(each.skipped for each in said), sum(each.read_again or 0 for each in said))


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run's verdict.

    Attributes
    ----------
    verdict
        of the run itself; a scenario with a defect has done its job when this is FAIL.
    reasons
        why it is not PASS.
    seconds
        how long the run took.
    beside
        how what was found differs from the defect that the scenario holds on purpose.
    """

    scenario: str
    replicator: Replicator
    seed: int
    verdict: Verdict
    reasons: tuple[str, ...]
    figures: Figures = Figures()
    seconds: float = 0.0
    must_fail: bool = False
    beside: tuple[str, ...] = ()

    @property
    def is_as_expected(self) -> bool:
        """Whether the verdict is the one this scenario is to have; of a defect, for that defect and nothing else."""
        return self.verdict is (Verdict.FAIL if self.must_fail else Verdict.PASS) and not self.beside

    @property
    def is_proof(self) -> bool:
        """Whether it says something about the replicator: it passed or failed."""
        return self.verdict is not Verdict.UNKNOWN

    @property
    def key(self) -> tuple[str, Replicator, int]:
        """What tells it from other runs of a series."""
        return self.scenario, self.replicator, self.seed

    def as_json(self) -> dict[str, Any]:
        """Return the form of ``verdict.json``."""
        figures = self.figures
        return {
            "scenario": self.scenario,
            "replicator": self.replicator.value,
            "seed": self.seed,
            "verdict": self.verdict.value,
            "must_fail": self.must_fail,
            "reasons": list(self.reasons),
            "beside": list(self.beside),
            "seconds": self.seconds,
            "acked": figures.acked,
            "anomalies": {where.value: dict(found) for where, found in figures.anomalies.items()},
            "told_losses": figures.told_losses,
            "silent_losses": figures.silent_losses,
            "tail": figures.tail,
            "uncopied": figures.uncopied,
            "rpo_records": figures.rpo_records,
            "rpo_seconds": figures.rpo_seconds,
            "rto_seconds": figures.rto_seconds,
            "rto_links": [{"name": name, "seconds": seconds} for name, seconds in figures.rto_links],
            "transactions": figures.transactions,
            "torn_transactions": figures.torn_transactions,
            "groups": [
                {
                    "group": group.group,
                    "records": group.records,
                    "redelivered": group.redelivered,
                    "skipped": group.skipped,
                    "unseen": group.unseen,
                    "forecast_redelivered": group.forecast.read_again if group.forecast else None,
                    "forecast_skipped": group.forecast.skipped if group.forecast else None,
                }
                for group in figures.groups
            ],
        }

    @classmethod
    def from_json(cls, document: Facts) -> RunOutcome:
        """Read ``verdict.json`` back.

        Raises
        ------
        FactError
            naming the file and key, if it is not one.
        """
        found = document.object("anomalies")
        return cls(
            scenario=document.text("scenario"),
            replicator=Replicator(document.text("replicator")),
            seed=document.integer("seed"),
            verdict=Verdict(document.text("verdict")),
            must_fail=document.flag("must_fail"),
            reasons=document.texts("reasons"),
            beside=document.texts("beside"),
            seconds=document.number("seconds"),
            figures=Figures(
                acked=document.integer("acked"),
                anomalies={
                    Judged(where): {name: found.object(where).integer(name) for name in found.object(where).values}
                    for where in found.values
                },
                told_losses=document.integer("told_losses"),
                silent_losses=document.integer("silent_losses"),
                tail=document.integer("tail"),
                uncopied=document.integer("uncopied"),
                rpo_records=document.optional_integer("rpo_records"),
                rpo_seconds=document.optional_number("rpo_seconds"),
                rto_seconds=document.optional_number("rto_seconds"),
                rto_links=tuple(
                    (link.text("name"), link.optional_number("seconds")) for link in document.objects("rto_links")
                ),
                transactions=document.optional_integer("transactions"),
                torn_transactions=document.optional_integer("torn_transactions"),
                groups=tuple(_group(each) for each in document.objects("groups")),
            ),
        )


def unknown(
    scenario: str, replicator: Replicator, seed: int, reasons: Sequence[str], *, seconds: float = 0.0, must_fail: bool
) -> RunOutcome:
    """Return the outcome of a run that proves nothing, and why."""
    return RunOutcome(scenario, replicator, seed, Verdict.UNKNOWN, tuple(reasons), seconds=seconds, must_fail=must_fail)


def _group(facts: Facts) -> GroupFigures:
    skipped = facts.optional_integer("forecast_skipped")
    return GroupFigures(
        facts.text("group"),
        facts.integer("records"),
        facts.integer("redelivered"),
        facts.integer("skipped"),
        facts.integer("unseen"),
        None if skipped is None else Forecast(skipped, facts.optional_integer("forecast_redelivered")),
    )
