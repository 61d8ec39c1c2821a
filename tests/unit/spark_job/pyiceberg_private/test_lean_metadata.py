"""Metadata parsed with reuse equals PyIceberg's."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel

from spark_job.pyiceberg_private import lean_metadata
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}


def document(version: int, snapshots: int) -> dict[str, Any]:
    """Metadata as other engines write it."""
    metadata: dict[str, Any] = {
        "format-version": version,
        "table-uuid": "0196f2b8-1c7e-7d0e-9a3b-5c2d1e0f4a5b",
        "location": "file:///t",
        "last-updated-ms": 1_700_000_000_000,
        "last-column-id": 1,
        "schemas": [SCHEMA],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"a": "b", "number": 7},
        "current-snapshot-id": snapshots or -1,
        "snapshots": [
            {
                "snapshot-id": number,
                "timestamp-ms": 1_700_000_000_000 + number,
                "manifest-list": f"file:///t/metadata/{number}.avro",
                "summary": {"operation": "append", "added-records": str(number), "x": "y"},
            }
            | ({"parent-snapshot-id": number - 1} if number > 1 else {})
            | ({"sequence-number": number} if version > 1 else {})
            | ({"first-row-id": 0, "added-rows": number} if version > 2 else {})
            for number in range(1, snapshots + 1)
        ],
        "snapshot-log": [
            {"snapshot-id": number, "timestamp-ms": 1_700_000_000_000 + number}
            for number in range(1, snapshots + 1)
        ],
        "metadata-log": [{"metadata-file": "file:///t/metadata/0.json", "timestamp-ms": 1}],
        "refs": {},
    }
    if version == 1:
        metadata |= {"schema": SCHEMA, "partition-spec": []}
    if version > 1:
        metadata["last-sequence-number"] = snapshots
    if version > 2:
        metadata["next-row-id"] = 100
    return metadata


def read(document: dict[str, Any]) -> TableMetadata:
    return TableMetadataUtil.parse_raw(json.dumps(document))


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With empty caches."""
    enable_v3_metadata()
    lean_metadata.install()
    lean_metadata._last.clear()
    lean_metadata._history_of.cache_clear()
    for name in ("_snapshots", "_schemas"):
        monkeypatch.setattr(getattr(lean_metadata, name), "_seen", OrderedDict())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("snapshots", [0, 1, 5])
def test_metadata_are_read_as_pyiceberg_reads_them(version: int, snapshots: int) -> None:
    theirs = lean_metadata._parse_raw(json.dumps(document(version, snapshots)))
    for length in range(snapshots + 1):
        read(document(version, length))
    ours = read(document(version, snapshots))
    assert ours == theirs
    assert type(ours) is type(theirs)
    assert ours.model_dump_json() == theirs.model_dump_json()


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"exclude_none": True}, {"exclude_none": False}, {"indent": 1}])
def test_metadata_are_written_as_pyiceberg_writes_them(version: int, options: dict[str, Any]) -> None:
    for snapshots in (0, 3, 4, 2, 5):
        odd = document(version, snapshots)
        odd["properties"] |= {"a": '"snapshots":[]', "snapshots": "[]", "ü": "\n"}
        for one in odd.get("snapshots", []):
            one["summary"]["x"] = f'{snapshots} "snapshots":[] \u2028 ü'
        metadata = read(odd)
        for _ in range(2):
            theirs = IcebergBaseModel.model_dump_json(metadata, **options)
            assert metadata.model_dump_json(**options) == theirs


@pytest.mark.parametrize("place", ["nowhere", '"'])
def test_where_the_place_of_the_snapshots_is_not_certain_pyiceberg_writes_them(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = read(document(2, 3))
    monkeypatch.setattr(lean_metadata, "_NO_SNAPSHOTS", place)
    assert metadata.model_dump_json() == IcebergBaseModel.model_dump_json(metadata)


def test_a_snapshot_of_the_same_id_is_written_as_it_is() -> None:
    first = read(document(2, 3))
    text = first.model_dump_json()
    other = first.snapshots[1].model_copy(update={"manifest_list": "file:///other"})
    changed = first.model_copy(update={"snapshots": [first.snapshots[0], other, first.snapshots[2]]})
    for metadata in (changed, first, changed):
        assert metadata.model_dump_json() == IcebergBaseModel.model_dump_json(metadata)
    assert first.model_dump_json() == text


def test_a_snapshot_that_is_known_is_the_same_object() -> None:
    first, second = read(document(2, 3)), read(document(2, 4))
    assert all(one is other for one, other in zip(first.snapshots, second.snapshots, strict=False))


@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : ")])
@pytest.mark.parametrize("indent", [None, 1])
def test_however_it_is_written_only_what_is_new_is_read_of_a_history(
    indent: int | None, separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        json.dumps(document(2, number), indent=indent, separators=separators) for number in (3, 4, 4, 6, 2, 7)
    ]
    made: list[int] = []
    get = lean_metadata._snapshots.get

    def noted(one: dict[str, Any]) -> Any:
        made.append(one["snapshot-id"])
        return get(one)

    monkeypatch.setattr(lean_metadata._snapshots, "get", noted)
    for text in texts:
        assert TableMetadataUtil.parse_raw(text) == lean_metadata._parse_raw(text)
    assert made == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 7]


