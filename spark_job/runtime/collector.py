"""Python's search for cycles, which would else stop a merge for longer than it takes."""

from __future__ import annotations

import gc

_NEW_OBJECTS = 100_000
_YOUNG, _OLDER = 20, 20


def search_seldom() -> None:
    """A job remembers files, snapshots and parts of the index, and makes next to no cycles.

    A search looks at all of them, after every few merges and for a third of a second, to find nothing.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _YOUNG, _OLDER)
