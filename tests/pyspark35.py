"""The older Spark that the job supports: PySpark 3.5, in a separate folder, for a run with PYTHONPATH."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.cache import fetch_once

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "spark35.txt"
INSTALL_TIMEOUT_SECONDS = 1200


class Unavailable(Exception):
    """PySpark 3.5 could not be installed here."""


def pyspark35_path() -> Path:
    """A folder with PySpark 3.5 and its py4j, to put first on PYTHONPATH; installed as locked, by hash."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    return fetch_once(f"pyspark35-{digest}", _install)


def _install(scratch: Path) -> Path:
    target = scratch / "site"
    # setuptools comes from the environment's own lock, so nothing unchecked takes part in the build.
    options = ["--require-hashes", "--no-deps", "--no-build-isolation", "--use-pep517", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "-r", str(LOCK)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"pip took longer than {INSTALL_TIMEOUT_SECONDS} s") from late
    if done.returncode != 0:
        raise Unavailable(f"pip failed: {done.stderr[-2000:]}")
    return target
