"""Builds the job's collaborators from the settings."""

from __future__ import annotations

from icemirror.settings import Settings
from spark_job.iceberg.tables import Catalogs
from spark_job.pipeline import Pipeline
from spark_job.runtime.collector import search_seldom
from spark_job.runtime.engine import LazyEngine, OnSpark
from spark_job.runtime.session import open_spark


def build_pipeline(settings: Settings, run_id: str) -> Pipeline:
    """The pipeline on Spark, which starts when the first slice needs it."""
    search_seldom()
    engine = LazyEngine(lambda: OnSpark(open_spark(settings.job.spark)), settings.job.spark_from_events)
    return Pipeline(settings=settings, catalogs=Catalogs(settings), engine=engine, run_id=run_id)
