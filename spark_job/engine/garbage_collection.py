"""How often Python's cyclic garbage collector runs in a job."""

from __future__ import annotations

import gc

_NEW_OBJECTS = 100_000
_GENERATION_0_RUNS, _GENERATION_1_RUNS = 20, 20


def collect_less_often() -> None:
    """Raise the collector's thresholds, and exclude all objects that exist now.

    A job caches files, snapshots and segments and creates next to no cycles. With the default thresholds a collection
    of a third of a second runs after every few merges and finds nothing.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _GENERATION_0_RUNS, _GENERATION_1_RUNS)
