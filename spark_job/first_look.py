"""Before a mirror is made, its first slice is read for what no merge takes: bad input leaves no empty table behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pyiceberg.io import FileIO

from spark_job.append_rows import require_inserts
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes
from spark_job.changelog.read_changes import check_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.key_index.keys import Keys
from spark_job.runtime.engine import Engine
from spark_job.runtime.work import NarrowWork


@dataclass(frozen=True)
class Looked:
    """Nothing was wrong."""

    @property
    def paths(self) -> list[str]:
        """Nothing is written."""
        return []


@dataclass(frozen=True)
class FirstLook(NarrowWork):
    """Reads the narrow columns of some files, and refuses what a merge refuses; sent to the tasks."""

    io: FileIO
    files: tuple[ChangeFile, ...]
    shape: ChangelogShape

    def source(self, file: ChangeFile) -> tuple[FileIO, tuple[int, ...]]:
        """The changelog, and the field ids of its key."""
        return self.io, self.shape.key_ids

    def read(self, ordinals: range) -> Changes:
        """No events, after a look at all of these files."""
        check = require_inserts if self.shape.is_keyless else check_changes
        for ordinal in ordinals:
            check(self.io, self.files[ordinal], self.shape)
        none = np.empty(0, dtype=np.uint32)
        sequence = np.empty((0, self.shape.sequence.parts), dtype=np.uint64)
        return Changes(Keys(np.empty(0, dtype=np.uint64)), none.astype(np.uint8), sequence, none, none)

    def merge(self, read: Callable[[], Changes]) -> Looked:
        """Looks."""
        read()
        return Looked()


def look_first(engine: Engine, io: FileIO, files: tuple[ChangeFile, ...], shape: ChangelogShape) -> None:
    """Raises what merging these files would raise for their keys, operations and sequences."""
    if files:
        engine.run(FirstLook(io, files, shape))
