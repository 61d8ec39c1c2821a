"""Builds the pipeline from the settings."""

from __future__ import annotations

import gc

from icemirror.settings import Settings
from spark_job.engine.engine import LazyEngine
from spark_job.engine.session import open_spark
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline

# Thresholds of Python's cyclic garbage collector: new objects, then runs of generation 0 and 1.
_GC_THRESHOLDS = (100_000, 20, 20)


def build_pipeline(settings: Settings, run_id: str) -> Pipeline:
    """Return the pipeline; Spark starts when the first slice needs it."""
    _collect_garbage_less_often()
    policy = SizePolicy(spark_from_events=settings.job.spark_from_events)
    engine = LazyEngine(lambda: SparkEngine(open_spark(settings.job.spark), policy), policy)
    return Pipeline(settings=settings, catalogs=Catalogs(settings), engine=engine, run_id=run_id)


def _collect_garbage_less_often() -> None:
    """Raise the thresholds of the garbage collector, and exclude all objects that exist now.

    A job caches files, snapshots and segments and creates next to no cycles. With the default thresholds a collection
    of a third of a second runs after every few merges and finds nothing.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
