"""The fields that v3 adds to the records of manifests and manifest lists, which PyIceberg has no names for."""

from __future__ import annotations

from typing import Any, cast

from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestFile,
)
from pyiceberg.typedef import Record, TableVersion

# A file of deletes as a manifest names it: its path, and where in it a deletion vector begins.
DeleteKey = tuple[str, int | None]

NEWEST: TableVersion = 3
_FILE_PLACES = {field.name: place for place, field in enumerate(DATA_FILE_TYPE[NEWEST].fields)}
_LIST_PLACES = {field.name: place for place, field in enumerate(MANIFEST_LIST_FILE_SCHEMAS[NEWEST].fields)}


def pad(record: DataFile | ManifestFile, fields: int) -> None:
    """A record of an older version has fewer fields; those of a newer one come last, as NULL."""
    record._data.extend([None] * (fields - len(record)))


def values_of(record: Record) -> list[Any]:  # Any: of the types of its fields
    """All values of a record, in their order."""
    return record._data


def _number(file: DataFile, name: str) -> int | None:
    place = _FILE_PLACES[name]
    return cast("int | None", file[place]) if place < len(file) else None


def first_row_id(file: DataFile) -> int | None:
    """The `_row_id` of a data file's first row, if rows were numbered when it was added."""
    return _number(file, "first_row_id")


def referenced_data_file(file: DataFile) -> str | None:
    """The one data file of a deletion vector, and of a file of position deletes that says so."""
    place = _FILE_PLACES["referenced_data_file"]
    return cast("str | None", file[place]) if place < len(file) else None


def content_span(file: DataFile) -> tuple[int, int] | None:
    """Offset and length of a deletion vector in its Puffin file; None for other files."""
    offset, length = _number(file, "content_offset"), _number(file, "content_size_in_bytes")
    return None if offset is None or length is None else (offset, length)


def delete_key(file: DataFile) -> DeleteKey:
    """What tells a file of deletes from others; the vectors of one Puffin file share its path."""
    return file.file_path, _number(file, "content_offset")


def manifest_first_row_id(manifest: ManifestFile) -> int | None:
    """The `_row_id` from which the files of a manifest are numbered that have none of their own."""
    place = _LIST_PLACES["first_row_id"]
    return cast("int | None", manifest[place]) if place < len(manifest) else None


def set_manifest_first_row_id(manifest: ManifestFile, number: int) -> None:
    """Numbers a manifest."""
    manifest[_LIST_PLACES["first_row_id"]] = number


def set_first_row_id(file: DataFile, number: int) -> None:
    """Numbers a data file."""
    file[_FILE_PLACES["first_row_id"]] = number


def forget_first_row_id(file: DataFile) -> None:
    """Takes the number away: the snapshot that adds the file gives it one."""
    if _FILE_PLACES["first_row_id"] < len(file):
        file[_FILE_PLACES["first_row_id"]] = None


def forget_partitions(manifest: ManifestFile) -> None:
    """Takes the summary of a manifest's partitions away: readers then look into it."""
    manifest[_LIST_PLACES["partitions"]] = None
