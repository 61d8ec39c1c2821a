"""Results of one step of the job on a table: a commit, a staged slice, a rebuild, or nothing to merge."""

from __future__ import annotations

from icemirror.result import FrozenResult, SliceResult
from icemirror.tables.cursor import Cursor


class MirrorStatus(FrozenResult):
    """State of a mirror after a step of the job: how far it has merged, and its sizes."""

    cursor: Cursor | None
    live_rows: int
    index_bytes: int


class Backlog(FrozenResult):
    """What is not merged yet: snapshots (including a partly merged one), events, and the oldest commit's time."""

    snapshots: int
    events: int
    since: float | None = None


class Merged(FrozenResult):
    """One slice was committed; there may be more. `backlog`: what remains, if known."""

    slice: SliceResult
    mirror_status: MirrorStatus
    backlog: Backlog | None = None


class NothingToMerge(FrozenResult):
    """The plan was empty: the mirror is merged up to the changelog metadata at `head_location`."""

    head_location: str
    mirror_status: MirrorStatus


class Staged(FrozenResult):
    """One more slice of a rebuild was staged: `events` of `of_events`. Readers still see the old mirror."""

    events: int
    of_events: int
    mirror_status: None = None  # so that every step result has the attribute
    backlog: Backlog | None = None


class Rebuilt(FrozenResult):
    """A rebuild of `events` was published as the mirror; there may be more to merge."""

    events: int
    mirror_status: MirrorStatus


StepResult = Merged | Staged | Rebuilt | NothingToMerge


class MeasuredBacklog(Backlog):
    """The backlog measured on the tables themselves, and the state of the mirror."""

    mirror_status: MirrorStatus | None = None