def test_of_the_log_of_snapshots_only_what_is_new_is_read() -> None:
    first, second = read(document(2, 3)), read(document(2, 5))
    assert all(one is other for one, other in zip(first.snapshot_log, second.snapshot_log, strict=False))
    shorter = document(2, 5)
    shorter["snapshot-log"] = shorter["snapshot-log"][2:]
    assert read(shorter) == lean_metadata._parse_raw(json.dumps(shorter))


@pytest.mark.parametrize("name", ["snapshots", "snapshot-log"])
def test_an_unusual_list_is_parsed_as_by_pyiceberg(name: str) -> None:
    without = document(2, 0)
    del without[name]
    assert read(without) == lean_metadata._parse_raw(json.dumps(without))


def test_a_snapshot_is_found_by_its_id_wherever_it_is_listed() -> None:
    metadata = read(document(2, 4))
    assert [metadata.snapshot_by_id(one) for one in (1, 4)] == [metadata.snapshots[0], metadata.snapshots[3]]
    assert metadata.snapshot_by_id(5) is None


@pytest.mark.parametrize("old", ["id", "summary"])
def test_a_rewritten_history_is_parsed_again(old: str) -> None:
    read(document(2, 4))
    changed = document(2, 5)
    if old == "id":
        changed["snapshots"][0]["snapshot-id"] = 77
    else:
        changed["snapshots"][3]["summary"]["x"] = "other"
    assert read(changed) == lean_metadata._parse_raw(json.dumps(changed))


def test_a_history_is_not_taken_for_that_of_another_table() -> None:
    read(document(2, 4))
    other = {**document(2, 4), "table-uuid": "0196f2b8-1c7e-7d0e-9a3b-5c2d1e0f4a5c"}
    other["snapshots"][3]["manifest-list"] = "file:///elsewhere"
    assert read(other) == lean_metadata._parse_raw(json.dumps(other))


def test_strings_that_resemble_keys_are_not_keys() -> None:
    odd = document(2, 3)
    odd["properties"] = {
        "a": '"snapshots": [',
        "b": '"table-uuid": "x"',
        '"snapshots": [': "c",
        "snapshots": "[]",
    }
    for _ in range(2):
        assert read(odd) == lean_metadata._parse_raw(json.dumps(odd))


@pytest.mark.parametrize("name", ["snapshots", "snapshot-log", "table-uuid"])
@pytest.mark.parametrize("inside", ["snapshots", "snapshot-log", "metadata-log", "extra"])
@pytest.mark.parametrize("first", [True, False])
def test_a_key_of_the_same_name_elsewhere_is_not_taken_for_it(name: str, inside: str, first: bool) -> None:
    """No writer produces such metadata, but the result equals PyIceberg's."""
    odd = document(2, 3)
    other = "0196f2b8-1c7e-7d0e-9a3b-5c2d1e0f4a5c" if name == "table-uuid" else [odd[name][0]]
    holder = odd.pop(inside, None)
    holder = [{**one, name: other} for one in holder] if holder else [{name: other}]
    odd = {inside: holder, **odd} if first else {**odd, inside: holder}
    for text in (json.dumps(odd), json.dumps(document(2, 4)), json.dumps(odd)):
        assert outcome(TableMetadataUtil.parse_raw, text) == outcome(lean_metadata._parse_raw, text)


def outcome(parse: Callable[[str], TableMetadata], text: str) -> TableMetadata | str:
    """The result, or the error."""
    try:
        return parse(text)
    except ValidationError as error:
        return str(error)


@pytest.mark.parametrize("text", ["[{},,{}]", "[,]", "[1 2]", "[", "[{}", "[{} {}]", "[NaN]"])
def test_a_list_that_is_none_is_refused_as_pyiceberg_refuses_it(text: str) -> None:
    read(document(2, 3))
    broken = json.dumps({**document(2, 3), "snapshots": "HERE"}).replace('"HERE"', text)
    with pytest.raises(ValidationError):
        lean_metadata._parse_raw(broken)
    with pytest.raises(ValidationError):
        TableMetadataUtil.parse_raw(broken)


