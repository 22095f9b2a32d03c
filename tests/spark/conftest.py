from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mirror.spark import spark_session

# Compiling a plan takes a second, and pays from millions of rows on; histories in tests have a dozen.
_FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark for all tests of the session."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session = spark_session("tests", "local[2]", settings=_FOR_FEW_ROWS, log_path=log)
    yield session
    session.stop()
