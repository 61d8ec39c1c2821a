"""Where the files of a mirror's index are stored."""

from __future__ import annotations

import uuid

from pyiceberg.table.metadata import TableMetadata

from spark_job.index.root import Root


def index_location(metadata: TableMetadata, configured: str | None) -> str:
    """Return where a mirror's index is stored: outside of the table's location, where engines remove orphan files.

    `_icemirror_index/<table uuid>` under the parent of the table's location, or under the configured folder.
    """
    parent = (
        configured.rstrip("/")
        if configured
        else f"{metadata.location.rstrip('/').rpartition('/')[0]}/_icemirror_index"
    )
    return f"{parent}/{metadata.table_uuid}"


def root_path(location: str, root: Root) -> str:
    """Return the path of a root in the index location."""
    return f"{location}/{root.epoch:010d}-{root.snapshot_id}.root.puffin"


def new_segment_path(location: str) -> str:
    """Return the path of a new segment in the index location."""
    return f"{location}/{uuid.uuid4()}.segment.puffin"
