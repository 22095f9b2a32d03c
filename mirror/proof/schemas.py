"""The tables of the ledger as Spark sees them: one `StructType` each, used by every reader and every test."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from mirror.model.ledger import COMMITS, LOGS, READS, SENDS, Column

_SPARK_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "binary": BinaryType(),
}


def spark_schema(columns: Sequence[Column]) -> StructType:
    """Return the Spark schema of a table of the ledger."""
    return StructType([StructField(name, _SPARK_TYPES[type_], nullable) for name, type_, nullable in columns])


SENDS_SCHEMA = spark_schema(SENDS)
READS_SCHEMA = spark_schema(READS)
COMMITS_SCHEMA = spark_schema(COMMITS)
LOGS_SCHEMA = spark_schema(LOGS)
