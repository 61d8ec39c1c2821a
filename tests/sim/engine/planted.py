"""All planted defects. The simulation must detect each: otherwise passing seeds would prove nothing."""

from __future__ import annotations

from tests.sim.engine import (
    planted_compaction,
    planted_index,
    planted_keyless,
    planted_merge,
    planted_profiles,
    planted_rejects,
    planted_replay,
    planted_resync,
    planted_soft_deletes,
    planted_truncation,
)
from tests.sim.engine.planted_merge import FOUR_BITS
from tests.sim.engine.planting import PLANTED, PlantedDefect

__all__ = [
    "FOUR_BITS",
    "PLANTED",
    "PlantedDefect",
    "planted_compaction",
    "planted_index",
    "planted_keyless",
    "planted_merge",
    "planted_profiles",
    "planted_rejects",
    "planted_replay",
    "planted_resync",
    "planted_soft_deletes",
    "planted_truncation",
]
