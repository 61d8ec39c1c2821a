"""One Spark context for all tests that need a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from spark_job.engine.session import open_spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    """Return a local context with two cores."""
    context = open_spark({"spark.master": "local[2]"})
    yield context
    context.stop()
