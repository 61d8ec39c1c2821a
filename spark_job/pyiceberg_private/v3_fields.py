"""The fields that format v3 adds to manifest entries and manifest lists. PyIceberg 0.12 has no accessors for them.

Upstream: apache/iceberg-python#3690 reads them, #3957 discusses accessors that depend on the record's schema.
"""

from __future__ import annotations

from typing import Any, cast

from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestFile,
)
from pyiceberg.typedef import Record, TableVersion

# Identifies a delete file in a manifest: its path, and the offset of a deletion vector in it.
DeleteKey = tuple[str, int | None]

NEWEST_VERSION: TableVersion = 3
_FILE_POSITIONS = {
    field.name: position for position, field in enumerate(DATA_FILE_TYPE[NEWEST_VERSION].fields)
}
_LIST_POSITIONS = {
    field.name: position for position, field in enumerate(MANIFEST_LIST_FILE_SCHEMAS[NEWEST_VERSION].fields)
}


def pad_record(record: DataFile | ManifestFile, fields: int) -> None:
    """Extend a record of an older format version with NULL: newer versions append their fields."""
    record._data.extend([None] * (fields - len(record)))


def record_values(record: Record) -> list[Any]:  # Any: of the types of its fields
    """Return all values of a record, in field order."""
    return record._data


def _read_int(file: DataFile, field_name: str) -> int | None:
    position = _FILE_POSITIONS[field_name]
    return cast("int | None", file[position]) if position < len(file) else None


def first_row_id(file: DataFile) -> int | None:
    """Return the `_row_id` of a data file's first row, or None if none was assigned."""
    return _read_int(file, "first_row_id")


def referenced_data_file(file: DataFile) -> str | None:
    """Return the one data file of a deletion vector, or of a position delete file that states it."""
    position = _FILE_POSITIONS["referenced_data_file"]
    return cast("str | None", file[position]) if position < len(file) else None


def content_span(file: DataFile) -> tuple[int, int] | None:
    """Return offset and length of a deletion vector in its Puffin file; None for other files."""
    offset, length = _read_int(file, "content_offset"), _read_int(file, "content_size_in_bytes")
    return None if offset is None or length is None else (offset, length)


def delete_key(file: DataFile) -> DeleteKey:
    """Return the key of a delete file: vectors in one Puffin file share a path."""
    return file.file_path, _read_int(file, "content_offset")


def manifest_first_row_id(manifest: ManifestFile) -> int | None:
    """Return the first `_row_id` of a manifest: its files without a first row id inherit from it."""
    position = _LIST_POSITIONS["first_row_id"]
    return cast("int | None", manifest[position]) if position < len(manifest) else None


def set_manifest_first_row_id(manifest: ManifestFile, row_id: int) -> None:
    """Assign the first row id of a manifest."""
    manifest[_LIST_POSITIONS["first_row_id"]] = row_id


def set_first_row_id(file: DataFile, row_id: int) -> None:
    """Assign the first row id of a data file."""
    file[_FILE_POSITIONS["first_row_id"]] = row_id


def clear_first_row_id(file: DataFile) -> None:
    """Remove the first row id: the snapshot that adds the file assigns it."""
    if _FILE_POSITIONS["first_row_id"] < len(file):
        file[_FILE_POSITIONS["first_row_id"]] = None


def clear_partition_summaries(manifest: ManifestFile) -> None:
    """Remove the partition summaries of a manifest: readers then open the manifest."""
    manifest[_LIST_POSITIONS["partitions"]] = None
