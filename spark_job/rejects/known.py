"""Which bad rows the rejects table has already, by their place in the changelog: its file, and the row there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

from icemirror.errors import Invalid
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.rejected import Rejected
from spark_job.distinct import distinct
from spark_job.key_index.keys import U64, Mask
from spark_job.rejects.columns import Columns, Own
from spark_job.rejects.table import RejectsTable


def find_known(target: RejectsTable, files: Sequence[ChangeFile], rejected: Rejected) -> Mask:
    """For each of them whether the table has it. Only files that hold rows of the same commits are read."""
    return known_places(target.table, target.standing, files, rejected)


def known_places(table: Table, columns: Columns, files: Sequence[ChangeFile], rejected: Rejected) -> Mask:
    """The same of a table with these columns."""
    named = _names(columns)
    if table.current_snapshot() is None or named is None:
        return np.zeros(len(rejected), dtype=np.bool_)
    ordinals = distinct(rejected.file)
    commits = [files[ordinal].sequence_number for ordinal in ordinals.tolist()]
    # Files that a compaction wrote count to the commit before it where nothing older is left, later to its own.
    rows = _read(table, *named, min(commits) - 1, max(commits) + 1)
    paths = pa.array([files[ordinal].path for ordinal in ordinals.tolist()], pa.large_string())
    at = pc.index_in(rows.column(0).cast(pa.large_string()), value_set=paths)
    ours = at.is_valid()
    file = ordinals[at.filter(ours).to_numpy()]
    position = rows.column(1).filter(ours).to_numpy().astype(np.uint32)
    return np.isin(_places(rejected.file, rejected.row), _places(file, position))


def _places(file: NDArray[np.uint32], row: NDArray[np.uint32]) -> U64:
    return (file.astype(np.uint64) << np.uint64(32)) | row


def _names(columns: Columns) -> tuple[str, str, str] | None:
    """What the columns of commit, file and position are called; None where somebody dropped one."""
    schema, ids = columns.schema, columns.ids
    commit, file, position = (
        schema.find_column_name(ids.get(one, 0)) for one in (Own.COMMIT, Own.FILE, Own.POSITION)
    )
    return (commit, file, position) if commit and file and position else None


def _read(table: Table, commit: str, file: str, position: str, first: int, last: int) -> pa.Table:
    """Files and positions of what was rejected of these commits."""
    number = Reference(name=commit)
    within = And(
        GreaterThanOrEqual(term=number, value=literal(first)),
        LessThanOrEqual(term=number, value=literal(last)),
    )
    try:
        rows = table.scan(row_filter=within, selected_fields=(file, position)).to_arrow()
    except (ValueError, NotImplementedError) as error:  # equality deletes, which PyIceberg does not read
        raise Invalid(
            f"{'.'.join(table.name())}: what it holds cannot be read ({type(error).__name__}); nothing was merged. Let "
            "the engine that wrote to it rewrite its data files, or name another rejects_table."
        ) from error
    return rows.select([file, position]).drop_null()
