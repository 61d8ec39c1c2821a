"""All planted mistakes. The simulation must find each: else "all seeds hold" would prove nothing."""

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
from tests.sim.engine.planting import PLANTED, PlantedMistake

__all__ = [
    "FOUR_BITS",
    "PLANTED",
    "PlantedMistake",
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
