"""The sequences of the events in a changelog file, without their keys."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from pyiceberg.io import FileIO

from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.narrow import read_sequence
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.parquet_columns import open_parquet
from spark_job.key_index.keys import U64
from spark_job.key_index.orders import greatest_order


def read_sequences(io: FileIO, file: ChangeFile, shape: ChangelogShape) -> U64:
    """One row of parts for each event that counts; only where some may be rejected more than the sequence is read."""
    if shape.rejects:
        return read_changes(io, file, 0, shape).sequence
    with open_parquet(io, file.path, file.events) as parquet:
        columns = read_sequence(parquet, file.path, shape)
    return shape.sequence.encode(columns, file.path, np.ones(len(columns[0]), dtype=np.bool_))


def newest_order(io: FileIO, files: Iterable[ChangeFile], shape: ChangelogShape) -> tuple[int, ...]:
    """The greatest order of any event in these files; only the sequence is read."""
    newest = (0,) * (shape.sequence.parts + 1)
    for file in files:
        if file.events and len(sequences := read_sequences(io, file, shape)):
            newest = max(newest, (*greatest_order(sequences), file.sequence_number))
    return newest
