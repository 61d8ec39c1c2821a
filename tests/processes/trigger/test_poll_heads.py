"""A catalog that never answers, in a process that ends."""

from __future__ import annotations

import subprocess
import sys


def test_catalog_that_never_answers_does_not_keep_the_process_alive() -> None:
    begin = "import time; from trigger.heads.catalog_calls import run_in_background as run; run(lambda: time.sleep(60))"
    text = f"{begin}; print('ended', flush=True)"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == "ended"
