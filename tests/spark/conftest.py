from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.small import small_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark for all tests of the session."""
    session = small_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
