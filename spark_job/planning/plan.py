"""Plan: which changelog files the next commits take, and where the cursor stands after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from icemirror.cursor import Cursor, Source, Truncation
from spark_job.changelog.change_file import ChangeFile


@dataclass(frozen=True, slots=True)
class ChangelogSnapshot:
    """A snapshot after the cursor, with the files that it added.

    Not `last`: a commit before it that has expired, whose files this snapshot still lists. The sequence number is that
    commit's, so that a cursor which is less than its snapshot's number is one among those.
    """

    snapshot_id: int
    sequence_number: int
    files: tuple[ChangeFile, ...]
    last: bool = True

    @property
    def files_done(self) -> int | None:
        """What a cursor says that stands behind it: of a commit before the snapshot's own, all of its files."""
        return None if self.last else len(self.files)


@dataclass(frozen=True, slots=True)
class Slice:
    """The work of one commit. Its files are in the order of events."""

    files: tuple[ChangeFile, ...]
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
    """The most that one commit takes; a single larger file is taken alone."""

    events: int
    bytes: int


def split_commits(snapshot: ChangelogSnapshot) -> list[ChangelogSnapshot]:
    """A snapshot that stands for all before it, as the commits that its files came from."""
    own = tuple(file for file in snapshot.files if file.sequence_number == snapshot.sequence_number)
    commits = groupby(snapshot.files[: len(snapshot.files) - len(own)], lambda file: file.sequence_number)
    before = [
        ChangelogSnapshot(snapshot.snapshot_id, number, tuple(files), last=False) for number, files in commits
    ]
    return [*before, replace(snapshot, files=own)]


def cut_files(files: Sequence[ChangeFile], limits: SliceLimits) -> list[tuple[ChangeFile, ...]]:
    """The files in groups that one commit takes each."""
    groups: list[list[ChangeFile]] = []
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
    """Cuts the snapshots into slices; `done` tells how many files of the first one are merged already.

    `truncated`: the last truncation that was followed.
    """
    slices: list[Slice] = []
    files: list[ChangeFile] = []
    events = size = 0

    def close(snapshot: ChangelogSnapshot, files_done: int | None) -> None:
        nonlocal files, events, size
        source = Source(
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
