"""Which truncation a mirror must have followed: by the journal, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from icemirror.cursor import Cursor, Truncation
from tests.sim.engine.journal import File, Journal, Place
from tests.sim.engine.oracle import State
from tests.sim.engine.reader import Divergence
from tests.sim.engine.unchanged import effects


def truncation_of(cursor: str) -> Truncation | None:
    """The one that a cursor has."""
    sources = Cursor.model_validate_json(cursor).sources
    return sources[0].truncated if sources else None


def floor_of(files: Sequence[File]) -> Place | None:
    """The last truncation that these files tell of."""
    return max((file.truncation for file in files if file.truncation is not None), default=None)


def same_sequence(told: Truncation | None, place: Place | None) -> bool:
    """Whether a cursor may mean this one: who compacts a changelog moves its events to other commits."""
    return (told is None) == (place is None) and (not told or not place or told.sequence == place[:2])


def floor_after_rebuild(
    parent: State, told: Truncation | None, files: Sequence[File], *, same: bool
) -> Place | None:
    """The last that is merged, or one after it that the mirror of the same changelog had followed already."""
    floor = floor_of(files)
    ahead = (
        parent.floor
        if same and parent.floor is not None and (floor is None or parent.floor > floor)
        else None
    )
    if ahead is not None and same_sequence(told, ahead):
        return ahead
    if not same_sequence(told, floor):
        raise Divergence(f"rebuilt from the truncation {told} on, although the last one is {floor}")
    return floor


def floor_after_merge(parent: State, told: Truncation | None, journal: Journal, merged: int) -> Place | None:
    """The truncation before which no event counts after a slice. A mirror that is there never moves it."""
    passed = floor_of(journal.files[:merged])
    if parent.uuid:
        floor = parent.floor if told == parent.followed else _told_again(parent, told, journal, merged)
    else:
        known = [one for file in journal.files if (one := file.truncation) and same_sequence(told, one)]
        if told is not None and not journal.rewritten:
            known = [one for one in known if one == told.order]
        floor = max(known, default=None)
        if not same_sequence(told, floor):
            raise Divergence(f"nobody told of the truncation {told}")
    if passed is not None and (floor is None or passed > floor):
        raise Divergence(f"merged past the truncation {passed}, from {floor} on")
    return floor


def _told_again(parent: State, told: Truncation | None, journal: Journal, merged: int) -> Place:
    """The same truncation in a later commit: the mirror may move on to it where it takes nothing away."""
    known = [one for file in journal.files[:merged] if (one := file.truncation) and same_sequence(told, one)]
    floor = max(known, default=None)
    if floor is None or parent.floor is None or floor[:2] != parent.floor[:2] or floor < parent.floor:
        raise Divergence(f"the truncation {told} was followed without a rebuild, after {parent.followed}")
    for effect in effects(journal.files[:merged], parent.floor):
        if effect.place < floor and effect.place[:2] == floor[:2]:
            raise Divergence(
                f"{effect} lies before the truncation {told}, which was followed without a rebuild"
            )
    return floor
