"""Cuts changelog files into slices, one per commit, each with the cursor after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from icemirror.tables.cursor import Cursor, CursorSource, Truncation
from spark_job.changelog.added_files import ChangelogFile


@dataclass(frozen=True, slots=True)
class ChangelogSnapshot:
    """A snapshot after the cursor, with the files that it added.

    `is_expired_commit`: an expired commit whose files this snapshot still lists; `sequence_number` is that commit's.
    """

    snapshot_id: int
    sequence_number: int
    files: tuple[ChangelogFile, ...]
    is_expired_commit: bool = False

    @property
    def files_done(self) -> int | None:
        """`files_done` of the cursor after this commit: None after a whole snapshot, else the number of its files."""
        return len(self.files) if self.is_expired_commit else None


@dataclass(frozen=True, slots=True)
class Slice:
    """The events of one commit: changelog files in the order of their events, and the cursor after them."""

    files: tuple[ChangelogFile, ...]
    cursor: Cursor

    @property
    def events(self) -> int:
        """Events to read."""
        return sum(file.events for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """The size limit of one slice; a single larger file is a slice by itself."""

    events: int
    bytes: int


def split_commits(snapshot: ChangelogSnapshot) -> list[ChangelogSnapshot]:
    """Split a snapshot whose ancestors expired into the commits that its files came from."""
    own_files = tuple(file for file in snapshot.files if file.sequence_number == snapshot.sequence_number)
    expired_files = snapshot.files[: len(snapshot.files) - len(own_files)]
    expired_commits = [
        ChangelogSnapshot(snapshot.snapshot_id, sequence_number, tuple(files), is_expired_commit=True)
        for sequence_number, files in groupby(expired_files, lambda file: file.sequence_number)
    ]
    return [*expired_commits, replace(snapshot, files=own_files)]


def cut_files(files: Sequence[ChangelogFile], limits: SliceLimits) -> list[tuple[ChangelogFile, ...]]:
    """Group files so that each group is within the limits."""
    groups: list[list[ChangelogFile]] = []
    group_events = group_bytes = 0
    for file in files:
        group_events, group_bytes = group_events + file.events, group_bytes + file.bytes
        if not groups or group_events > limits.events or group_bytes > limits.bytes:
            groups.append([])
            group_events, group_bytes = file.events, file.bytes
        groups[-1].append(file)
    return [tuple(group) for group in groups]


def plan_slices(
    uuid: str,
    snapshots: Sequence[ChangelogSnapshot],
    files_done: int,
    limits: SliceLimits,
    truncated: Truncation | None = None,
) -> list[Slice]:
    """Cut the snapshots of the changelog `uuid` into slices.

    `files_done`: how many files of the first snapshot are merged. `truncated`: the last applied truncation.
    """
    if not snapshots:
        return []
    unmerged = [
        (snapshot_index, file_index)
        for snapshot_index, snapshot in enumerate(snapshots)
        for file_index in range(0 if snapshot_index else files_done, len(snapshot.files))
    ]
    files = [snapshots[snapshot_index].files[file_index] for snapshot_index, file_index in unmerged]
    slices: list[Slice] = []
    next_file = 0
    for group in cut_files(files, limits) or [()]:
        next_file += len(group)
        if next_file == len(files):
            snapshot_index, file_index = len(snapshots), 0
        else:
            snapshot_index, file_index = unmerged[next_file]
        # The cursor is before the next file: after a whole snapshot, or inside of one.
        snapshot = snapshots[snapshot_index if file_index else snapshot_index - 1]
        source = CursorSource(
            uuid=uuid,
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            files_done=file_index or snapshot.files_done,
            truncated=truncated,
        )
        slices.append(Slice(group, Cursor(sources=(source,))))
    return slices
