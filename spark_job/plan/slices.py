"""Cuts changelog files into slices, one per commit, each with the cursor after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from icemirror.tables.cursor import Cursor, CursorSource, Truncation
from spark_job.changelog.history import ChangelogFile


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
        """`files_done` of a cursor after it: all files, for an expired commit before the snapshot's own."""
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
    added = tuple(file for file in snapshot.files if file.sequence_number == snapshot.sequence_number)
    commits = groupby(snapshot.files[: len(snapshot.files) - len(added)], lambda file: file.sequence_number)
    before = [
        ChangelogSnapshot(snapshot.snapshot_id, number, tuple(files), is_expired_commit=True)
        for number, files in commits
    ]
    return [*before, replace(snapshot, files=added)]


def cut_files(files: Sequence[ChangelogFile], limits: SliceLimits) -> list[tuple[ChangelogFile, ...]]:
    """Group files into slices."""
    groups: list[list[ChangelogFile]] = []
    events = size = 0
    for file in files:
        events, size = events + file.events, size + file.bytes
        if not groups or events > limits.events or size > limits.bytes:
            groups.append([])
            events, size = file.events, file.bytes
        groups[-1].append(file)
    return [tuple(group) for group in groups]


def plan_slices(
    uuid: str,
    snapshots: Sequence[ChangelogSnapshot],
    done: Mapping[int, int],
    limits: SliceLimits,
    truncated: Truncation | None = None,
) -> list[Slice]:
    """Cut snapshots into slices; `done`: how many files of the first one are merged already.

    `truncated`: the last truncation that the mirror followed.
    """
    slices: list[Slice] = []
    files: list[ChangelogFile] = []
    events = size = 0

    def close(snapshot: ChangelogSnapshot, files_done: int | None) -> None:
        nonlocal files, events, size
        source = CursorSource(
            uuid=uuid,
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            files_done=files_done,
            truncated=truncated,
        )
        slices.append(Slice(tuple(files), Cursor(sources=(source,))))
        files, events, size = [], 0, 0

    last_whole: ChangelogSnapshot | None = None
    for at, snapshot in enumerate(snapshots):
        for number, file in enumerate(snapshot.files):
            if at == 0 and number < done.get(snapshot.snapshot_id, 0):
                continue
            if files and (events + file.events > limits.events or size + file.bytes > limits.bytes):
                if number == 0 and last_whole is not None:
                    close(last_whole, last_whole.files_done)
                else:
                    close(snapshot, number)
            files.append(file)
            events, size = events + file.events, size + file.bytes
        last_whole = snapshot
    if last_whole is not None:
        close(last_whole, last_whole.files_done)
    return slices
