"""Spark for histories of a dozen records, where compiling a plan takes longer than running it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from mirror.spark import spark_session

_UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
_FOR_FEW_ROWS = {"spark.sql.shuffle.partitions": "2", **_UNCOMPILED}


def small_spark(directory: Path) -> SparkSession:
    """The session of the tests; its log goes into a directory."""
    return spark_session("tests", "local[2]", settings=_FOR_FEW_ROWS, log_path=directory / "spark.log")


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Have plans compiled meanwhile, as outside of tests: for a hundred thousand records that saves a fifth of the CPU."""
    for key, value in _COMPILED.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in _UNCOMPILED.items():
            spark.conf.set(key, value)
