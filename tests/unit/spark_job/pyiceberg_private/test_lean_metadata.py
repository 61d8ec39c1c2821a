"""Metadata parsed with reused objects equals PyIceberg's."""

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
    """Return metadata as other engines write it."""
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
def _install_with_empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    enable_v3_metadata()
    lean_metadata.install()
    lean_metadata._parsed_texts.clear()
    lean_metadata._growing_lists.cache_clear()
    for name in ("_snapshot_models", "_schema_models"):
        monkeypatch.setattr(getattr(lean_metadata, name), "_models", OrderedDict())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("snapshots", [0, 1, 5])
def test_metadata_is_parsed_like_pyiceberg(version: int, snapshots: int) -> None:
    expected = lean_metadata._parse_raw(json.dumps(document(version, snapshots)))
    for length in range(snapshots + 1):
        read(document(version, length))
    actual = read(document(version, snapshots))
    assert actual == expected
    assert type(actual) is type(expected)
    assert actual.model_dump_json() == expected.model_dump_json()


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"exclude_none": True}, {"exclude_none": False}, {"indent": 1}])
def test_metadata_is_serialized_like_pyiceberg(version: int, options: dict[str, Any]) -> None:
    for snapshots in (0, 3, 4, 2, 5):
        unusual = document(version, snapshots)
        unusual["properties"] |= {"a": '"snapshots":[]', "snapshots": "[]", "ü": "\n"}
        for snapshot in unusual.get("snapshots", []):
            snapshot["summary"]["x"] = f'{snapshots} "snapshots":[] \u2028 ü'
        metadata = read(unusual)
        for _ in range(2):
            expected = IcebergBaseModel.model_dump_json(metadata, **options)
            assert metadata.model_dump_json(**options) == expected


@pytest.mark.parametrize("placeholder", ["nowhere", '"'])
def test_pyiceberg_serializes_snapshots_if_their_position_is_ambiguous(
    placeholder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = read(document(2, 3))
    monkeypatch.setattr(lean_metadata, "_NO_SNAPSHOTS", placeholder)
    assert metadata.model_dump_json() == IcebergBaseModel.model_dump_json(metadata)


def test_changed_snapshot_with_a_known_id_is_serialized_as_changed() -> None:
    first = read(document(2, 3))
    text = first.model_dump_json()
    other = first.snapshots[1].model_copy(update={"manifest_list": "file:///other"})
    changed = first.model_copy(update={"snapshots": [first.snapshots[0], other, first.snapshots[2]]})
    for metadata in (changed, first, changed):
        assert metadata.model_dump_json() == IcebergBaseModel.model_dump_json(metadata)
    assert first.model_dump_json() == text


def test_known_snapshot_is_the_same_object() -> None:
    first, second = read(document(2, 3)), read(document(2, 4))
    assert all(old is new for old, new in zip(first.snapshots, second.snapshots, strict=False))


@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : ")])
@pytest.mark.parametrize("indent", [None, 1])
def test_only_new_snapshots_are_parsed_in_every_json_format(
    indent: int | None, separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        json.dumps(document(2, number), indent=indent, separators=separators) for number in (3, 4, 4, 6, 2, 7)
    ]
    parsed: list[int] = []
    get = lean_metadata._snapshot_models.get

    def record_and_get(snapshot: dict[str, Any]) -> Any:
        parsed.append(snapshot["snapshot-id"])
        return get(snapshot)

    monkeypatch.setattr(lean_metadata._snapshot_models, "get", record_and_get)
    for text in texts:
        assert TableMetadataUtil.parse_raw(text) == lean_metadata._parse_raw(text)
    assert parsed == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 7]


def test_only_new_entries_of_the_snapshot_log_are_parsed() -> None:
    first, second = read(document(2, 3)), read(document(2, 5))
    assert all(old is new for old, new in zip(first.snapshot_log, second.snapshot_log, strict=False))
    shorter = document(2, 5)
    shorter["snapshot-log"] = shorter["snapshot-log"][2:]
    assert read(shorter) == lean_metadata._parse_raw(json.dumps(shorter))


@pytest.mark.parametrize("name", ["snapshots", "snapshot-log"])
def test_missing_list_is_parsed_like_pyiceberg(name: str) -> None:
    without = document(2, 0)
    del without[name]
    assert read(without) == lean_metadata._parse_raw(json.dumps(without))


def test_snapshot_is_found_by_its_id() -> None:
    metadata = read(document(2, 4))
    found = [metadata.snapshot_by_id(snapshot_id) for snapshot_id in (1, 4)]
    assert found == [metadata.snapshots[0], metadata.snapshots[3]]
    assert metadata.snapshot_by_id(5) is None


@pytest.mark.parametrize("old", ["id", "summary"])
def test_rewritten_history_is_parsed_again(old: str) -> None:
    read(document(2, 4))
    changed = document(2, 5)
    if old == "id":
        changed["snapshots"][0]["snapshot-id"] = 77
    else:
        changed["snapshots"][3]["summary"]["x"] = "other"
    assert read(changed) == lean_metadata._parse_raw(json.dumps(changed))


def test_history_is_not_reused_for_another_table() -> None:
    read(document(2, 4))
    other = {**document(2, 4), "table-uuid": "0196f2b8-1c7e-7d0e-9a3b-5c2d1e0f4a5c"}
    other["snapshots"][3]["manifest-list"] = "file:///elsewhere"
    assert read(other) == lean_metadata._parse_raw(json.dumps(other))


