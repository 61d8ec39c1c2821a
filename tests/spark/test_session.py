"""Start of Spark: visibility of secrets, Python's module path in tasks, and interruption."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.need import need

_PROGRAM = """
import os, subprocess
from spark_job.engine.session import open_spark
spark = open_spark({"spark.hadoop.fs.s3a.secret.key": "canary-7", "spark.driver.memory": "512m"})
assert spark.getConf().get("spark.hadoop.fs.s3a.secret.key") == "canary-7"
print(subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout)
spark.stop()
"""


def test_spark_settings_with_secrets_are_not_on_a_command_line() -> None:
    need(shutil.which("ps"), "ps, which lists processes, is missing")
    done = subprocess.run([sys.executable, "-"], input=_PROGRAM, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "-Xmx512m" in done.stdout
    assert "canary-7" not in done.stdout


_TASK = """
from spark_job.engine.session import open_spark
spark = open_spark({"spark.driver.memory": "512m"})
print(spark.parallelize([20], 1).map(lambda number: number + 1).collect())
spark.stop()
"""


def test_files_in_the_working_directory_do_not_shadow_modules_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "dis.py").write_text("raise SystemExit('a file of the working directory was imported')")
    done = subprocess.run(
        [sys.executable, "-P", "-c", _TASK], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "[21]" in done.stdout
    assert not done.stderr, "a successful start writes nothing to stderr"


_INTERRUPTED = """
import sys
import spark_job.engine.session as session
from pyspark import java_gateway

class PrintingPopen(java_gateway.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        print(self.pid, flush=True)

session.Popen = PrintingPopen
try:
    session.open_spark({"spark.driver.memory": "512m"})
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_interrupt_during_the_start_of_spark_ends_java() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout
    with process.stdout as stdout:
        java = int(stdout.readline())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    try:
        os.kill(java, 0)
    except ProcessLookupError:
        return
    os.kill(java, signal.SIGKILL)
    raise AssertionError("Java is still running")


_WORKING = """
import sys, time
from pathlib import Path
from icemirror.cli.command_end import report_command_end
from icemirror.telemetry.logs import configure_logs
from spark_job.engine.engine import LazyEngine
from spark_job.engine.session import open_spark

def linger(path):
    Path(path).touch()
    time.sleep(20)

class Engine:
    def __init__(self):
        self.spark = open_spark({"spark.driver.memory": "512m"})

    def run(self, path):
        shared = self.spark.broadcast(1)
        try:
            return self.spark.parallelize([path], 1).map(linger).collect()
        finally:
            shared.unpersist()

class Work(str):
    files = shared_files = ()

configure_logs(project_ref="", environment="")
try:
    LazyEngine(Engine).run(Work(sys.argv[1]))
except BaseException as error:
    sys.exit(report_command_end(error, debug=False))
"""


def test_interrupt_during_spark_work_is_reported_as_interrupted_only(tmp_path: Path) -> None:
    started = tmp_path / "started"
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKING, str(started)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not started.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    interrupted_at = time.monotonic()
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr.strip()) == (130, "interrupted")
    assert time.monotonic() - interrupted_at < 15, "the process waited for the task"


_KILLED = """
import os, signal
from spark_job.engine.engine import LazyEngine
from spark_job.engine.session import open_spark

class Engine:
    def __init__(self):
        self.spark = open_spark({"spark.driver.memory": "512m"})

    def run(self, number):
        return self.spark.parallelize([number], 1).map(lambda value: value + 1).collect()

class Work(int):
    files = shared_files = ()

engine = LazyEngine(Engine)
print(engine.run(Work(20)))
java = engine._engine.spark._gateway.proc
os.kill(java.pid, signal.SIGKILL)
java.wait()
try:
    engine.run(Work(21))
except Exception as error:
    print("failed")
print(engine.run(Work(22)))
engine._engine.spark.stop()
"""


def test_killed_java_is_replaced() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[21]", "failed", "[23]"]
