"""Writes entries whose files are ordinals of the root: the segment lists just those that it needs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from pyiceberg.io import FileIO

from spark_job.files.written import written_before_commit
from spark_job.key_index.segment import TOMBSTONE, Entries, Recipe, SegmentInfo, write_segment


def write_entries(
    io: FileIO, location: str, entries: Entries, recipe: Recipe, paths: Mapping[int, str]
) -> SegmentInfo | None:
    """A segment under a new name, or None where there is nothing to write; a failed one is removed."""
    if not len(entries):
        return None
    ordinals, local = np.unique(entries.file, return_inverse=True)
    dead = int(ordinals[0] == TOMBSTONE)
    files = tuple(int(ordinal) for ordinal in ordinals[dead:])
    path = f"{location}/{uuid.uuid4()}.segment.puffin"
    with written_before_commit(io, [path]):
        return write_segment(
            io,
            path,
            replace(entries, file=(local - dead).astype(np.int32)),
            recipe,
            [paths[ordinal] for ordinal in files],
            files,
        )
