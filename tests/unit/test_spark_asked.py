"""What Spark raises while it is asked something is told in one line; what others raise stays what it is."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from mirror import spark
from mirror.no_spark import SparkFailed
from mirror.recovery.verify import verify_flow
from mirror.waiting import WaitTimeout

TRACE = "An exception was thrown:\n  File x\nmirror.kafka.problems.LeaderUnknown: orders-0\n\tat java.lang.Thread"


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(spark, "end_spark", lambda: found.append("ended"))
    return found


@pytest.mark.parametrize("error", [PySparkException(TRACE), Py4JError(TRACE)])
def test_what_spark_could_not_do_is_named_with_its_reason(
    error: Exception, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "spark_answers", lambda: True)
    with (
        pytest.raises(SparkFailed, match=r"^comparing: Spark could not do it: mirror.kafka.problems.LeaderUnknown: "),
        spark.spark_asked("comparing"),
    ):
        raise error
    assert ended == []


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), EOFError()])
def test_a_spark_that_is_lost_is_ended_so_that_the_next_question_starts_another(
    error: Exception, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "spark_answers", lambda: False)
    with pytest.raises(SparkFailed, match=r"^comparing: Spark's JVM has ended"), spark.spark_asked("comparing"):
        raise error
    assert ended == ["ended"]


@pytest.mark.parametrize("error", [WaitTimeout("waited"), FileNotFoundError("compared.json"), ValueError("a defect")])
def test_what_is_not_spark_s_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)), spark.spark_asked("comparing"):
        raise error


def test_a_comparison_in_which_spark_is_lost_says_so(ended: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "spark_answers", lambda: False)

    class Gone:
        @property
        def flow(self) -> str:
            raise Py4JNetworkError

    with pytest.raises(SparkFailed, match="comparing the copies"):
        verify_flow(Gone(), {})  # type: ignore[arg-type]
    assert ended == ["ended"]
