"""The range of a changelog that a replay requests."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Invalid
from icemirror.protocol.replay import Replay
from spark_job.changelog.added_files import ChangelogFile, added_files
from spark_job.changelog.history import (
    History,
    has_unmerged_expired_files,
    require_append,
    snapshots_newest_first,
)


@dataclass(frozen=True, slots=True)
class ReplayRange:
    """Snapshots of a changelog, oldest first, and those of their files that are merged, in the order of events."""

    snapshots: tuple[Snapshot, ...]
    files: tuple[ChangelogFile, ...]


def find_replay_range(changelog: Table, name: str, replay: Replay, unmerged: Set[str]) -> ReplayRange:
    """Return the requested range without unmerged files; raise `Invalid` if it has expired."""
    history = snapshots_newest_first(changelog)[::-1]
    if not history:
        raise Invalid(f"{name}: has no snapshot, so there is nothing to replay.")
    if replay.from_snapshot is not None:
        first = _find_index(history, name, replay.from_snapshot)
    else:
        first = _first_since(changelog, history, name, replay.since_ms or 0)
    last = len(history) - 1 if replay.to_snapshot is None else _find_index(history, name, replay.to_snapshot)
    if last < first:
        raise Invalid(
            f"{name}: snapshot {history[last].snapshot_id} is older than {history[first].snapshot_id}; "
            "a replay goes from the older to the newer one."
        )
    requested = tuple(history[first : last + 1])
    for snapshot in requested[1:]:
        require_append(name, snapshot)
    files = added_files(changelog.io, name, History(requested, covers_expired=False))
    requested_files = [file for snapshot in requested for file in files.get(snapshot.snapshot_id, ())]
    return ReplayRange(requested, tuple(file for file in requested_files if file.path not in unmerged))


def _find_index(history: Sequence[Snapshot], name: str, snapshot_id: int) -> int:
    for index, snapshot in enumerate(history):
        if snapshot.snapshot_id == snapshot_id:
            return index
    raise Invalid(
        f"{name}: has no snapshot {snapshot_id} in its history: it has expired, was rolled back, or never existed. The "
        f"oldest snapshot is {_describe_snapshot(history[0])}, the newest {_describe_snapshot(history[-1])}. "
        "Start at one in between, or rebuild the mirror from the whole changelog: --full."
    )


def _first_since(changelog: Table, history: Sequence[Snapshot], name: str, since_ms: int) -> int:
    """Return the index of the oldest snapshot since that time; raise `Invalid` if earlier ones may have expired."""
    index = next((index for index, snapshot in enumerate(history) if snapshot.timestamp_ms >= since_ms), None)
    if index is None:
        raise Invalid(
            f"{name}: nothing was committed since {_format_time(since_ms)}; its newest snapshot is "
            f"{_describe_snapshot(history[-1])}."
        )
    # None: asks only whether files of expired snapshots exist.
    if index == 0 and has_unmerged_expired_files(changelog, history[0], None):
        raise Invalid(
            f"{name}: snapshots since {_format_time(since_ms)} may have expired; the oldest snapshot is "
            f"{_describe_snapshot(history[0])}. Start there (--from-snapshot), or rebuild the mirror from the whole "
            "changelog: --full."
        )
    return index


def _describe_snapshot(snapshot: Snapshot) -> str:
    return f"{snapshot.snapshot_id} of {_format_time(snapshot.timestamp_ms)}"


def _format_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
