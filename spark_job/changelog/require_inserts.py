"""Checks that a changelog file of an append_only table contains only inserts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from icemirror.errors import Invalid
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_columns import quote_operation
from spark_job.changelog.memory_bounds import refuse_long_values
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.parquet_columns import check_field_ids, column_paths, open_parquet, read_columns


def require_inserts(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> None:
    """Raise `Invalid` if an event of the file is not an insert: without a key, its row cannot be found."""
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_field_ids(parquet, file.path, shape.last_column_id)
        if shape.operation_id is None:
            return
        paths = column_paths(parquet, file.path, (shape.operation_id,))
        if not paths and None in shape.operations:
            return
        refuse_long_values(io, file.path, parquet, [".".join(path) for path in paths.values()])
        (column,) = read_columns(parquet, file.path, (shape.operation_id,))
    operations = column.cast(pa.large_string())
    for value in pc.unique(operations).to_pylist():
        if value not in shape.operations:
            insert_values = ", ".join(sorted(filter(None, shape.operations)))
            matches = operations.is_null() if value is None else pc.equal(operations, value).fill_null(False)
            row = int(np.flatnonzero(matches.to_numpy(zero_copy_only=False))[0])
            if value in shape.truncate_operations:
                raise Invalid(
                    f"{shape.changelog_name}: the source table was truncated ({quote_operation(value)}), which an "
                    "append_only table does not follow. Configure the connector to write no such rows "
                    "(skipped.operations of Debezium), copy the source into a new changelog and rebuild the mirror "
                    "from it; or name the key columns in primary_keys instead of append_only. Found in row "
                    f"{row} of {file.path}"
                )
            raise Invalid(
                f"{shape.changelog_name}: the operation in row {row} is {quote_operation(value)}. Events of an "
                f"append_only table can only add rows ({insert_values}). Name the key columns in primary_keys "
                "instead of append_only; or, to append a row for such events too, add the operation to "
                f"operation_values.insert; then `icemirror resume`. Found in {file.path}"
            )
