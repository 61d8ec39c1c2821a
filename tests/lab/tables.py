"""Tables that PyIceberg writes, without icemirror."""

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
from tests.lab.manifests import list_manifests

PLAIN = Schema(
    NestedField(7, "name", StringType(), required=False), NestedField(9, "id", LongType(), required=False)
)


def make_table(lab: Lab, *files: Iterable[tuple[int | None, str]], schema: Schema = PLAIN) -> Table:
    """Create `lab.world`, one file per group of rows; its column order differs from the changelog's."""
    table = lab.catalog.create_table("lab.world", schema)
    for rows in files:
        add_rows(table, rows)
    return table


def add_rows(table: Table, rows: Iterable[tuple[int | None, str]]) -> None:
    """Append one data file."""
    values = [{"id": key, "name": name} for key, name in rows]
    table.append(pa.Table.from_pylist(values, schema=schema_to_pyarrow(table.schema())))


def delete_rows(lab: Lab, ids: Iterable[int]) -> None:
    """Delete the rows of these ids with position deletes."""
    foreign.delete_rows(lab.mirror, ids)


def list_file(lab: Lab, **differences: Any) -> None:
    """List a file in the manifests: a copy of a real entry, with differences. The file need not exist."""
    table = lab.mirror
    head = table.current_snapshot()
    assert head is not None
    (manifest, *_) = list_manifests(table.io, head.manifest_list)
    listed = read_manifest_entries(table.io, manifest)[0].data_file
    arguments = {
        "content": listed.content,
        "file_path": f"{listed.file_path}-other",
        "file_format": listed.file_format,
        "partition": listed.partition,
        "record_count": listed.record_count,
        "file_size_in_bytes": listed.file_size_in_bytes,
    }
    file = DataFile.from_args(**{**arguments, **differences})
    file.spec_id = listed.spec_id
    is_delete = file.content is not DataFileContent.DATA
    _commit(table, data_files=() if is_delete else (file,), delete_files=(file,) if is_delete else ())


def delete_positions(lab: Lab, positions: Iterable[int]) -> None:
    """Commit position deletes for the first data file, even if these positions are already deleted."""
    table = lab.mirror
    live = live_files(table.io, table.current_snapshot())
    deleted = {next(iter(live)): np.array(list(positions), dtype=np.int64)}
    _commit(table, data_files=(), delete_files=write_deletes(table.io, table.metadata, deleted, live, []))


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
