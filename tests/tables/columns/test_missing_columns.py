"""Columns missing from a changelog file: the partition's value, else the initial default, else NULL."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import to_json
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    IcebergType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UUIDType,
)

from icemirror.errors import Invalid
from icemirror.step_results import Staged
from spark_job.columns.missing_columns import fill_missing_column, initial_defaults
from tests.lab.column_changes import change_columns, commit_events, rows
from tests.lab.lab import Lab, append_files, events, rows_table, sequence_text
from tests.lab.recreated_changelog import recreate_changelog
from tests.oracle.value_pools import VALUE_COLUMNS

SCALARS = {
    name: (kind, values) for name, (kind, values) in VALUE_COLUMNS.items() if isinstance(kind, PrimitiveType)
}


def test_rows_older_than_a_column_have_its_default(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a I2@1=b")
    with lab.changelog.update_schema() as update:
        update.add_column("city", StringType(), default_value="paris")
    lab.merge()
    mirrored = lab.mirror.scan().to_arrow().to_pylist()
    assert {row["id"]: row["city"] for row in mirrored} == {1: "paris", 2: "paris"}


def test_default_of_a_struct_field_is_filled_in(tmp_path: Path) -> None:
    place = StructType(NestedField(10, "street", StringType(), required=False))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "place", place, required=False),
        NestedField(3, "cdc_operation", StringType(), required=True),
        NestedField(4, "sequence_number", StringType(), required=True),
        identifier_field_ids=[1],
    )
    lab = Lab.make(tmp_path, schema)
    rows = [(1, {"street": "a"}), (2, None)]
    lab.commit(
        rows_table(
            lab.changelog.schema(),
            [
                {"id": n, "place": p, "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
                for n, p in rows
            ],
        )
    )
    with lab.changelog.update_schema() as update:
        update.add_column(("place", "city"), StringType(), default_value="paris")
    lab.merge()
    places = {row["id"]: row["place"] for row in lab.mirror.scan().to_arrow().to_pylist()}
    assert places == {1: {"street": "a", "city": "paris"}, 2: None}


@pytest.mark.parametrize("name", SCALARS)
def test_default_of_every_type_equals_the_metadata(name: str) -> None:
    kind, values = SCALARS[name]
    for value in values:
        if value is None:
            continue
        field = _with_default(kind, value)
        target = schema_to_pyarrow(Schema(field)).field(0)
        column = fill_missing_column(target, 2, 1, initial_defaults(Schema(field)), "f")
        expected = pa.array([value, value], target.type)
        assert repr(column.to_pylist()) == repr(expected.to_pylist())


def _with_default(kind: PrimitiveType, value: object) -> NestedField:
    """Return a field as parsed from a metadata file."""
    default = UUID(bytes=value) if isinstance(kind, UUIDType) and isinstance(value, bytes) else value
    field = {
        "id": 1,
        "name": "v",
        "type": str(kind),
        "required": False,
        "initial-default": to_json(kind, default),
    }
    return NestedField.model_validate_json(json.dumps(field))


def test_error_for_an_invalid_default_does_not_quote_it() -> None:
    target = schema_to_pyarrow(Schema(NestedField(1, "since", DateType(), required=False))).field(0)
    with pytest.raises(Invalid, match="the file has no column since") as caught:
        fill_missing_column(target, 1, 1, {1: "once"}, "f")
    assert "once" not in str(caught.value)


def _create_partitioned(lab: Lab, kind: IcebergType) -> Table:
    """Return a changelog partitioned by column `part`, which files in Hive layout do not have."""
    lab.catalog.drop_table("lab.world_changelog")
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "part", kind, required=False),
        NestedField(3, "cdc_operation", StringType(), required=True),
        NestedField(4, "sequence_number", StringType(), required=True),
        identifier_field_ids=[1],
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    return lab.catalog.create_table("lab.world_changelog", schema, partition_spec=spec)


def _add_file(table: Table, number: int, value: object) -> None:
    rows = [{"id": number, "cdc_operation": "INSERT", "sequence_number": sequence_text(number)}]
    file = rows_table(table.schema(), rows).drop(["part"])
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        path = f"{table.location()}/data/{uuid4()}.parquet"
        output = table.io.new_output(path)
        with output.create() as stream:
            pq.write_table(file, stream)
        data_file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(value),
            record_count=1,
            file_size_in_bytes=len(output),
        )
        data_file.spec_id = table.metadata.default_spec_id
        append.append_data_file(data_file)


@pytest.mark.parametrize(
    ("kind", "value"), [(StringType(), "paris"), (DateType(), 19_000), (LongType(), -7)], ids=str
)
def test_missing_partition_column_has_the_value_of_the_partition(
    tmp_path: Path, kind: IcebergType, value: object
) -> None:
    lab = Lab.make(tmp_path)
    lab.changelog = _create_partitioned(lab, kind)
    _add_file(lab.changelog, 1, value)
    _add_file(lab.changelog, 2, None)
    lab.merge()
    mirrored = {row["id"]: row["part"] for row in lab.mirror.scan().to_arrow().to_pylist()}
    expected = {row["id"]: row["part"] for row in lab.changelog.scan().to_arrow().to_pylist()}
    assert mirrored == expected
    assert mirrored[1] is not None
    assert mirrored[2] is None


def test_file_older_than_the_partition_spec_has_the_default(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    with lab.changelog.update_schema() as update:
        update.add_column("city", StringType(), default_value="paris")
    with lab.changelog.update_spec() as spec:
        spec.add_identity("city")
    lab.merge()
    assert lab.mirror.scan().to_arrow()["city"].to_pylist() == ["paris"]


@pytest.mark.parametrize("column", ["id", "cdc_operation", "sequence_number"])
def test_file_without_key_operation_or_sequence_is_refused(tmp_path: Path, column: str) -> None:
    lab = Lab.make(tmp_path)
    append_files(lab.changelog, events("I1@1=a").drop([column]))
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert "part of key, operation or sequence" in error.message


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(
    ("options", "last_event"),
    [("unchanged_value: SAME", "U1@2"), ("delete_mode: soft", "D1@2")],
    ids=["unchanged value", "soft delete"],
)
def test_row_that_keeps_its_values_keeps_the_default_of_a_newer_column(
    tmp_path: Path, options: str, last_event: str, staged: bool
) -> None:
    options = f"{options}\nformat_version: 3\npartition_by: [id]"
    lab = Lab.make(tmp_path, options=options, extra_config="batch_size: 1\n", changelog_version=3)
    commit_events(lab, "I1@1", name="a")
    lab.merge()
    if staged:
        lab = recreate_changelog(lab)
        commit_events(lab, "I1@1", name="a")
        assert isinstance(lab.pipeline.advance(lab.table), Staged)
    change_columns(lab, lambda to: to.add_column("city", StringType(), default_value="paris"))
    commit_events(lab, last_event, name="b", city="SAME")
    assert lab.merge().outcome == ("rebuilt" if staged else "merged")
    assert [(row["id"], row["city"]) for row in rows(lab)] == [(1, "paris")]
