"""Foreign writes on a mirror, made with PyIceberg."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import live_files, replaced_deletes
from spark_job.write.deletes import write_deletes


def append(mirror: Table, rows: Iterable[tuple[int, str]]) -> None:
    """Append rows."""
    ids, names = zip(*rows, strict=True)
    mirror.append(pa.table({"id": ids, "name": names}).cast(mirror.schema().as_arrow()))


def compact(mirror: Table) -> None:
    """Rewrite all rows into one new file."""
    mirror.overwrite(mirror.scan().to_arrow().sort_by([("name", "descending")]), AlwaysTrue())


def delete_rows(mirror: Table, ids: Iterable[int]) -> None:
    """Delete these keys merge-on-read, with position deletes or deletion vectors."""
    wanted, deleted = set(ids), {}
    live = live_files(mirror.io, mirror.current_snapshot())
    for path in live:
        with mirror.io.new_input(path).open() as stream:
            keys = pa.parquet.read_table(stream, columns=["id"])["id"].to_pylist()
        positions = np.array(
            [at for at, key in enumerate(keys) if key in wanted and _is_live(mirror, path, at)]
        )
        if len(positions):
            deleted[path] = positions.astype(np.int64)
    RowDelta(
        table=mirror,
        head=mirror.current_snapshot(),
        snapshot_id=mirror.metadata.new_snapshot_id(),
        data_files=(),
        delete_files=write_deletes(mirror.io, mirror.metadata, deleted, live, []),
        summary={},
        properties={},
        replaced_deletes=replaced_deletes(mirror.metadata, deleted, live),
    ).commit()


def _is_live(mirror: Table, path: str, position: int) -> bool:
    from spark_job.write.read_deletes import read_deleted_positions

    live = live_files(mirror.io, mirror.current_snapshot())
    return position not in read_deleted_positions(mirror.io, {path: live[path]})[path]
