"""What others on the machine can see of a Spark that holds secrets."""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.need import need

_PROGRAM = """
import os, subprocess
from spark_job.session import open_spark
spark = open_spark({"spark.hadoop.fs.s3a.secret.key": "canary-7", "spark.driver.memory": "512m"})
assert spark.getConf().get("spark.hadoop.fs.s3a.secret.key") == "canary-7"
print(subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout)
spark.stop()
"""


def test_no_setting_of_spark_that_may_be_secret_is_on_a_command_line() -> None:
    need(shutil.which("ps"), "there is no ps to list processes with")
    done = subprocess.run([sys.executable, "-"], input=_PROGRAM, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "-Xmx512m" in done.stdout
    assert "canary-7" not in done.stdout
