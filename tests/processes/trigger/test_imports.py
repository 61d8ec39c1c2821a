"""The trigger imports no heavy module at start."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "pyspark",
    "pyarrow",
    "pyiceberg",
    "pandas",
    "numpy",
    "duckdb",
    "sqlalchemy",
    "boto3",
    "thrift",
    "opentelemetry",
)
SCRIPT = """
import sys
import trigger.heads.glue, trigger.heads.hive, trigger.heads.rest, trigger.heads.sql
import trigger.service.watch, trigger.wiring
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_trigger_loads_no_heavy_module() -> None:
    loaded = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert set(loaded.stdout.split()).isdisjoint(HEAVY)
