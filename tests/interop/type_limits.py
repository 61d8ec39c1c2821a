"""Limits of readers, independent of the writer: (reader, sample, format version or None) → description."""

from __future__ import annotations

_EMPTY = (
    "{} is read as an empty one ([iceberg-python#3833](https://github.com/apache/iceberg-python/issues/3833))"
)

LIMITS: dict[tuple[str, str, int | None], str] = {
    ("PyIceberg", "list of structs, NULL", None): (
        "a NULL list of structs is read as an empty one "
        "([iceberg-python#3833](https://github.com/apache/iceberg-python/issues/3833))"
    ),
    ("PyIceberg", "map of structs, NULL", None): (
        "a NULL map whose values are structs is read as an empty one"
    ),
    ("DuckDB", "timestamptz_ns", None): (
        "cannot open tables with this type "
        "([duckdb-iceberg#1019](https://github.com/duckdb/duckdb-iceberg/issues/1019); version 1.5.5)"
    ),
}
