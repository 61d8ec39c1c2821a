"""Random schedules on files as a campaign: `python -m tests.sim.merge.soak 17` runs one again."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.oracle.key_pools import KEY_KINDS
from tests.sim.merge.schedule import run_schedule
from tests.soak.campaign import Campaign


def run(seed: int, _defect: str | None = None) -> Counter[str]:
    """Run one schedule; each kind of key in turn."""
    keys = sorted(KEY_KINDS)
    key = keys[seed % len(keys)]
    with tempfile.TemporaryDirectory(prefix="icemirror-soak-") as folder:
        run_schedule(Path(folder), key, seed)
    return Counter([f"key {key}"])


SCHEDULES = Campaign(
    "schedules", "random schedules on files, every kind of key", run, "python -m tests.sim.merge.soak"
)

if __name__ == "__main__":
    run(int(sys.argv[1]))
