"""What may go wrong with a mirror behind its back, planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icemirror.tables.cursor import Cursor
from spark_job.iceberg.mirror import CURSOR, INDEX_ROOT, CursorProperty, read_mirror
from spark_job.index.root import Root, write_root
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import Entries, SegmentInfo
from spark_job.index.write_segment import write_segment
from tests.lab.lab import Lab, local_path


def root_of(lab: Lab) -> Root:
    """The root in force."""
    root = read_mirror(lab.mirror, "lab.world").root
    assert root is not None
    return root


def flip(path: Path, at: int) -> None:
    """One bit."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def put_root(lab: Lab, root: Root) -> None:
    """Another root under the name of the one in force."""
    path = lab.mirror.metadata.properties[INDEX_ROOT]
    local_path(path).unlink()
    write_root(lab.mirror.io, path, root)


def rewrite_segment(lab: Lab, which: int, change: Callable[[Entries], Entries]) -> None:
    """A segment with other entries and right checksums, named by a right root."""
    root = root_of(lab)
    old = root.segments[which]
    entries = change(read_segment_entries(lab.mirror.io, old))
    path = old.path.replace(".segment.", "x.segment.")
    covered = [root.files[at].path for at in old.files]
    new = write_segment(lab.mirror.io, path, entries, old.key_definition, covered, old.files)
    new = new.model_copy(update={"run": old.run, "written_at_ms": old.written_at_ms})
    put_root(lab, root.model_copy(update={"segments": _replaced(root, which, new)}))


def _replaced(root: Root, which: int, new: SegmentInfo) -> tuple[SegmentInfo, ...]:
    return (*root.segments[:which], new, *root.segments[which + 1 :])


def edit_rows(path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """A data file with other rows under its name."""
    where = local_path(path)
    with where.open("rb") as stream:
        rows = pq.read_table(stream)
    pq.write_table(change(rows), where)


def set_cursor(lab: Lab, change: Callable[[Cursor], Cursor]) -> None:
    """Another cursor, in the summary of the head and in the properties."""
    where = local_path(lab.mirror.metadata_location)
    metadata: dict[str, Any] = json.loads(where.read_text())
    head = next(one for one in metadata["snapshots"] if one["snapshot-id"] == metadata["current-snapshot-id"])
    cursor = change(Cursor.model_validate_json(head["summary"][CURSOR]))
    head["summary"][CURSOR] = cursor.model_dump_json()
    anchor = CursorProperty.model_validate_json(metadata["properties"][CURSOR])
    metadata["properties"][CURSOR] = anchor.model_copy(update={"cursor": cursor}).model_dump_json()
    where.write_text(json.dumps(metadata))
