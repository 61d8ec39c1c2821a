"""The sequences of the events in a changelog file, without their keys."""

from __future__ import annotations

import numpy as np
from pyiceberg.io import FileIO

from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.shape import ChangelogShape
from spark_job.collapse import read_changes
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.key_index.keys import U64


def read_sequences(io: FileIO, file: ChangeFile, shape: ChangelogShape) -> U64:
    """One row of parts for each event that counts; only where some may be rejected more than the sequence is read."""
    if shape.rejects:
        return read_changes(io, file, 0, shape).sequence
    with open_parquet(io, file.path, file.events) as parquet:
        columns = read_columns(parquet, file.path, shape.sequence.field_ids)
    return shape.sequence.encode(columns, file.path, np.ones(len(columns[0]), dtype=np.bool_))
