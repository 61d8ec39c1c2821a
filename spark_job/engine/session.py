"""Opens the Spark context of the job: the submitted one, or a local one."""

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
from icemirror.processes.python_path import exclude_working_directory
from icemirror.settings.model import LAUNCH_PROPERTIES
from icemirror.telemetry.logs import get_log
from spark_job.engine.interrupt import keep_interrupt_handler
from spark_job.engine.java import is_supported, set_java_home

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOCAL_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Java only moves columns between Python processes: JIT optimization costs more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_job.engine.task_daemon",
}
# Lines that Java and Spark write to stderr at every start, at any log level.
_START_LINES = (
    b"WARNING: Using incubator modules",
    b"Using Spark's default log4j profile",
    b"NativeCodeLoader: Unable to load native-hadoop library",
    b"Setting default log level to",
    b"Setting Spark log level to",
    b"To adjust logging level use",
)
_STDERR = 2
_SUBMIT_VARIABLE = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has already chosen the master

log = get_log(__name__)


def open_spark(configured: Mapping[str, str], environ: MutableMapping[str, str] = os.environ) -> SparkContext:
    """Return a running context. The settings of an existing session stay as they are."""
    from pyspark import SparkConf, SparkContext

    if _SUBMIT_VARIABLE not in environ:
        _drop_dead_java()  # a SparkConf lives in Java once Java runs
    conf = SparkConf()
    conf.setAppName("icemirror")
    if _SUBMIT_VARIABLE not in environ:
        _choose_java(environ)
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
        environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        exclude_working_directory(environ)
        for name, value in _LOCAL_DEFAULTS.items():
            conf.setIfMissing(name, value)
    for name, value in configured.items():
        conf.set(name, value)
    launch_conf = SparkConf(loadDefaults=False)
    launch_conf.setAll([setting for setting in conf.getAll() if setting[0].startswith(LAUNCH_PROPERTIES)])
    try:
        with keep_interrupt_handler():
            with _supervised_java():
                SparkContext._ensure_initialized(conf=launch_conf)
            return SparkContext.getOrCreate(conf)
    except Exception as error:
        raise Invalid(
            f"Spark did not start: {error}. Check job.spark in the configuration and the Java in JAVA_HOME."
        ) from error


def _drop_dead_java() -> None:
    """Drop a stopped context and an unresponsive Java, both of which PySpark would keep forever."""
    from pyspark import SparkContext

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if gateway is None:
        return
    with suppress(Exception):  # a lost connection raises many kinds of errors
        gateway.jvm.java.lang.System.currentTimeMillis()
        if context is not None and context._jsc.sc().isStopped():
            context.stop()
        return
    log.warning("Java process of Spark unresponsive, starting another")
    with suppress(Exception):
        if context is not None:
            context._jsc = None  # there is no Java to notify
            context.stop()
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


def _choose_java(environ: MutableMapping[str, str]) -> None:
    configured_home = environ.get("JAVA_HOME")
    home = set_java_home(environ)
    if configured_home and not is_supported(Path(configured_home)):
        log.warning(
            "Java in JAVA_HOME not supported by Spark, using another",
            java_home=configured_home,
            java_home_used=str(home),
        )


@contextmanager
def _supervised_java() -> Iterator[None]:
    """Kill the Java that PySpark starts if the start fails, and drop the usual start lines from its stderr.

    Java reports its port in a file, in a folder that PySpark deletes when it gives up; a Java without that folder runs
    forever. PySpark does not expose the process before, so `Popen` is replaced to obtain it.
    """
    from pyspark import java_gateway

    processes: list[Popen[Any]] = []  # Any: bytes or text, as PySpark chooses

    class RecordedPopen(Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 (as Popen)
            processes.append(self)
            super().__init__(*arguments, **{**options, "stderr": PIPE})
            threading.Thread(target=_forward_stderr, args=(self.stderr,), daemon=True).start()

    gateway_names = vars(java_gateway)
    original_popen, gateway_names["Popen"] = gateway_names["Popen"], RecordedPopen
    try:
        yield
    except BaseException:
        for process in processes:
            if getattr(process, "pid", None) is not None:
                process.kill()
                process.wait()
        raise
    finally:
        gateway_names["Popen"] = original_popen


def _forward_stderr(stream: IO[bytes]) -> None:
    """Copy Java's stderr to this process's stderr, line by line."""
    with stream, suppress(OSError):  # stderr may be closed
        for line in stream:
            if not any(start_line in line for start_line in _START_LINES):
                os.write(_STDERR, line)
