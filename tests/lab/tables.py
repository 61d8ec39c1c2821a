"""Tables that PyIceberg wrote and icemirror did not make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import live_files
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.write.deletes import write_deletes
from tests.lab import foreign
from tests.lab.lab import Lab
from tests.manifests import list_manifests

PLAIN = Schema(
    NestedField(7, "name", StringType(), required=False), NestedField(9, "id", LongType(), required=False)
)


def make_table(lab: Lab, *files: Iterable[tuple[int | None, str]], schema: Schema = PLAIN) -> Table:
    """`lab.world` with these rows, a file for each group; the columns are in another order than the changelog's."""
    table = lab.catalog.create_table("lab.world", schema)
    for rows in files:
        add_rows(table, rows)
    return table


def add_rows(table: Table, rows: Iterable[tuple[int | None, str]]) -> None:
    """One more file."""
    told = [{"id": key, "name": name} for key, name in rows]
    table.append(pa.Table.from_pylist(told, schema=schema_to_pyarrow(table.schema())))


def delete_rows(lab: Lab, ids: Iterable[int]) -> None:
    """Position deletes."""
    foreign.delete_rows(lab.mirror, ids)


def list_file(lab: Lab, **differences: Any) -> None:
    """One more file in the table's manifests, which need not exist: made so from a real one."""
    table = lab.mirror
    head = table.current_snapshot()
    assert head is not None
    (manifest, *_) = list_manifests(table.io, head.manifest_list)
    told = read_manifest_entries(table.io, manifest)[0].data_file
    arguments = {
        "content": told.content,
        "file_path": f"{told.file_path}-other",
        "file_format": told.file_format,
        "partition": told.partition,
        "record_count": told.record_count,
        "file_size_in_bytes": told.file_size_in_bytes,
    }
    file = DataFile.from_args(**{**arguments, **differences})
    file.spec_id = told.spec_id
    is_delete = file.content is not DataFileContent.DATA
    _commit(table, data_files=() if is_delete else (file,), delete_files=(file,) if is_delete else ())


def delete_positions(lab: Lab, positions: Iterable[int]) -> None:
    """One more file of position deletes for the first data file, whatever is deleted already."""
    table = lab.mirror
    live = live_files(table.io, table.current_snapshot())
    doomed = {next(iter(live)): np.array(list(positions), dtype=np.int64)}
    _commit(table, data_files=(), delete_files=write_deletes(table.io, table.metadata, doomed, live))


def _commit(table: Table, *, data_files: Sequence[DataFile], delete_files: Sequence[DataFile]) -> None:
    RowDelta(
        table=table,
        head=table.current_snapshot(),
        snapshot_id=table.metadata.new_snapshot_id(),
        data_files=data_files,
        delete_files=delete_files,
        summary={},
        properties={},
    ).commit()
