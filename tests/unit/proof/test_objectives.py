"""RPO and RTO, computed by hand beside the code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.failover_instants import FailoverInstants, RtoLink
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.objectives import Missing, Objectives, Rpo, compute_rpo, judge_objectives


def missing(partition: int, records: int, first_acked_at_ms: int | None) -> Missing:
    return Missing("east", TopicPartition("orders", partition), records, records * 100, first_acked_at_ms)


CHAIN = FailoverInstants(
    fault_at_ms=10_000,
    detected_at_ms=11_000,
    fenced_at_ms=11_500,
    cut_at_ms=13_000,
    offsets_applied_at_ms=14_000,
    first_write_at_ms=14_200,
    groups_reading_at_ms={"billing": 15_000, "audit": 16_000},
)


class TestRpo:
    def test_the_oldest_missing_record_of_any_partition_sets_the_seconds(self) -> None:
        """Partition 0 lacks records from 4 s before the fault on, partition 1 from 9 s before it."""
        rpo = compute_rpo([missing(0, 5, 6_000), missing(1, 2, 1_000)], fault_at_ms=10_000)

        assert rpo == Rpo(records=7, bytes=700, seconds=9.0)

    def test_nothing_missing_is_zero(self) -> None:
        assert compute_rpo([], fault_at_ms=10_000) == Rpo(0, 0, 0.0)
        assert compute_rpo([missing(0, 0, None)], fault_at_ms=10_000) == Rpo(0, 0, 0.0)

    def test_a_record_acked_after_the_fault_counts_and_takes_no_time(self) -> None:
        """Its acknowledgement was on the way when the broker died."""
        assert compute_rpo([missing(0, 1, 10_002)], fault_at_ms=10_000) == Rpo(1, 100, 0.0)


class TestRto:
    def test_the_links_are_as_long_as_the_chain(self) -> None:
        assert CHAIN.links == (
            RtoLink("detected", 1.0),
            RtoLink("fenced", 0.5),
            RtoLink("drained or cut", 1.5),
            RtoLink("offsets applied", 1.0),
            RtoLink("first accepted write", 0.2),
            RtoLink("every group reading new records", 1.8),
        )
        assert CHAIN.seconds == pytest.approx(6.0)

    def test_what_ran_side_by_side_takes_no_time_of_its_own(self) -> None:
        """The producers were let in before the groups' offsets were applied."""
        chain = replace(CHAIN, first_write_at_ms=13_500)

        assert [link.seconds for link in chain.links] == [1.0, 0.5, 1.5, 1.0, 0.0, 2.0]
        assert chain.seconds == pytest.approx(6.0)

    def test_the_slowest_group_ends_the_chain(self) -> None:
        assert CHAIN.all_groups_reading_at_ms == 16_000

    def test_a_group_that_never_reads_breaks_it(self) -> None:
        chain = replace(CHAIN, groups_reading_at_ms={"billing": 15_000, "audit": None})

        assert chain.seconds is None
        assert chain.links[-1].seconds is None

    def test_behind_a_broken_link_nothing_is_known(self) -> None:
        chain = replace(CHAIN, fenced_at_ms=None)

        assert [link.seconds for link in chain.links] == [1.0, None, None, None, None, None]

    def test_without_groups_it_is_not_known_that_all_groups_read(self) -> None:
        assert replace(CHAIN, groups_reading_at_ms={}).seconds is None


class TestObjectives:
    RPO = Rpo(records=7, bytes=700, seconds=9.0)

    def verdicts(self, objectives: Objectives, **measured: object) -> dict[str, Verdict]:
        arguments = {"rpo": self.RPO, "rto": CHAIN, **measured}
        return {each.name: each.verdict for each in judge_objectives(objectives, **arguments)}  # type: ignore[arg-type]

    def test_a_promise_is_kept_up_to_its_very_value(self) -> None:
        exact = Objectives(rpo_records=7, rpo_bytes=700, rpo_seconds=9.0, rto_seconds=6.0)
        tighter = Objectives(rpo_records=6, rpo_bytes=699, rpo_seconds=8.9, rto_seconds=5.9)

        assert set(self.verdicts(exact).values()) == {Verdict.PASS}
        assert set(self.verdicts(tighter).values()) == {Verdict.FAIL}

    def test_what_was_not_promised_is_not_judged(self) -> None:
        assert self.verdicts(Objectives(rpo_seconds=10)) == {"rpo_seconds": Verdict.PASS}

    def test_what_was_not_measured_is_unknown(self) -> None:
        said = self.verdicts(Objectives(rpo_records=1000, rto_seconds=1000), rpo=None, rto=None)

        assert said == {"rpo_records": Verdict.UNKNOWN, "rto_seconds": Verdict.UNKNOWN}

    def test_a_broken_chain_fails_once_it_was_watched_for_longer_than_promised(self) -> None:
        broken = replace(CHAIN, first_write_at_ms=None)
        promise = Objectives(rto_seconds=30)

        assert self.verdicts(promise, rto=broken, observed_until_ms=39_000) == {"rto_seconds": Verdict.UNKNOWN}
        assert self.verdicts(promise, rto=broken, observed_until_ms=41_000) == {"rto_seconds": Verdict.FAIL}
