"""Launchers and stores as a campaign."""

from __future__ import annotations

from tests.sim.launchers.run import run_seed
from tests.soak.campaign import Campaign

LAUNCHERS = Campaign(
    "launchers",
    "triggers and workers on real stores and fake platforms, killed at any effect",
    run_seed,
    "python -m tests.sim.launchers",
    patience_seconds=120,
)
