"""The process that Spark forks its Python workers from, with what the tasks need imported once, before the fork.

Spark ends workers that were idle for a minute; the next one would import Arrow and PyIceberg again.
"""

from __future__ import annotations

from pyspark.daemon import manager

import spark_job.runtime.engine  # noqa: F401 (imported for those who are forked)

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]  # PySpark has no types for it
