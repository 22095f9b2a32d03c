"""Small tables that questions are asked with: which topics, which groups, which partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mirror.model.ledger import Column
from mirror.parts import arrow_schema


def small_table(spark: SparkSession, columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Return a handful of rows as a table that lives in the plan: made from Arrow, it costs no Python task."""
    schema = arrow_schema(columns)
    values: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(each, type=field.type) for each, field in zip(values, schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))
