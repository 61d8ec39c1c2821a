"""A fake job for the local launcher, and waiting for what it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

JOB = (sys.executable, str(Path(__file__).parent / "fake_job.py"))


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.01)
