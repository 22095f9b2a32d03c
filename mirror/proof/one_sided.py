"""Where the records lie that only one side of a partition has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.model.offset_ranges import MOST_RANGES, Range, Ranges


def ranges_of(singles: DataFrame) -> Mapping[tuple[int, str], Ranges]:
    """Return the ranges of each pair and kind; ``singles`` has a row a record: pair, what, offset."""
    of_one = Window.partitionBy("pair", "what")
    rows = (
        singles.withColumn("island", F.col("offset") - F.row_number().over(of_one.orderBy("offset")))
        .groupBy("pair", "what", "island")
        .agg(F.min("offset").alias("start"), F.max("offset").alias("last"), F.count("*").alias("records"))
        .withColumn("number", F.row_number().over(of_one.orderBy("start")))
        .withColumn("all", F.count("*").over(of_one))
        .where(F.col("number") <= MOST_RANGES)
        .orderBy("pair", "what", "number")
        .collect()
    )
    found: dict[tuple[int, str], Ranges] = defaultdict(Ranges)
    for row in rows:
        key = row["pair"], row["what"]
        more = Range(row["start"], row["last"] + 1, row["records"])
        found[key] = Ranges((*found[key].first, more), row["all"] - min(row["all"], MOST_RANGES))
    return found
