"""The simulation of the whole merge as a campaign, and the search for seeds that detect planted defects."""

from __future__ import annotations

from collections import Counter

from icemirror.errors import IcemirrorError
from tests.sim.engine.planted import (
    PLANTED,
    planted_compaction,
    planted_keyless,
    planted_profiles,
    planted_rejects,
    planted_replay,
    planted_resync,
    planted_soft_deletes,
    planted_truncation,
)
from tests.sim.engine.reader import Divergence
from tests.sim.engine.seed_world import (
    FIRST_WITH_REJECTS,
    FIRST_WITH_REPLAYS,
    FIRST_WITH_RESYNCS,
    FIRST_WITH_TRUNCATIONS,
    FIRST_WITHOUT_KEYS,
    run_seed,
)
from tests.sim.engine.setting import (
    FIRST_WITH_COMPACTION,
    FIRST_WITH_PARTIAL_EVENTS,
    FIRST_WITH_SOFT_DELETES,
)
from tests.sim.engine.truncations import FIRST_WITH_ROLLED_BACK_COMMITS
from tests.soak.campaign import Campaign

MAX_SEEDS = 500
# How a defect shows. Any other error means that the defect no longer fits the product.
DETECTED = (Divergence, IcemirrorError)


def run(seed: int, defect: str | None = None) -> Counter[str]:
    """Count judged snapshots, and the crash points at which merges died."""
    outcome = run_seed(seed, PLANTED[defect] if defect else None)
    return Counter({"snapshots judged": outcome.snapshots}) + Counter(
        f"died at {point}" for point in outcome.deaths
    )


ENGINE = Campaign(
    "engine",
    "the whole merge in memory, with faults and foreign writes",
    run,
    "python -m tests.sim.engine",
    first=100_000,  # seeds from this one on use all features
)


def first_seed_that_finds(name: str, limit: int = MAX_SEEDS) -> int | None:
    """Return the first seed that detects a planted defect."""
    first, step = 0, 1
    if name in planted_replay.NAMES:
        first, step = FIRST_WITH_REPLAYS, 2
    elif name in planted_resync.NAMES:
        first, step = FIRST_WITH_RESYNCS, 4
    elif name in planted_keyless.NAMES:
        first, step = FIRST_WITHOUT_KEYS, 8
    elif name in planted_compaction.NAMES:
        first = FIRST_WITH_COMPACTION
    elif name in planted_profiles.NAMES:
        first, step = FIRST_WITH_PARTIAL_EVENTS + 1, 6
    elif name in planted_rejects.NAMES:
        first, step = FIRST_WITH_REJECTS, 3
    elif name in planted_soft_deletes.NAMES:
        first, step = FIRST_WITH_SOFT_DELETES, 5
    elif name in planted_truncation.ROLLED_BACK:
        first, step = FIRST_WITH_ROLLED_BACK_COMMITS, 9
    elif name in planted_truncation.NAMES:
        first, step = FIRST_WITH_TRUNCATIONS, 9
    for seed in range(first, first + step * limit, step):
        try:
            run_seed(seed, PLANTED[name])
        except DETECTED:
            return seed
    return None
