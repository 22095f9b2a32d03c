"""How verdicts combine: FAIL outweighs UNKNOWN, UNKNOWN outweighs PASS, and of nothing nothing is known."""

from __future__ import annotations

from itertools import permutations

from mirror.model.verdict import Verdict, worst

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


def test_the_worst_of_verdicts_in_whatever_order() -> None:
    for verdicts, expected in (
        ([PASS], PASS),
        ([PASS, PASS], PASS),
        ([PASS, UNKNOWN], UNKNOWN),
        ([PASS, FAIL], FAIL),
        ([UNKNOWN, FAIL], FAIL),
        ([PASS, UNKNOWN, FAIL], FAIL),
    ):
        assert {worst(each) for each in permutations(verdicts)} == {expected}


def test_no_verdict_at_all_is_no_pass() -> None:
    assert worst([]) is UNKNOWN
