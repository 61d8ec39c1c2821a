"""The Spark context that the job runs on: the one it was submitted to, else a local one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from icemirror.errors import Invalid
from spark_job.java import set_java_home

if TYPE_CHECKING:
    from pyspark import SparkContext

_QUIET_LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_job.task_daemon",
}
# Whoever may list processes reads a command line, so it gets only what Java must know before it starts.
_AT_START = ("spark.driver.", "spark.jars", "spark.files", "spark.archives", "spark.submit.")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has chosen the master already


def open_spark(configured: Mapping[str, str], environ: MutableMapping[str, str] = os.environ) -> SparkContext:
    """A running context. Settings of a session that somebody else made are left as they are."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf()
    conf.setAppName("icemirror")
    if _SUBMITTED not in environ:
        set_java_home(environ)
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
        environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        for name, value in _QUIET_LOCAL.items():
            conf.setIfMissing(name, value)
    for name, value in configured.items():
        conf.set(name, value)
    at_start = SparkConf(loadDefaults=False)
    at_start.setAll([setting for setting in conf.getAll() if setting[0].startswith(_AT_START)])
    try:
        SparkContext._ensure_initialized(conf=at_start)
        return SparkContext.getOrCreate(conf)
    except Exception as error:
        raise Invalid(
            f"Spark did not start: {error}. Check job.spark in the configuration and the Java in JAVA_HOME."
        ) from error
