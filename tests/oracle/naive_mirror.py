"""A mirror that rewrites the whole table with every merge; the judge is tested against it."""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.cli.demo.oracle.mirror_readers import CURSOR_PROPERTY
from icemirror.tables.cursor import Cursor, CursorSource
from tests.oracle.world import World


def overwrite_mirror(
    catalog: Catalog, world: World, rows: pa.Table, at_snapshot_id: int, files_done: int | None = None
) -> Table:
    """Replace the mirror's content by these rows, with a cursor at that changelog snapshot."""
    snapshot = world.changelog.table.snapshot_by_id(at_snapshot_id)
    assert snapshot is not None
    assert snapshot.sequence_number is not None
    source = CursorSource(
        uuid=str(world.changelog.table.metadata.table_uuid),
        snapshot_id=at_snapshot_id,
        sequence_number=snapshot.sequence_number,
        files_done=files_done,
    )
    mirror = _mirror(catalog, world)
    properties = {CURSOR_PROPERTY: Cursor(sources=(source,)).model_dump_json()}
    path = f"{mirror.location()}/data/{uuid4()}.parquet"
    with mirror.io.new_output(path).create() as stream:
        pq.write_table(rows.cast(schema_to_pyarrow(mirror.schema())), stream)
    # One snapshot; Table.overwrite would commit two, the first of them empty.
    with (
        mirror.transaction() as transaction,
        transaction.update_snapshot(snapshot_properties=properties).overwrite() as overwrite,
    ):
        for task in mirror.scan().plan_files():
            overwrite.delete_data_file(task.file)
        overwrite.append_data_file(parquet_file_to_data_file(mirror.io, mirror.metadata, path))
    return mirror


def _mirror(catalog: Catalog, world: World) -> Table:
    identifier = (world.identifier[0], world.identifier[1].removesuffix("_changelog"))
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        names = set(world.subject.columns.names)
        fields = [field for field in world.shape.schema.fields if field.name in names]
        schema = Schema(*fields, identifier_field_ids=world.shape.schema.identifier_field_ids)
        return catalog.create_table(identifier, schema)
