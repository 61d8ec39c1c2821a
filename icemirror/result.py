"""What merging a table came to, as `merge --json` prints it and as the state keeps it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from icemirror.cursor import Cursor
from icemirror.errors import Kind


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class SliceResult(_Frozen):
    """One commit on the mirror."""

    snapshot_id: int
    changelog_files: int = 0
    events: int
    inserted: int
    updated: int
    deleted: int
    stale: int
    unchanged: int
    rejected: int = 0
    data_files: int
    delete_files: int
    data_bytes: int
    delete_bytes: int
    index_bytes: int
    seconds: float
    seconds_by_step: dict[str, float]


class ErrorResult(_Frozen):
    """Why a table failed."""

    kind: Kind
    message: str


class TableResult(_Frozen):
    """One table of one `merge`."""

    table: str
    outcome: Literal["merged", "up-to-date", "rebuilt", "failed"]
    live_rows: int | None = None
    cursor: Cursor | None = None
    slices: tuple[SliceResult, ...] = ()
    seconds: float
    error: ErrorResult | None = None


class PlanResult(_Frozen):
    """What a merge of one table would do. `fills_mirror`: it is there and was never merged into.

    `schema_changes`: how the mirror's columns would change; `refused`: why a merge stops at them, if it does.
    `rebuilds_mirror`: it cannot be followed on, and is built anew from all that the changelog holds.
    """

    table: str
    snapshots: int
    files: int
    bytes: int
    events: int
    slices: int
    schema_changes: tuple[str, ...] = ()
    refused: str | None = None
    creates_mirror: bool
    fills_mirror: bool = False
    rebuilds_mirror: bool = False
    touched_files: int | None = None
    estimated_seconds: float | None = None


class ReplayPlan(_Frozen):
    """What a replay of one table would read. `full`: the mirror is rebuilt from all that the changelog holds."""

    table: str
    full: bool
    from_snapshot: int | None
    to_snapshot: int | None
    snapshots: int
    files: int
    bytes: int
    events: int
    slices: int


class ExpireResult(_Frozen):
    """`maintain expire` of one table; `files` are those that only the removed snapshots reached."""

    table: str
    action: Literal["expire"] = "expire"
    dry_run: bool
    snapshots: int
    retained: int
    files: int
    left: int


class OrphansResult(_Frozen):
    """`maintain clean-orphans` of one table. `left` could not be deleted; `unlisted` are places not looked at."""

    table: str
    action: Literal["clean-orphans"] = "clean-orphans"
    dry_run: bool
    listed: int
    young: int
    files: int
    bytes: int
    left: int
    unlisted: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class CompactResult(_Frozen):
    """`maintain compact` of one table: so many data files became so many, over all commits.

    `left`: files that could not be put together; the log says why. `waits`: other writers' files, or a lost index,
    come first: with the next merge that finds changes, or `maintain index`.
    """

    table: str
    action: Literal["compact"] = "compact"
    dry_run: bool
    commits: int
    files_before: int
    files_after: int
    rows: int
    left: int = 0
    waits: bool = False


class IndexResult(_Frozen):
    """`maintain index` of one table: segments checked, those that are damaged, and the runs before and after.

    `lost`: the root could not be read, and all of it is built anew. `behind`: others have written since the last merge.
    `waits`: what is to be done comes with the first merge, since nothing was merged yet.
    """

    table: str
    action: Literal["index"] = "index"
    dry_run: bool
    segments: int
    damaged: int
    lost: bool
    behind: bool
    runs_before: int
    runs_after: int
    commits: int
    waits: bool = False


MaintainResult = ExpireResult | OrphansResult | CompactResult | IndexResult


class Position(_Frozen):
    """Where a mirror stands after a step of the job."""

    cursor: Cursor | None
    live_rows: int
    index_bytes: int


class Left(_Frozen):
    """What of a changelog is not merged: snapshots (one that is merged in part counts), events, and since when."""

    snapshots: int
    events: int
    since: float | None = None


class Merged(_Frozen):
    """One slice was committed; there may be more. `left`: what its plan leaves for others, if it tells."""

    slice: SliceResult
    position: Position
    left: Left | None = None


class UpToDate(_Frozen):
    """The plan was empty: the mirror holds all of the changelog up to `head`, its metadata location."""

    head: str
    position: Position


class Staged(_Frozen):
    """One more slice of a mirror that is built anew out of sight, so far of so many events. Readers see the old one."""

    events: int
    of_events: int
    position: None = None
    left: Left | None = None


class Rebuilt(_Frozen):
    """What was built out of sight, of so many events, is what the mirror holds now; there may be more to merge."""

    events: int
    position: Position


Advance = Merged | Staged | Rebuilt | UpToDate


class Behind(Left):
    """What the tables themselves say: what a merge would take now, since when it is there, where the mirror stands."""

    position: Position | None = None
