"""The simulation of the whole merge as a campaign, and the search for seeds that find planted mistakes."""

from __future__ import annotations

from collections import Counter

from icemirror.errors import IcemirrorError
from tests.sim.engine.bugs import (
    BUGS,
    bugs_of_compaction,
    bugs_of_keyless,
    bugs_of_profiles,
    bugs_of_rejects,
    bugs_of_replay,
    bugs_of_resync,
    bugs_of_soft_deletes,
    bugs_of_truncation,
)
from tests.sim.engine.reader import Divergence
from tests.sim.engine.setting import (
    FIRST_WITH_COMPACTION,
    FIRST_WITH_PARTIAL_EVENTS,
    FIRST_WITH_SOFT_DELETES,
)
from tests.sim.engine.story import (
    FIRST_WITH_REJECTS,
    FIRST_WITH_REPLAYS,
    FIRST_WITH_RESYNCS,
    FIRST_WITH_TRUNCATIONS,
    FIRST_WITHOUT_KEYS,
    run_seed,
)
from tests.sim.engine.truncations import FIRST_WITH_COMMITS_TAKEN_BACK
from tests.soak.campaign import Campaign

MOST_SEEDS = 500
# By what a mistake shows. Anything else: it does not fit the product any more, and proves nothing.
SHOWS = (Divergence, IcemirrorError)


def run(seed: int, bug: str | None = None) -> Counter[str]:
    """Judged snapshots, and the points at which merges died."""
    outcome = run_seed(seed, BUGS[bug] if bug else None)
    return Counter({"snapshots judged": outcome.snapshots}) + Counter(
        f"died at {one}" for one in outcome.deaths
    )


ENGINE = Campaign(
    "engine",
    "the whole merge in memory, through faults and other writers",
    run,
    "python -m tests.sim.engine",
    first=100_000,  # whatever came into the simulation later is in seeds from here on
)


def first_seed_that_finds(name: str, most: int = MOST_SEEDS) -> int | None:
    """The first seed in which a planted mistake shows."""
    first, step = 0, 1
    if name in bugs_of_replay.NAMES:
        first, step = FIRST_WITH_REPLAYS, 2
    elif name in bugs_of_resync.NAMES:
        first, step = FIRST_WITH_RESYNCS, 4
    elif name in bugs_of_keyless.NAMES:
        first, step = FIRST_WITHOUT_KEYS, 8
    elif name in bugs_of_compaction.NAMES:
        first = FIRST_WITH_COMPACTION
    elif name in bugs_of_profiles.NAMES:
        first, step = FIRST_WITH_PARTIAL_EVENTS + 1, 6
    elif name in bugs_of_rejects.NAMES:
        first, step = FIRST_WITH_REJECTS, 3
    elif name in bugs_of_soft_deletes.NAMES:
        first, step = FIRST_WITH_SOFT_DELETES, 5
    elif name in bugs_of_truncation.TAKEN_BACK:
        first, step = FIRST_WITH_COMMITS_TAKEN_BACK, 9
    elif name in bugs_of_truncation.NAMES:
        first, step = FIRST_WITH_TRUNCATIONS, 9
    for seed in range(first, first + step * most, step):
        try:
            run_seed(seed, BUGS[name])
        except SHOWS:
            return seed
    return None
