"""A job for launcher tests: it records its request and runs until the file `end` exists."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main() -> None:
    folder = Path(os.environ["FAKE_JOB_FOLDER"])
    print("hello from", os.getpid(), flush=True)
    print("and from stderr", file=sys.stderr, flush=True)
    with (folder / "started").open("a") as started:
        started.write(f"{os.getpid()} {os.getsid(0)} {' '.join(sys.argv[1:])}\n")
    if os.environ.get("FAKE_JOB_DIES"):
        sys.exit(3)
    until = time.monotonic() + 60
    while not (folder / "end").exists() and time.monotonic() < until:
        time.sleep(0.02)


main()
