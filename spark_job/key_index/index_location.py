"""Where the index of a mirror is kept: beside the table, out of reach of other engines' cleaners."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata


def index_location(metadata: TableMetadata, configured: str | None) -> str:
    """`_icemirror_index/<table uuid>` under the parent of the table's location, or under the configured folder."""
    parent = (
        configured.rstrip("/")
        if configured
        else f"{metadata.location.rstrip('/').rpartition('/')[0]}/_icemirror_index"
    )
    return f"{parent}/{metadata.table_uuid}"
