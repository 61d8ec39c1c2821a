"""The quick look at what others wrote since the index was made: keys of theirs that the mirror has already.

A merge refuses them before it indexes anything, so nothing but these rows can have such keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icemirror.errors import Invalid
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.distinct import distinct
from spark_job.iceberg.view import LiveFile
from spark_job.index_upkeep.catch_up import compare
from spark_job.key_index.keys import Keys, Mask, concat_keys
from spark_job.key_index.root import Root
from spark_job.locate import Index, Located
from spark_job.verify.sample import where
from spark_job.verify.subject import Subject
from spark_job.write.vectors import deleted_positions

_MOST_ROWS = 2_000_000


@dataclass(frozen=True)
class ForeignLook:
    """Rows of others whose key another row has, how many of their rows were looked at, and of how many."""

    doubled: Sequence[tuple[str, int]] = ()
    rows: int = 0
    of_rows: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What was looked at."""
        if not self.of_rows:
            return ()
        looked = f"{self.rows:,} of {self.of_rows:,} rows that others wrote since then were looked at"
        only = "whether the changelog tells of them, only --deep does"
        return (f"{looked} for keys that are twice there; {only}",)


def check_foreign(subject: Subject, most_rows: int = _MOST_ROWS) -> ForeignLook:
    """Reads the keys of the rows that others wrote, of the smallest files first, up to so many rows."""
    root = subject.mirror.root
    if root is None or not subject.mirror.foreign or not subject.mirror.others_changed_rows:
        return ForeignLook()
    off = compare(root, subject.head_files)
    came = sorted(off.came, key=lambda file: (file.rows, file.path))
    taken = np.cumsum([file.rows for file in came]) <= most_rows
    chosen = [file for file, take in zip(came, taken, strict=True) if take and file.rows > file.deleted]
    of_rows = sum(file.rows - file.deleted for file in came)
    if not chosen:
        return ForeignLook(of_rows=of_rows)
    keys, file, row = _read(subject, chosen)
    order = keys.argsort()
    keys, file, row = keys.take(order), file[order], row[order]
    twice: Mask = np.zeros(len(keys), dtype=np.bool_)
    twice[1:] = keys.same_as_next()
    known = where(Index(subject.io, root.segments, root.gone | off.gone), root, keys)
    twice |= _lives(subject, root, known)
    places = [(chosen[int(at)].path, int(pos)) for at, pos in zip(file[twice], row[twice], strict=True)]
    return ForeignLook(sorted(places), len(keys), of_rows)


def _read(subject: Subject, files: Sequence[LiveFile]) -> tuple[Keys, NDArray[np.int64], NDArray[np.int64]]:
    """The keys of all live rows, and where each is: the place of its file, and its row."""
    dead = deleted_positions(subject.io, {file.path: file for file in files if file.deleted})
    keys: list[Keys] = []
    places: list[NDArray[np.int64]] = []
    rows: list[NDArray[np.int64]] = []
    for at, file in enumerate(files):
        with open_parquet(subject.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, subject.key_ids)
        live = np.setdiff1d(np.arange(file.rows), dead.get(file.path, np.empty(0, np.int64)))
        columns = [column.take(live) for column in columns]
        if any(column.null_count for column in columns):
            raise Invalid(f"{file.path}: has rows without a key")
        keys.append(subject.shape.codec.encode(columns))
        places.append(np.full(len(live), at, dtype=np.int64))
        rows.append(live)
    return concat_keys(keys), np.concatenate(places), np.concatenate(rows)


def _lives(subject: Subject, root: Root, known: Located) -> Mask:
    """Whether the row that the index knows of each key is still in the table."""
    lives: Mask = known.file >= 0
    paths = {int(at): root.files[int(at)].path for at in distinct(known.file[lives])}
    dead = deleted_positions(subject.io, {path: subject.head_files[path] for path in paths.values()})
    for at, path in paths.items():
        here = known.file == at
        lives[here] = ~np.isin(known.pos[here], dead[path])
    return lives
