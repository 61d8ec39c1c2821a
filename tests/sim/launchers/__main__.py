"""Runs one seed again: `python -m tests.sim.launchers SEED [BUG]`."""

from __future__ import annotations

import sys

from tests.sim.launchers.run import run_seed

if __name__ == "__main__":
    for name, count in sorted(run_seed(int(sys.argv[1]), *sys.argv[2:3]).items()):
        print(f"{count:6d} {name}")