def test_a_snapshot_of_the_same_id_in_another_table_is_another() -> None:
    read(document(2, 3))
    other = document(2, 3)
    other["snapshots"][1]["summary"]["x"] = "z"
    other["snapshots"][2]["manifest-list"] = "file:///other"
    found = read(other)
    assert found.snapshots[1].summary == lean_metadata._parse_raw(json.dumps(other)).snapshots[1].summary
    assert found.snapshots[2].manifest_list == "file:///other"
    assert read(document(2, 3)).snapshots[2].manifest_list == "file:///t/metadata/3.avro"


def test_a_schema_of_the_same_id_in_another_table_is_another() -> None:
    other = document(2, 1)
    other["schemas"] = [{**SCHEMA, "fields": [{**SCHEMA["fields"][0], "name": "key"}]}]
    for _ in range(2):
        assert read(document(2, 1)).schema().column_names == ["id"]
        assert read(other).schema().column_names == ["key"]
    assert read(document(2, 1)).schema() is read(document(2, 2)).schema()


def test_more_snapshots_than_are_remembered_are_read_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_metadata._snapshots, "_most", 3)
    for snapshots in (5, 6, 5):
        assert read(document(2, snapshots)) == lean_metadata._parse_raw(json.dumps(document(2, snapshots)))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"text"', "{}", '{"format-version": 9}', '{"format-version": 2, "snapshots": 5}'],
)
def test_what_is_no_metadata_is_refused_as_pyiceberg_refuses_it(text: str) -> None:
    with pytest.raises(ValidationError) as theirs:
        lean_metadata._parse_raw(text)
    with pytest.raises(ValidationError) as ours:
        TableMetadataUtil.parse_raw(text)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("damage", [{"snapshot-id": "x"}, {"manifest-list": None}, {"summary": 5}])
def test_a_damaged_snapshot_is_refused_as_pyiceberg_refuses_it(damage: dict[str, Any]) -> None:
    damaged = document(2, 3)
    damaged["snapshots"][1] |= damage
    with pytest.raises(ValidationError) as theirs:
        lean_metadata._parse_raw(json.dumps(damaged))
    with pytest.raises(ValidationError) as ours:
        read(damaged)
    assert str(ours.value) == str(theirs.value)


def test_a_file_replaced_under_the_same_name_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "1.metadata.json"
    for snapshots in (2, 3):
        path.write_text(json.dumps(document(2, snapshots)))
        found = FromInputFile.table_metadata(PyArrowFileIO().new_input(f"file://{path}"))
        assert len(found.snapshots) == snapshots


def test_an_update_leaves_the_metadata_before_it_as_they_were() -> None:
    before = read(document(2, 3))
    text = before.model_dump_json()
    after = update_table_metadata(
        before, (SetPropertiesUpdate(updates={"a": "c"}),), False, "file:///t/1.json"
    )
    assert before.model_dump_json() == text
    assert after.properties["a"] == "c"
    assert after.snapshots == before.snapshots
    copied = copy.deepcopy(after)
    assert copied == after
    copied.snapshots.clear()
    copied.properties["a"] = "d"
    copied.refs.clear()
    assert (len(after.snapshots), after.properties["a"], len(after.refs)) == (3, "c", 1)


@pytest.mark.parametrize("version", [2, 3])
def test_no_update_of_a_commit_changes_what_it_began_with(version: int) -> None:
    """All tables of a process share it: a PyIceberg that modifies it in place would break them."""
    before = read(document(version, 3))
    text, newest = before.model_dump_json(), before.snapshots[-1]
    added = newest.model_copy(
        update={
            "snapshot_id": 77,
            "parent_snapshot_id": newest.snapshot_id,
            "sequence_number": 9,
            "first_row_id": getattr(before, "next_row_id", None),
        }
    )
    schema = before.schema().model_copy(update={"schema_id": 1})
    updates: tuple[TableUpdate, ...] = (
        AddSchemaUpdate.model_validate({"schema": schema}),
        SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
        AddSnapshotUpdate(snapshot=added),
        SetSnapshotRefUpdate.model_validate({"ref-name": "main", "snapshot-id": 77, "type": "branch"}),
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [before.snapshots[0].snapshot_id]}),
        SetPropertiesUpdate(updates={"a": "c", "new": "1"}),
        RemovePropertiesUpdate(removals=["a"]),
    )
    after = update_table_metadata(before, updates, False, "file:///t/1.json")
    assert before.model_dump_json() == text
    assert after.current_snapshot_id == 77
    assert [one.snapshot_id for one in after.snapshots] == [
        *(one.snapshot_id for one in before.snapshots[1:]),
        77,
    ]
