"""Mistakes that the simulation must find: without them "all seeds hold" would prove nothing."""

from __future__ import annotations

from tests.sim.engine import (
    bugs_of_compaction,
    bugs_of_index,
    bugs_of_keyless,
    bugs_of_merge,
    bugs_of_profiles,
    bugs_of_rejects,
    bugs_of_replay,
    bugs_of_resync,
    bugs_of_soft_deletes,
    bugs_of_truncation,
)
from tests.sim.engine.bugs_of_merge import FOUR_BITS
from tests.sim.engine.planting import BUGS, Bug

__all__ = [
    "BUGS",
    "FOUR_BITS",
    "Bug",
    "bugs_of_compaction",
    "bugs_of_index",
    "bugs_of_keyless",
    "bugs_of_merge",
    "bugs_of_profiles",
    "bugs_of_rejects",
    "bugs_of_replay",
    "bugs_of_resync",
    "bugs_of_soft_deletes",
    "bugs_of_truncation",
]
