"""A process ends although a catalog never responds."""

from __future__ import annotations

import subprocess
import sys


def test_catalog_that_never_answers_does_not_keep_the_process_alive() -> None:
    call = "import time; from trigger.heads.catalog_calls import run_in_background as run; run(lambda: time.sleep(60))"
    script = f"{call}; print('ended', flush=True)"
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True
    )
    assert completed.stdout.strip() == "ended"
