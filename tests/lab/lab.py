"""A changelog whose events are written as short words, and the real pipeline, without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, LongType, NestedField, StringType

from icemirror.config_file.load import load_settings
from icemirror.result import TableResult
from icemirror.settings import Settings, TableSettings
from spark_job.commands.merge_table import merge_table
from spark_job.commit.row_delta import RowDelta
from spark_job.engine.engine import Engine, InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata
from tests.lab.mirrored_world import write_config

_WORD = re.compile(r"([IUD])(-?\d+)@(\d+)(?:=(\S*))?")
_OPERATION = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}


def changelog_schema(*columns: tuple[str, IcebergType], keys: Sequence[str] = ("id",)) -> Schema:
    """Return these columns and the two that Supabase ETL adds."""
    cdc = (("cdc_operation", StringType()), ("sequence_number", StringType()))
    required = (*keys, "cdc_operation", "sequence_number")
    fields = [
        NestedField(field_id, name, kind, required=name in required)
        for field_id, (name, kind) in enumerate((*columns, *cdc), 1)
    ]
    return Schema(*fields, identifier_field_ids=[field.field_id for field in fields if field.name in keys])


ID_AND_NAME = changelog_schema(("id", LongType()), ("name", StringType()))


def sequence_text(number: int) -> str:
    """Format a sequence like Supabase ETL."""
    return f"{number:016x}/{0:016x}"


def events(words: str, schema: Schema = ID_AND_NAME) -> pa.Table:
    """Parse a file of events.

    `U5@7=x` updates key 5 to x with sequence 7. Without a value, the value is the word itself.
    """
    matches = [match for word in words.split() if (match := _WORD.fullmatch(word))]
    assert len(matches) == len(words.split()), words
    return rows_table(
        schema,
        [
            {
                "id": int(match[2]),
                "name": match[0] if match[4] is None else match[4],
                "cdc_operation": _OPERATION[match[1]],
                "sequence_number": sequence_text(int(match[3])),
            }
            for match in matches
        ],
    )


def rows_table(schema: Schema, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Build a table with the types that an Iceberg writer uses."""
    return pa.Table.from_pylist(list(rows), schema=schema_to_pyarrow(schema))


def append_files(table: Table, *files: pa.Table) -> int:
    """Commit these files unchecked, in one snapshot. Return its id."""
    listed = [write_file(table, file) for file in files]
    if table.metadata.format_version >= 3:  # PyIceberg does not write v3
        snapshot_id = table.metadata.new_snapshot_id()
        RowDelta(table, table.current_snapshot(), snapshot_id, listed, (), {}, {}).commit()
        table.refresh()
        return snapshot_id
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in listed:
            append.append_data_file(file)
    return append.snapshot_id


def write_file(table: Table, file: pa.Table) -> DataFile:
    """Write a data file that no snapshot lists."""
    path = f"{table.location()}/data/{uuid4()}.parquet"
    output = table.io.new_output(path)
    with output.create() as stream:
        pq.write_table(file, stream, compression="snappy")
    listed = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.num_rows,
        file_size_in_bytes=len(output),
    )
    listed.spec_id = table.metadata.default_spec_id
    return listed


def local_path(location: str) -> Path:
    """Return the path of a location in a local warehouse."""
    return Path(location.removeprefix("file://"))


@dataclass
class Lab:
    """A catalog in a folder, with one table, mirrored from `lab.world_changelog` to `lab.world`."""

    folder: Path
    settings: Settings
    pipeline: Pipeline
    changelog: Table

    @classmethod
    def make(
        cls,
        folder: Path,
        schema: Schema = ID_AND_NAME,
        *,
        options: str = "",
        extra_config: str = "",
        engine: Engine | None = None,
        changelog_version: int = 2,
    ) -> Lab:
        """Create a catalog with an empty changelog."""
        settings = load_settings(write_config(folder, options, extra_config), os.environ)
        catalogs = Catalogs(settings)
        catalogs.get(None).create_namespace("lab")
        version = {"format-version": str(changelog_version)}
        if changelog_version >= 3:
            enable_v3_metadata()
        changelog = catalogs.get(None).create_table("lab.world_changelog", schema, properties=version)
        return cls(folder, settings, _pipeline(settings, catalogs, engine), changelog)

    def reconfigure(self, options: str = "", extra_config: str = "", *, engine: Engine | None = None) -> Lab:
        """Return a lab with the same tables and other settings."""
        settings = load_settings(write_config(self.folder, options, extra_config), os.environ)
        return Lab(self.folder, settings, _pipeline(settings, Catalogs(settings), engine), self.changelog)

    @property
    def catalog(self) -> Catalog:
        """The catalog of the pipeline."""
        return self.pipeline.catalogs.get(None)

    @property
    def table(self) -> TableSettings:
        """The settings of the one table."""
        return self.settings.tables[0]

    @property
    def mirror(self) -> Table:
        """The mirror at its head."""
        return self.catalog.load_table("lab.world")

    def commit_events(self, *files: str) -> int:
        """Commit to the changelog, one file per text. Return the snapshot id."""
        return self.commit(*(events(words) for words in files))

    def commit(self, *files: pa.Table) -> int:
        """Commit these files to the changelog, unchecked. Return the snapshot id."""
        self.changelog.refresh()
        return append_files(self.changelog, *files)

    def merge(self) -> TableResult:
        """Merge up to the head. Fail if the merge fails."""
        result = self.try_merge()
        assert result.error is None, result.error
        return result

    def try_merge(self) -> TableResult:
        """Merge up to the head. Return the result, also of a failed merge."""
        return merge_table(self.pipeline, self.table)

    def rows(self) -> dict[Any, Any]:
        """Return the names by key, as PyIceberg reads them."""
        rows = self.mirror.scan().to_arrow()
        by_key = dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))
        assert len(by_key) == rows.num_rows, "a key has two rows"
        return by_key

    def files_on_disk(self) -> set[str]:
        """Return the paths of all files of mirror and index, relative to the warehouse."""
        warehouse = self.folder / "warehouse"
        return {
            str(path.relative_to(warehouse))
            for path in warehouse.rglob("*")
            if path.is_file() and "world_changelog" not in str(path)
        }


def _pipeline(settings: Settings, catalogs: Catalogs, engine: Engine | None) -> Pipeline:
    chosen = engine or InProcessEngine()
    return Pipeline(settings, catalogs, LazyEngine(lambda: chosen), run_id="test", key_check_rows=None)
