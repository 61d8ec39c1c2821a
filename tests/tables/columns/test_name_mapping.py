"""Changelog files without field ids, whose columns a name mapping identifies."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType

from icemirror.errors import Invalid
from spark_job.columns.name_mapping import NAME_MAPPING, NameMappedIO
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rows
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

NESTED = changelog_schema(
    ("id", LongType()),
    ("name", StringType()),
    ("home", StructType(NestedField(50, "zip", IntegerType()), NestedField(51, "city", StringType()))),
    ("tags", ListType(52, StructType(NestedField(53, "t", StringType())))),
)


def without_ids(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, without_ids(field.type), field.nullable) for field in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(pa.field("element", without_ids(kind.value_type)))
    return kind


def file_without_ids(lab: Lab, key: int, sequence: int, **values: object) -> pa.Table:
    """Return a file of one event as a writer without Iceberg support writes it, with an unmapped column."""
    event = {
        "id": key,
        "cdc_operation": "INSERT",
        "sequence_number": sequence_text(sequence),
        **values,
    }
    table = rows_table(lab.changelog.schema(), [event])
    fields = [pa.field(field.name, without_ids(field.type)) for field in table.schema]
    plain = pa.Table.from_pylist(table.to_pylist(), schema=pa.schema(fields))
    return plain.append_column("unknown", pa.array([1]))


def set_name_mapping(lab: Lab) -> None:
    mapping = lab.changelog.refresh().schema().name_mapping.model_dump_json()
    with lab.changelog.transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: mapping})


def test_name_mapping_resolves_files_without_ids_also_after_a_rename(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    set_name_mapping(lab)
    home, tags = {"zip": 1, "city": "A"}, [{"t": "x"}]
    lab.commit(file_without_ids(lab, 1, 1, name="one", home=home, tags=tags))
    commit_events(lab, "I2@1", name="two", home=home, tags=tags)
    lab.merge()
    change_columns(
        lab,
        lambda to: to.rename_column("name", "title"),
        lambda to: to.rename_column(("home", "city"), "town"),
    )
    commit_events(lab, "I3@3", title="three", home={"zip": 3, "town": "C"}, tags=[])
    lab.commit(file_without_ids(lab, 4, 4, title="four", home=None, tags=[]))
    lab.merge()
    town = {"zip": 1, "town": "A"}
    assert rows(lab) == [
        {"id": 1, "title": "one", "home": town, "tags": tags},
        {"id": 2, "title": "two", "home": town, "tags": tags},
        {"id": 3, "title": "three", "home": {"zip": 3, "town": "C"}, "tags": []},
        {"id": 4, "title": "four", "home": None, "tags": []},
    ]
    assert_sound(lab)


def test_file_without_ids_is_refused_without_a_name_mapping(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    lab.commit(file_without_ids(lab, 1, 1, name="one"))
    with pytest.raises(Invalid, match="has no Iceberg field id"):
        lab.pipeline.advance(lab.table)


def test_unparsable_name_mapping_is_refused(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    with lab.changelog.transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: "{"})
    with pytest.raises(Invalid, match=r"schema\.name-mapping\.default cannot be parsed"):
        lab.pipeline.advance(lab.table)


def test_name_mapped_io_can_be_pickled(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    set_name_mapping(lab)
    io = lab.pipeline.catalogs.load_changelog(lab.table).io
    assert isinstance(io, NameMappedIO)
    copy = pickle.loads(pickle.dumps(io))  # noqa: S301
    assert copy.names == io.names