def test_strings_that_resemble_keys_are_not_keys() -> None:
    unusual = document(2, 3)
    unusual["properties"] = {
        "a": '"snapshots": [',
        "b": '"table-uuid": "x"',
        '"snapshots": [': "c",
        "snapshots": "[]",
    }
    for _ in range(2):
        assert read(unusual) == lean_metadata._parse_raw(json.dumps(unusual))


@pytest.mark.parametrize("name", ["snapshots", "snapshot-log", "table-uuid"])
@pytest.mark.parametrize("inside", ["snapshots", "snapshot-log", "metadata-log", "extra"])
@pytest.mark.parametrize("first", [True, False])
def test_key_with_the_same_name_in_another_object_is_ignored(name: str, inside: str, first: bool) -> None:
    """No writer produces such metadata, but the result equals PyIceberg's."""
    unusual = document(2, 3)
    other = "0196f2b8-1c7e-7d0e-9a3b-5c2d1e0f4a5c" if name == "table-uuid" else [unusual[name][0]]
    container = unusual.pop(inside, None)
    container = [{**entry, name: other} for entry in container] if container else [{name: other}]
    unusual = {inside: container, **unusual} if first else {**unusual, inside: container}
    for text in (json.dumps(unusual), json.dumps(document(2, 4)), json.dumps(unusual)):
        assert outcome(TableMetadataUtil.parse_raw, text) == outcome(lean_metadata._parse_raw, text)


def outcome(parse: Callable[[str], TableMetadata], text: str) -> TableMetadata | str:
    """Return the result or the error message."""
    try:
        return parse(text)
    except ValidationError as error:
        return str(error)


@pytest.mark.parametrize("text", ["[{},,{}]", "[,]", "[1 2]", "[", "[{}", "[{} {}]", "[NaN]"])
def test_malformed_list_is_refused_like_by_pyiceberg(text: str) -> None:
    read(document(2, 3))
    broken = json.dumps({**document(2, 3), "snapshots": "HERE"}).replace('"HERE"', text)
    with pytest.raises(ValidationError):
        lean_metadata._parse_raw(broken)
    with pytest.raises(ValidationError):
        TableMetadataUtil.parse_raw(broken)


def test_snapshot_with_the_same_id_in_another_table_is_separate() -> None:
    read(document(2, 3))
    other = document(2, 3)
    other["snapshots"][1]["summary"]["x"] = "z"
    other["snapshots"][2]["manifest-list"] = "file:///other"
    found = read(other)
    assert found.snapshots[1].summary == lean_metadata._parse_raw(json.dumps(other)).snapshots[1].summary
    assert found.snapshots[2].manifest_list == "file:///other"
    assert read(document(2, 3)).snapshots[2].manifest_list == "file:///t/metadata/3.avro"


def test_schema_with_the_same_id_in_another_table_is_separate() -> None:
    other = document(2, 1)
    other["schemas"] = [{**SCHEMA, "fields": [{**SCHEMA["fields"][0], "name": "key"}]}]
    for _ in range(2):
        assert read(document(2, 1)).schema().column_names == ["id"]
        assert read(other).schema().column_names == ["key"]
    assert read(document(2, 1)).schema() is read(document(2, 2)).schema()


def test_more_snapshots_than_the_cache_holds_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_metadata._snapshot_models, "_max_models", 3)
    for snapshots in (5, 6, 5):
        assert read(document(2, snapshots)) == lean_metadata._parse_raw(json.dumps(document(2, snapshots)))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"text"', "{}", '{"format-version": 9}', '{"format-version": 2, "snapshots": 5}'],
)
def test_invalid_metadata_is_refused_like_by_pyiceberg(text: str) -> None:
    with pytest.raises(ValidationError) as expected:
        lean_metadata._parse_raw(text)
    with pytest.raises(ValidationError) as actual:
        TableMetadataUtil.parse_raw(text)
    assert str(actual.value) == str(expected.value)


@pytest.mark.parametrize("damage", [{"snapshot-id": "x"}, {"manifest-list": None}, {"summary": 5}])
def test_damaged_snapshot_is_refused_like_by_pyiceberg(damage: dict[str, Any]) -> None:
    damaged = document(2, 3)
    damaged["snapshots"][1] |= damage
    with pytest.raises(ValidationError) as expected:
        lean_metadata._parse_raw(json.dumps(damaged))
    with pytest.raises(ValidationError) as actual:
        read(damaged)
    assert str(actual.value) == str(expected.value)


def test_replaced_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "1.metadata.json"
    for snapshots in (2, 3):
        path.write_text(json.dumps(document(2, snapshots)))
        found = FromInputFile.table_metadata(PyArrowFileIO().new_input(f"file://{path}"))
        assert len(found.snapshots) == snapshots


def test_update_does_not_change_the_previous_metadata() -> None:
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
def test_no_update_of_a_commit_changes_the_base_metadata(version: int) -> None:
    """All tables of a process share these objects: an update in place by PyIceberg would break them."""
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
    assert [snapshot.snapshot_id for snapshot in after.snapshots] == [
        *(snapshot.snapshot_id for snapshot in before.snapshots[1:]),
        77,
    ]
