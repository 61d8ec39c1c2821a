"""The Spark context that the job runs on: the one it was submitted to, else a local one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, TYPE_CHECKING, Any

from icemirror.errors import Invalid
from icemirror.safe_path import keep_off_working_directory
from icemirror.spark_properties import AT_START
from icemirror.telemetry.logs import get_log
from spark_job.runtime.interrupt import own_interrupts
from spark_job.runtime.java import fits, set_java_home

if TYPE_CHECKING:
    from pyspark import SparkContext

_QUIET_LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Java only hands columns from one Python to another: what its best compiler does is never earned back.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_job.runtime.task_daemon",
}
# What Java and Spark say to stderr at every start, whatever the log level is.
_START_LINES = (
    b"WARNING: Using incubator modules",
    b"Using Spark's default log4j profile",
    b"NativeCodeLoader: Unable to load native-hadoop library",
    b"Setting default log level to",
    b"Setting Spark log level to",
    b"To adjust logging level use",
)
_STDERR = 2
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has chosen the master already

log = get_log(__name__)


def open_spark(configured: Mapping[str, str], environ: MutableMapping[str, str] = os.environ) -> SparkContext:
    """A running context. Settings of a session that somebody else made are left as they are."""
    from pyspark import SparkConf, SparkContext

    if _SUBMITTED not in environ:
        _leave_dead_java()  # even a configuration lives in Java once there is one
    conf = SparkConf()
    conf.setAppName("icemirror")
    if _SUBMITTED not in environ:
        _choose_java(environ)
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
        environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        keep_off_working_directory(environ)
        for name, value in _QUIET_LOCAL.items():
            conf.setIfMissing(name, value)
    for name, value in configured.items():
        conf.set(name, value)
    at_start = SparkConf(loadDefaults=False)
    at_start.setAll([setting for setting in conf.getAll() if setting[0].startswith(AT_START)])
    try:
        with own_interrupts():
            with _tamed_java():
                SparkContext._ensure_initialized(conf=at_start)
            return SparkContext.getOrCreate(conf)
    except Exception as error:
        raise Invalid(
            f"Spark did not start: {error}. Check job.spark in the configuration and the Java in JAVA_HOME."
        ) from error


def _leave_dead_java() -> None:
    """Lets go of a context that has stopped, and of a Java that does not answer: PySpark would keep both for ever."""
    from pyspark import SparkContext

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if gateway is None:
        return
    with suppress(Exception):  # there are as many kinds of errors as ways to lose a connection
        gateway.jvm.java.lang.System.currentTimeMillis()
        if context is not None and context._jsc.sc().isStopped():
            context.stop()
        return
    log.warning("Spark's Java does not answer any more; another is started")
    with suppress(Exception):
        if context is not None:
            context._jsc = None  # nobody is left to be told of the end
            context.stop()
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


def _choose_java(environ: MutableMapping[str, str]) -> None:
    given = environ.get("JAVA_HOME")
    home = set_java_home(environ)
    if given and not fits(Path(given)):
        log.warning(
            "Spark does not run on the Java in JAVA_HOME; another is taken", java_home=given, taken=str(home)
        )


@contextmanager
def _tamed_java() -> Iterator[None]:
    """Ends the Java that PySpark starts if it does not get to answer, and leaves out what it says about its start.

    Its answer goes to a file in a folder that PySpark removes on the way out; a Java that finds no folder stays for
    ever. PySpark keeps the process to itself until then, so it is caught where it is made.
    """
    from pyspark import java_gateway

    started: list[Popen[Any]] = []  # Any: bytes or text, as PySpark likes

    class Noted(Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 (those of Popen)
            started.append(self)
            super().__init__(*arguments, **{**options, "stderr": PIPE})
            threading.Thread(target=_pass_on, args=(self.stderr,), daemon=True).start()

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


def _pass_on(stream: IO[bytes]) -> None:
    """Java's stderr to our own, line by line."""
    with stream, suppress(OSError):  # our own may be closed
        for line in stream:
            if not any(known in line for known in _START_LINES):
                os.write(_STDERR, line)
