"""The Spark context that the job runs on: the one it was submitted to, else a local one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from subprocess import Popen
from typing import TYPE_CHECKING, Any

from icemirror.errors import Invalid
from icemirror.safe_path import keep_off_working_directory
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
        keep_off_working_directory(environ)
        for name, value in _QUIET_LOCAL.items():
            conf.setIfMissing(name, value)
    for name, value in configured.items():
        conf.set(name, value)
    at_start = SparkConf(loadDefaults=False)
    at_start.setAll([setting for setting in conf.getAll() if setting[0].startswith(_AT_START)])
    try:
        with _ended_if_interrupted():
            SparkContext._ensure_initialized(conf=at_start)
        return SparkContext.getOrCreate(conf)
    except Exception as error:
        raise Invalid(
            f"Spark did not start: {error}. Check job.spark in the configuration and the Java in JAVA_HOME."
        ) from error


@contextmanager
def _ended_if_interrupted() -> Iterator[None]:
    """Ends the Java that PySpark starts if it does not get to answer.

    Its answer goes to a file in a folder that PySpark removes on the way out; a Java that finds no folder stays for
    ever. PySpark keeps the process to itself until then, so it is caught where it is made.
    """
    from pyspark import java_gateway

    started: list[Popen[Any]] = []  # Any: bytes or text, as PySpark likes

    class Noted(Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 (those of Popen)
            started.append(self)
            super().__init__(*arguments, **options)

    names = vars(java_gateway)
    theirs, names["Popen"] = names["Popen"], Noted
    try:
        yield
    except BaseException:
        for process in started:
            if getattr(process, "pid", None) is not None:
                process.kill()
                process.wait()
        raise
    finally:
        names["Popen"] = theirs
