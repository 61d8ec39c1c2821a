"""The process that Spark forks its Python workers from. It imports what tasks need once, before the fork.

Spark ends a worker after an idle minute; without this, the next one would import Arrow and PyIceberg again.
"""

from __future__ import annotations

from pyspark.daemon import manager

import spark_job.engine.spark_engine  # noqa: F401 (imported for the forked workers)

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]  # PySpark has no types for it
