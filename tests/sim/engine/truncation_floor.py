"""The truncation that a mirror must have followed, computed from the journal in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from icemirror.tables.cursor import Cursor, Truncation
from tests.sim.engine.effects import effects
from tests.sim.engine.journal import EventPosition, File, Journal
from tests.sim.engine.oracle import State
from tests.sim.engine.reader import Divergence


def truncation_of(cursor: str) -> Truncation | None:
    """Return the truncation that a cursor records."""
    sources = Cursor.model_validate_json(cursor).sources
    return sources[0].truncated if sources else None


def floor_of(files: Sequence[File]) -> EventPosition | None:
    """Return the last truncation in these files."""
    return max((file.truncation for file in files if file.truncation is not None), default=None)


def same_sequence(recorded: Truncation | None, position: EventPosition | None) -> bool:
    """Return whether a cursor may mean this truncation; a changelog compaction moves events to other commits."""
    return (recorded is None) == (position is None) and (
        not recorded or not position or recorded.sequence == position[:2]
    )


def floor_after_rebuild(
    parent: State, recorded: Truncation | None, files: Sequence[File], *, same: bool
) -> EventPosition | None:
    """Return the last merged truncation, or a later one that the mirror already followed."""
    floor = floor_of(files)
    ahead = (
        parent.floor
        if same and parent.floor is not None and (floor is None or parent.floor > floor)
        else None
    )
    if ahead is not None and same_sequence(recorded, ahead):
        return ahead
    if not same_sequence(recorded, floor):
        raise Divergence(f"rebuilt from truncation {recorded}, although the last one is {floor}")
    return floor


def floor_after_merge(
    parent: State, recorded: Truncation | None, journal: Journal, merged: int
) -> EventPosition | None:
    """Return the truncation before which no event counts after a slice. A merge never moves it."""
    passed = floor_of(journal.files[:merged])
    if parent.uuid:
        floor = parent.floor if recorded == parent.followed else _repeated(parent, recorded, journal, merged)
    else:
        known = [
            found for file in journal.files if (found := file.truncation) and same_sequence(recorded, found)
        ]
        if recorded is not None and not journal.rewritten:
            known = [found for found in known if found == recorded.order]
        floor = max(known, default=None)
        if not same_sequence(recorded, floor):
            raise Divergence(f"unknown truncation {recorded}")
    if passed is not None and (floor is None or passed > floor):
        raise Divergence(f"merged past the truncation {passed}, from {floor} on")
    return floor


def _repeated(parent: State, recorded: Truncation | None, journal: Journal, merged: int) -> EventPosition:
    """Return the same truncation in a later commit; the mirror may follow it if no event lies between."""
    known = [
        found
        for file in journal.files[:merged]
        if (found := file.truncation) and same_sequence(recorded, found)
    ]
    floor = max(known, default=None)
    if floor is None or parent.floor is None or floor[:2] != parent.floor[:2] or floor < parent.floor:
        raise Divergence(f"the truncation {recorded} was followed without a rebuild, after {parent.followed}")
    for effect in effects(journal.files[:merged], parent.floor):
        if effect.position < floor and effect.position[:2] == floor[:2]:
            raise Divergence(
                f"{effect} lies before the truncation {recorded}, which was followed without a rebuild"
            )
    return floor
