"""Python packages outside the environment, because they conflict with its own: each in a folder for PYTHONPATH."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.provision.cache import Unavailable, fetch_once

_LOCKS = Path(__file__).parents[2] / "requirements"
_INSTALL_SECONDS = 1200


def pyspark35() -> Path:
    """Return PySpark 3.5, the oldest Spark that the job supports, with py4j."""
    return install_locked("spark35")


def ministack() -> Path:
    """Return ministack, which requires an older boto3 than the product."""
    return install_locked("ministack")


def checkov() -> Path:
    """Return checkov."""
    return install_locked("checkov")


def install_locked(name: str) -> Path:
    """Return a folder with the packages of `requirements/<name>.txt`, installed with hashes."""
    lock = _LOCKS / f"{name}.txt"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    return fetch_once(f"python/{name}-{digest}", lambda scratch: _install(lock, scratch / "site"))


def _install(lock: Path, target: Path) -> Path:
    # setuptools comes from the environment's lock, so a build uses no unchecked package.
    options = ["--require-hashes", "--no-deps", "--no-build-isolation", "--use-pep517", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "-r", str(lock)]
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"pip took longer than {_INSTALL_SECONDS} s") from error
    if completed.returncode != 0:
        raise Unavailable(f"pip failed: {completed.stderr[-2000:]}")
    return target
