"""A history on Spark says of every second what is found without Spark, partition by partition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from mirror.drill.steps import lag_analysis
from mirror.evidence.pictures import svg
from mirror.evidence.refusal import Refused
from mirror.history import analysis
from mirror.history.analysis import Findings, analyse, span_of
from mirror.history.backtest import Course, cost
from mirror.history.findings import episodes, speed
from mirror.history.kept import Bounds
from mirror.history.reading import read_history, sample_directory
from mirror.history.samples import SourceLog
from mirror.history.store import HistoryWriter
from mirror.model.cliff import Retention
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from tests.unit.history.builders import NOW_MS, Sample, partition, status

pytestmark = pytest.mark.spark

# Two partitions of one topic and one of another; the copy stands still from 20 to 40 s, the source is away at 60 s.
NUMBERS = {("audits", 0): 1, ("orders", 0): 5, ("orders", 1): 3}
LAST = 90


def ends_and_position(rate: int, second: int) -> tuple[int | None, int]:
    end = 100 + rate * second
    copied = 100 + rate * (20 if 20 <= second < 40 else second)
    return (None if 60 <= second < 70 else end), copied


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = tmp_path_factory.mktemp("history")
    writer = HistoryWriter(folder, Bounds())
    logs = {TopicPartition(*key): SourceLog(50, Retention(60_000, 1_000)) for key in NUMBERS}
    for second in range(LAST + 1):
        rows = (
            partition(number, position, end, topic=topic, lag_seconds=0.0)
            for (topic, number), rate in NUMBERS.items()
            for end, position in (ends_and_position(rate, second),)
        )
        writer.take(Sample(NOW_MS + 1000 * second, status(*rows), logs=logs if second == 0 else {}))
        writer.take(Sample(NOW_MS + 1000 * second, status(partition(end=999), flow=Flow("west", "east"))))
    writer.close()
    files = read_history(folder)
    assert analysis.flows_of(files) == ("east->west", "west->east")
    return analyse(spark, files, span_of(files.flows, "east->west"))


def test_every_second_costs_what_its_partitions_cost(found: Findings) -> None:
    when = np.arange(LAST + 1, dtype=float)
    each = []
    for rate in NUMBERS.values():
        ends, positions = zip(*(ends_and_position(rate, second) for second in range(LAST + 1)), strict=True)
        each.append(
            cost(Course(when, np.array(positions, float), np.array(ends, float), 0.0), when, found.span.longest_gap)
        )
    records, seconds = (np.array([one[column] for one in each]) for column in (0, 1))
    assert found.costs["at_ms"].tolist() == (NOW_MS + 1000 * when).astype(int).tolist()
    assert found.costs["records"].tolist() == np.nansum(records, axis=0).tolist()
    assert found.costs["unknown"].tolist() == np.isnan(seconds).sum(axis=0).tolist()
    is_known = found.costs["unknown"] == 0
    assert found.costs.loc[is_known, "seconds"].tolist() == seconds.max(axis=0)[is_known].tolist()
    assert (found.costs["records"].max(), found.costs["seconds"].max()) == (9 * 19, 19)
    assert 8 <= (found.costs["unknown"] == 3).sum() <= 10


def test_of_each_partition_the_worst_of_each_bucket_is_found(found: Findings) -> None:
    peaks = found.peaks.groupby(["topic", "partition"])[["records", "seconds"]].max()
    assert {key: tuple(row) for key, row in peaks.iterrows()} == {key: (19 * rate, 19) for key, rate in NUMBERS.items()}


def test_what_was_written_and_copied_is_found_by_minute(found: Findings) -> None:
    whole = found.minutes.groupby("topic")[["written", "copied"]].sum()
    # Counting begins with the last second of the first minute, in which the copy stands where it stood at 20 s.
    first = 59 - NOW_MS // 1000 % 60
    assert 20 <= first < 40
    assert tuple(whole.loc["orders"]) == (8 * (LAST - first), 8 * (LAST - 20))


def test_what_each_partition_keeps_is_found(found: Findings) -> None:
    rows = found.partitions.set_index(["topic", "partition"])
    assert rows["rate"].tolist() == [1.0, 5.0, 3.0]
    assert rows["kept"].tolist() == [50 + rate * LAST for rate in NUMBERS.values()]
    assert set(rows["retention_ms"]) == {60_000}
    assert set(rows["lag"]) == {0}


def test_the_last_hours_are_analysed_alone(spark: SparkSession) -> None:
    files = read_history(sample_directory())
    whole = span_of(files.flows, "east->west")
    last = span_of(files.flows, "east->west", hours=1 / 60)
    assert (last.until_ms, last.from_ms >= whole.until_ms - 60_000) == (whole.until_ms, True)
    assert len(analyse(spark, files, last).costs) <= 61


def test_the_sample_has_what_its_page_says(spark: SparkSession) -> None:
    """The target lost, an engine killed, the source lost: each is found, with its cause; and a burst."""
    files = read_history(sample_directory())
    assert files.torn == ()
    found = analyse(spark, files, span_of(files.flows, "east->west"))
    assert len(found.partitions) == 12
    bad = episodes(found, 5.0)
    told = " / ".join("; ".join(each.causes) for each in bad)
    assert "west" in "; ".join(bad[0].causes)
    assert bad[0].seconds > 55
    assert "another engine took the flow over (term 2)" in told
    assert any(not each.is_known for each in bad)
    assert speed(found.minutes).fastest > 2 * speed(found.minutes).written


@pytest.mark.long
def test_ones_own_folder_is_analysed_and_what_cannot_be_read_of_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    for path in sample_directory().iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / f"partitions-{NOW_MS:013d}-00000000.parquet").write_bytes(b"PAR1 and no more")
    analysed = lag_analysis.analyse(str(tmp_path), "", hours=0.0, step_seconds=1.0, rpo_seconds=5.0)
    assert f"Not read: partitions-{NOW_MS:013d}-00000000.parquet: torn" in str(lag_analysis.overview(analysed))
    with pytest.raises(Refused, match=r"knows no flow west->east; it knows east->west"):
        lag_analysis.analyse(str(tmp_path), "west->east", hours=0.0, step_seconds=1.0, rpo_seconds=5.0)
    drawn = (lag_analysis.lag, lag_analysis.heat_map, lag_analysis.disaster_costs)
    assert all("<svg" in svg(draw(analysed)) for draw in drawn)
    assert "clicks" in svg(lag_analysis.outage_picture(analysed, 2.0))
    assert "nothing would be deleted unread" in svg(lag_analysis.outage_picture(analysed, 0.1))
