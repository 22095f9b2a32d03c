"""What came of a run: its verdict, and the figures it rests on, as they are kept in ``verdict.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror.evidence.facts import Facts, Json, plain_object
from mirror.model.failover_instants import RtoLink
from mirror.model.shadow import Forecast
from mirror.model.verdict import Verdict
from mirror.scenario.declaration import Judged, Replicator

Anomalies = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """What one group was handed: records it was to read, and how many went wrong.

    What was said of that just before the disaster is its forecast; None where nothing was.
    """

    group: str
    records: int
    redelivered: int
    skipped: int
    unseen: int
    forecast_redelivered: int | None = None
    forecast_skipped: int | None = None

    @property
    def forecast(self) -> Forecast | None:
        """What was said of it."""
        return None if self.forecast_skipped is None else Forecast(self.forecast_skipped, self.forecast_redelivered)


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
        in order.
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
    rto_links: tuple[RtoLink, ...] = ()
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
        forecasts = [group.forecast for group in self.groups if group.forecast is not None]
        if not forecasts or len(forecasts) < len(self.groups):
            return None
        return Forecast(sum(each.skipped for each in forecasts), sum(each.read_again or 0 for each in forecasts))


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
    must_fail: bool = field(default=False, kw_only=True)
    reasons: tuple[str, ...]
    beside: tuple[str, ...] = field(default=(), kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)
    figures: Figures = Figures()

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

    def as_json(self) -> dict[str, Json]:
        """Return the form of ``verdict.json``: figures stand beside the rest."""
        document = plain_object(self)
        document.pop("figures")
        return document | plain_object(self.figures)

    @classmethod
    def from_json(cls, document: Facts) -> RunOutcome:
        """Read ``verdict.json`` back.

        Raises
        ------
        FactError
            naming the file and key, if it is not one.
        """
        return replace(document.read(cls), figures=document.read(Figures))


def unknown(
    scenario: str, replicator: Replicator, seed: int, reasons: Sequence[str], *, seconds: float = 0.0, must_fail: bool
) -> RunOutcome:
    """Return the outcome of a run that proves nothing, and why."""
    return RunOutcome(scenario, replicator, seed, Verdict.UNKNOWN, tuple(reasons), seconds=seconds, must_fail=must_fail)
