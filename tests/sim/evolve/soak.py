"""Changing columns as a campaign."""

from __future__ import annotations

from collections import Counter

from tests.sim.evolve.planted_defects import PLANTED
from tests.sim.evolve.world import run_seed
from tests.soak.campaign import Campaign


def run(seed: int, defect: str | None = None) -> Counter[str]:
    """Return the number of judged snapshots."""
    return Counter({"snapshots judged": run_seed(seed, PLANTED[defect] if defect else None).snapshots})


COLUMNS = Campaign(
    "columns", "changelogs whose columns change, merged in memory", run, "python -m tests.sim.evolve"
)
