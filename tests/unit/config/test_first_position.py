"""`auto.offset.reset` is what Java's consumer takes: each value here was tried with its ConsumerConfig of 4.3.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.definition import BadValue
from mirror.config.errors import ConfigError
from mirror.config.first_position import checked
from mirror.config.resolving import load
from tests.unit.config.files import flows_of

FILE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.mark.parametrize(
    "value",
    [
        *("earliest", "latest", "none", " latest "),
        *(
            f"by_duration:{each}"
            for each in ("PT1H", "P1D", "PT0S", "pt1h", "PT1.5S", "PT1H30M", "P1DT2H3M4.5S", "P-1DT25H")
        ),
    ],
)
def test_what_java_takes_is_taken(value: str) -> None:
    assert checked(value) == value.strip()


@pytest.mark.parametrize(
    "value",
    [
        *("", "LATEST", "smallest", "by_duration", "BY_DURATION:PT1H"),
        *(
            f"by_duration:{each}"
            for each in ("", "-PT1H", "PT-1H", "1h", "P", "P1DT", "P1W", "PT99999999999999999H", "PT-0.5S")
        ),
    ],
)
def test_what_java_refuses_is_refused(value: str) -> None:
    with pytest.raises(BadValue, match="it must be earliest, latest, none or by_duration:"):
        checked(value)


@pytest.mark.parametrize("key", ["A.consumer", "A->B.consumer", "A->B.source.consumer"])
def test_a_file_that_has_another_is_refused_by_its_key(tmp_path: Path, key: str) -> None:
    """It counted as earliest: all that there was got copied."""
    file = tmp_path / "mm2.properties"
    file.write_text(f"{FILE}{key}.auto.offset.reset = lastest\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}:5: {key}.auto.offset.reset: 'lastest' is not allowed; it must be ")


def test_white_space_around_it_does_not_count() -> None:
    (flow,) = flows_of("A->B", more="A.consumer.auto.offset.reset = latest \n")
    assert flow.auto_offset_reset == "latest"


@pytest.mark.parametrize(("value", "is_told"), [("latest", False), ("by_duration:P1D", True)])
def test_that_a_duration_is_none_here_is_told(tmp_path: Path, value: str, *, is_told: bool) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"{FILE}A.consumer.auto.offset.reset = {value}\n")
    told = [each for each in load(file).ignored if "auto.offset.reset" in each]
    assert bool(told) is is_told
    assert all("a partition without a position begins at its start" in each for each in told)
