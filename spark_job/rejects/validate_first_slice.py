"""Validates the first slice before the mirror is created, so that bad input leaves no empty table behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pyiceberg.io import FileIO

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.read_events import validate_file
from spark_job.changelog.require_inserts import require_inserts
from spark_job.changelog.shape import ChangelogShape
from spark_job.engine.engine import Engine
from spark_job.engine.work import KeyOnlyWork, WorkFile
from spark_job.index.keys import Keys


@dataclass(frozen=True)
class ValidSlice:
    """The result of a task that found nothing wrong."""

    @property
    def paths(self) -> list[str]:
        """No paths: a validation writes no file."""
        return []


@dataclass(frozen=True)
class ValidateWork(KeyOnlyWork):
    """Reads key, operation and sequence of some files, and raises what a merge raises; sent to the tasks."""

    io: FileIO
    files: tuple[ChangelogFile, ...]
    shape: ChangelogShape

    def key_source(self, file: WorkFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the changelog's storage and the field ids of its key."""
        return self.io, self.shape.key_ids

    def read(self, ordinals: range) -> EventBatch:
        """Validate these files; return no events."""
        check = require_inserts if self.shape.is_keyless else validate_file
        for ordinal in ordinals:
            check(self.io, self.files[ordinal], self.shape)
        none = np.empty(0, dtype=np.uint32)
        sequence = np.empty((0, self.shape.sequence.parts), dtype=np.uint64)
        return EventBatch(Keys(np.empty(0, dtype=np.uint64)), none.astype(np.uint8), sequence, none, none)

    def run_shard(self, read: Callable[[], EventBatch]) -> ValidSlice:
        """Validate a range of keys."""
        read()
        return ValidSlice()


def validate_first_slice(
    engine: Engine, io: FileIO, files: tuple[ChangelogFile, ...], shape: ChangelogShape
) -> None:
    """Raise what merging these files would raise for their keys, operations and sequences."""
    if files:
        engine.run(ValidateWork(io, files, shape))
