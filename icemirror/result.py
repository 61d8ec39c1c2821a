"""Results of plans, merges and maintenance, as `--json` prints them and the state stores them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from icemirror.errors import Kind
from icemirror.tables.cursor import Cursor


class FrozenResult(BaseModel):
    """Base of all results: frozen, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class SliceResult(FrozenResult):
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


class ErrorResult(FrozenResult):
    """Why a table failed."""

    kind: Kind
    message: str


class TableResult(FrozenResult):
    """Result of one table of `merge`."""

    table: str
    outcome: Literal["merged", "up-to-date", "rebuilt", "failed"]
    live_rows: int | None = None
    cursor: Cursor | None = None
    slices: tuple[SliceResult, ...] = ()
    seconds: float
    error: ErrorResult | None = None


class PlanResult(FrozenResult):
    """What a merge of one table would do.

    `fills_mirror`: the mirror exists, and nothing was merged into it yet.
    `schema_changes`: changes of the mirror's columns; `refused`: why a merge refuses them, if it does.
    `rebuilds_mirror`: merging cannot continue, so the mirror is rebuilt from the whole changelog.
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


class ReplayPlan(FrozenResult):
    """What a replay of one table would read. `full`: the mirror is rebuilt from the whole changelog."""

    table: str
    full: bool
    from_snapshot: int | None
    to_snapshot: int | None
    snapshots: int
    files: int
    bytes: int
    events: int
    slices: int


class ExpireResult(FrozenResult):
    """Result of `maintain expire`. `files`: files that only the removed snapshots referenced; `left`: not deleted."""

    table: str
    action: Literal["expire"] = "expire"
    dry_run: bool
    snapshots: int
    retained: int
    files: int
    left: int


class OrphansResult(FrozenResult):
    """Result of `maintain clean-orphans`. `left`: files that could not be deleted; `unlisted`: skipped locations."""

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


class CompactResult(FrozenResult):
    """Result of `maintain compact`: the number of data files before and after, over all commits.

    `left`: files that could not be compacted; the reason is in the log.
    `waits`: foreign writes or an unreadable index must be repaired first, by the next merge that finds changes or by
    `maintain index`.
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


class IndexResult(FrozenResult):
    """Result of `maintain index`: checked and damaged segments, and the number of runs before and after.

    `lost`: the root is unreadable, so the whole index is rebuilt. `behind`: there are foreign writes to index.
    `waits`: nothing was merged yet, so the first merge does the work.
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
