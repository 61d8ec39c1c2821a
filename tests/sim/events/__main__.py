"""Runs seeds again: `python -m tests.sim.events SEED…`."""

from __future__ import annotations

import sys

from tests.sim.events.run import run

for seed in map(int, sys.argv[1:]):
    print(seed, dict(run(seed)))
