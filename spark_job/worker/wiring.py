"""Builds the pipeline from the settings."""

from __future__ import annotations

from icemirror.settings import Settings
from spark_job.engine.engine import LazyEngine
from spark_job.engine.garbage_collection import collect_less_often
from spark_job.engine.session import open_spark
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline


def build_pipeline(settings: Settings, run_id: str) -> Pipeline:
    """Return the pipeline; Spark starts when the first slice needs it."""
    collect_less_often()
    policy = SizePolicy(spark_from_events=settings.job.spark_from_events)
    engine = LazyEngine(lambda: SparkEngine(open_spark(settings.job.spark), policy), policy)
    return Pipeline(settings=settings, catalogs=Catalogs(settings), engine=engine, run_id=run_id)
