"""Plant damage in a mirror and its index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icemirror.tables.cursor import Cursor
from spark_job.iceberg.cursor_property import CursorProperty
from spark_job.iceberg.mirror import read_mirror
from spark_job.iceberg.property_names import PROPERTY_CURSOR, PROPERTY_INDEX_ROOT
from spark_job.index.root import Root, write_root
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import Entries, SegmentInfo
from spark_job.index.write_segment import write_segment
from tests.lab.lab import Lab, local_path


def root_of(lab: Lab) -> Root:
    """Return the current root of the index."""
    root = read_mirror(lab.mirror, "lab.world").root
    assert root is not None
    return root


def flip(path: Path, at: int) -> None:
    """Flip one bit of the byte at this offset."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def put_root(lab: Lab, root: Root) -> None:
    """Replace the current root by another one, at the same path."""
    path = lab.mirror.metadata.properties[PROPERTY_INDEX_ROOT]
    local_path(path).unlink()
    write_root(lab.mirror.io, path, root)


def rewrite_segment(lab: Lab, number: int, change: Callable[[Entries], Entries]) -> None:
    """Replace a segment by one with other entries, valid checksums and a valid root."""
    root = root_of(lab)
    old = root.segments[number]
    entries = change(read_segment_entries(lab.mirror.io, old))
    path = old.path.replace(".segment.", "x.segment.")
    covered = [root.files[at].path for at in old.files]
    new = write_segment(lab.mirror.io, path, entries, old.key_definition, covered, old.files)
    new = new.model_copy(update={"sorted_run": old.sorted_run, "written_at_ms": old.written_at_ms})
    put_root(lab, root.model_copy(update={"segments": _replaced(root, number, new)}))


def _replaced(root: Root, number: int, new: SegmentInfo) -> tuple[SegmentInfo, ...]:
    return (*root.segments[:number], new, *root.segments[number + 1 :])


def edit_rows(path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite the rows of a data file, at the same path."""
    file = local_path(path)
    with file.open("rb") as stream:
        rows = pq.read_table(stream)
    pq.write_table(change(rows), file)


def set_cursor(lab: Lab, change: Callable[[Cursor], Cursor]) -> None:
    """Change the cursor, in the head's summary and in the properties."""
    file = local_path(lab.mirror.metadata_location)
    metadata: dict[str, Any] = json.loads(file.read_text())
    head_id = metadata["current-snapshot-id"]
    head = next(snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] == head_id)
    cursor = change(Cursor.model_validate_json(head["summary"][PROPERTY_CURSOR]))
    head["summary"][PROPERTY_CURSOR] = cursor.model_dump_json()
    anchor = CursorProperty.model_validate_json(metadata["properties"][PROPERTY_CURSOR])
    metadata["properties"][PROPERTY_CURSOR] = anchor.model_copy(update={"cursor": cursor}).model_dump_json(
        by_alias=True
    )
    file.write_text(json.dumps(metadata))
