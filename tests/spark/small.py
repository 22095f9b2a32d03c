"""Spark for histories of a dozen records, where compiling a plan takes longer than running it."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from mirror.spark import spark_session

# Compiling pays from millions of rows on.
_FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def small_spark(directory: Path) -> SparkSession:
    """The session of the tests; its log goes into a directory."""
    return spark_session("tests", "local[2]", settings=_FOR_FEW_ROWS, log_path=directory / "spark.log")
