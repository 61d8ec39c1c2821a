"""Which part of a changelog a replay asks for."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Invalid
from icemirror.state.replay import Replay
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.lineage import History, added_files, refuse_changes, stands_for_all, walk_back


@dataclass(frozen=True, slots=True)
class ReplayRange:
    """Snapshots of a changelog, oldest first, and their files, in the order of events, as far as they are merged."""

    snapshots: tuple[Snapshot, ...]
    files: tuple[ChangeFile, ...]


def find_range(changelog: Table, name: str, replay: Replay, waiting: Set[str]) -> ReplayRange:
    """The part that is asked for, without the files that wait to be merged; an error where it has expired."""
    line = walk_back(changelog, name, None)[::-1]
    if not line:
        raise Invalid(f"{name}: has no snapshot, so there is nothing to replay.")
    if replay.from_snapshot is not None:
        first = _place(line, name, replay.from_snapshot)
    else:
        first = _first_since(changelog, line, name, replay.since_ms or 0)
    last = len(line) - 1 if replay.to_snapshot is None else _place(line, name, replay.to_snapshot)
    if last < first:
        raise Invalid(
            f"{name}: snapshot {line[last].snapshot_id} is older than {line[first].snapshot_id}; "
            "a replay goes from the older to the newer one."
        )
    asked = tuple(line[first : last + 1])
    for snapshot in asked[1:]:
        refuse_changes(name, snapshot)
    files = added_files(changelog.io, name, History(asked, whole=False))
    listed = [file for snapshot in asked for file in files.get(snapshot.snapshot_id, ())]
    return ReplayRange(asked, tuple(file for file in listed if file.path not in waiting))


def _place(line: Sequence[Snapshot], name: str, snapshot_id: int) -> int:
    for place, snapshot in enumerate(line):
        if snapshot.snapshot_id == snapshot_id:
            return place
    raise Invalid(
        f"{name}: has no snapshot {snapshot_id} in its history: it has expired, was rolled back, or never was. The "
        f"oldest there is {_described(line[0])}, the newest {_described(line[-1])}. Begin at one of those that are "
        "there, or rebuild the mirror from all that the changelog holds: --full."
    )


def _first_since(changelog: Table, line: Sequence[Snapshot], name: str, since_ms: int) -> int:
    """The oldest snapshot that was made at that time or later, if it is certain that none before it is missing."""
    place = next((at for at, one in enumerate(line) if one.timestamp_ms >= since_ms), None)
    if place is None:
        raise Invalid(
            f"{name}: nothing was committed since {_time(since_ms)}; its newest snapshot is {_described(line[-1])}."
        )
    if place == 0 and stands_for_all(changelog, line[0], None):
        raise Invalid(
            f"{name}: snapshots since {_time(since_ms)} may have expired; the oldest that is left is "
            f"{_described(line[0])}. Begin there (--from-snapshot), or rebuild the mirror from all that the changelog "
            "holds: --full."
        )
    return place


def _described(snapshot: Snapshot) -> str:
    return f"{snapshot.snapshot_id} of {_time(snapshot.timestamp_ms)}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
