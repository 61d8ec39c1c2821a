"""Changelog files without field ids, whose columns a name mapping tells apart."""

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
        return pa.struct([pa.field(one.name, without_ids(one.type), one.nullable) for one in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(pa.field("element", without_ids(kind.value_type)))
    return kind


def plain(lab: Lab, key: int, sequence: int, **values: object) -> pa.Table:
    """A file of one event as a writer makes it that knows nothing of Iceberg, with a column that nobody mapped."""
    event = {
        "id": key,
        "cdc_operation": "INSERT",
        "sequence_number": sequence_text(sequence),
        **values,
    }
    table = rows_table(lab.changelog.schema(), [event])
    fields = [pa.field(one.name, without_ids(one.type)) for one in table.schema]
    bare = pa.Table.from_pylist(table.to_pylist(), schema=pa.schema(fields))
    return bare.append_column("unknown", pa.array([1]))


def with_mapping(lab: Lab) -> None:
    mapping = lab.changelog.refresh().schema().name_mapping.model_dump_json()
    with lab.changelog.transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: mapping})


def test_files_without_ids_are_read_by_the_mapping_also_after_a_rename(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    with_mapping(lab)
    home, tags = {"zip": 1, "city": "A"}, [{"t": "x"}]
    lab.commit(plain(lab, 1, 1, name="one", home=home, tags=tags))
    commit_events(lab, "I2@1", name="two", home=home, tags=tags)
    lab.merge()
    change_columns(
        lab,
        lambda to: to.rename_column("name", "title"),
        lambda to: to.rename_column(("home", "city"), "town"),
    )
    commit_events(lab, "I3@3", title="three", home={"zip": 3, "town": "C"}, tags=[])
    lab.commit(plain(lab, 4, 4, title="four", home=None, tags=[]))
    lab.merge()
    town = {"zip": 1, "town": "A"}
    assert rows(lab) == [
        {"id": 1, "title": "one", "home": town, "tags": tags},
        {"id": 2, "title": "two", "home": town, "tags": tags},
        {"id": 3, "title": "three", "home": {"zip": 3, "town": "C"}, "tags": []},
        {"id": 4, "title": "four", "home": None, "tags": []},
    ]
    assert_sound(lab)


def test_without_a_mapping_such_a_file_is_refused(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    lab.commit(plain(lab, 1, 1, name="one"))
    with pytest.raises(Invalid, match="has no Iceberg field id"):
        lab.pipeline.advance(lab.table)


def test_a_mapping_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    with lab.changelog.transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: "{"})
    with pytest.raises(Invalid, match=r"schema\.name-mapping\.default cannot be parsed"):
        lab.pipeline.advance(lab.table)


def test_it_travels_to_tasks(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, NESTED)
    with_mapping(lab)
    io = lab.pipeline.catalogs.load_changelog(lab.table).io
    assert isinstance(io, NameMappedIO)
    again = pickle.loads(pickle.dumps(io))  # noqa: S301
    assert again.names == io.names
