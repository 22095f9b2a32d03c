"""A runbook is checked when it is written down; resuming follows rules that need no cluster to be tested."""

from __future__ import annotations

import pytest

from mirror.drill.runbook import Decision, Parameter, ParameterRefused, Runbook, plan_steps
from mirror.model.verdict import Verdict
from tests.unit.drill.builders import runbook, step

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN
BOOK = runbook(step("setup", point_in_time=True), step("verify"), step("drill", no_return=True), step("failback"))


def decided(verdicts: dict[str, Verdict], **options: tuple[str, ...]) -> list[str]:
    """Names of the steps that would be run."""
    return [item.step.name for item in plan_steps(BOOK, verdicts, **options) if item.decision is Decision.RUN]


def test_a_new_run_runs_every_step() -> None:
    assert decided({}) == ["setup", "verify", "drill", "failback"]


def test_a_resumed_run_goes_on_at_the_step_that_did_not_pass_and_renews_what_holds_only_for_a_time() -> None:
    assert decided({"setup": PASS, "verify": FAIL}) == ["setup", "verify", "drill", "failback"]
    assert decided({"setup": PASS, "verify": PASS, "drill": UNKNOWN}) == ["setup", "drill", "failback"]


def test_beyond_the_point_of_no_return_nothing_that_passed_is_run_again() -> None:
    """Setting up anew what the fault has just broken would destroy evidence."""
    verdicts = {"setup": PASS, "verify": PASS, "drill": PASS, "failback": UNKNOWN}

    assert decided(verdicts, crossed=("drill",)) == ["failback"]


def test_a_re_check_is_run_again_wherever_it_is() -> None:
    verdicts = {"setup": PASS, "verify": PASS, "drill": PASS, "failback": UNKNOWN}

    assert decided(verdicts, crossed=("drill",), recheck=("verify",)) == ["verify", "failback"]


def test_steps_after_one_that_has_not_passed_are_run_although_they_passed() -> None:
    """They were judged on another ground."""
    assert decided({"setup": PASS, "verify": FAIL, "drill": PASS}) == ["setup", "verify", "drill", "failback"]


def test_every_decision_has_a_reason() -> None:
    planned = plan_steps(BOOK, {"setup": PASS, "verify": PASS, "drill": FAIL})

    assert [item.reason for item in planned] == [
        "passed before, but its result may no longer hold",
        "passed before",
        "ended FAIL before",
        "comes after drill, which has not passed",
    ]


RATE = Parameter("rate", 2000, "records/s", "rate")
LOAD = Parameter("load_seconds", 15.0, "s", "load")
FENCE = Parameter("fence", True, "", "fence")
NAMED = Parameter("topic", "orders", "", "topic")


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [(RATE, "1_000", 1000), (LOAD, "3", 3.0), (FENCE, "False", False), (NAMED, "a=b", "a=b")],
)
def test_a_parameter_is_read_as_its_default_s_type(parameter: Parameter, text: str, value: object) -> None:
    assert parameter.parse(text) == value
    assert type(parameter.parse(text)) is type(value)


@pytest.mark.parametrize(
    ("parameter", "text", "said"),
    [
        (RATE, "fast", "a whole number"),
        (RATE, "1.5", "a whole number"),
        (LOAD, "", "a number"),
        (FENCE, "1", "true or false"),
    ],
)
def test_a_value_of_another_type_is_refused(parameter: Parameter, text: str, said: str) -> None:
    with pytest.raises(ParameterRefused, match=f"{parameter.name}: expected {said}"):
        parameter.parse(text)


def with_rate() -> Runbook:
    taking = step("load")
    return runbook(
        type(taking)(**{name: getattr(taking, name) for name in taking.__slots__} | {"parameters": ("rate",)}),
        parameters=(RATE,),
    )


def test_an_unknown_parameter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterRefused, match="no parameter 'rte'; it has rate"):
        with_rate().parse(["rte=5"])
    with pytest.raises(ParameterRefused, match="NAME=VALUE"):
        with_rate().parse(["rate"])
    with pytest.raises(ParameterRefused, match="expected int"):
        with_rate().values({"rate": "5"})


def test_values_are_the_defaults_with_what_was_given() -> None:
    assert with_rate().values({}) == {"rate": 2000}
    assert with_rate().values(with_rate().parse(["rate=5"])) == {"rate": 5}


def test_a_runbook_that_could_not_be_run_is_refused_when_it_is_written_down() -> None:
    with pytest.raises(ValueError, match="step 'setup' is there more than once"):
        runbook(step("setup"), step("setup"))
    with pytest.raises(ValueError, match="parameter 'rate' reaches no step"):
        runbook(step("setup"), parameters=(RATE,))
