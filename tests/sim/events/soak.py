"""Forged events as a campaign: 500 seeds are 50,000 events."""

from __future__ import annotations

from tests.sim.events.run import run
from tests.soak.campaign import Campaign

EVENTS = Campaign(
    "events",
    "a hundred forged or mangled events, which must have no effect (goal: 500 seeds)",
    run,
    "python -m tests.sim.events",
    most_seconds=60,
    patience_seconds=120,
)
