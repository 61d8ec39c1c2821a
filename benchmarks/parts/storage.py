"""The disk space of a mirror compared with plain Parquet of the same rows, and index bytes per row."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.dataset import make_dataset
from benchmarks.parts.merges import apply_batch, inspect_table, load_table
from benchmarks.parts.scale import Scale
from benchmarks.result import Storage, Storages
from benchmarks.systems.catalogue import OURS
from benchmarks.workloads.narrow_rows import NARROW, NARROW_STREAMED, UUID
from benchmarks.workloads.padded_rows import ROW_BYTES, integer_shape, text_shape
from benchmarks.workloads.random_updates import RandomUpdates

_ROWS_PER_UPDATE = 100  # one of this many rows is updated


def measure_storage(scale: Scale, bench: Bench) -> Storages:
    """Measure each table after the initial copy, and after one batch of updates of 1 % of its rows."""
    shapes = [(shape, scale.index_rows) for shape in (NARROW, NARROW_STREAMED, UUID)]
    for row_bytes in ROW_BYTES:
        shapes += [(make(row_bytes), scale.storage_rows) for make in (integer_shape, text_shape)]
    tables: list[Storage] = []
    with bench.open(OURS) as process:
        for shape, rows in shapes:
            workload = RandomUpdates(f"storage-{shape.name}", shape, rows, (rows // _ROWS_PER_UPDATE,))
            bench.progress.step(f"data: {workload.title}")
            data = make_dataset(workload)
            load_table(workload, data, process, bench.progress)
            copied = inspect_table(workload, data, 0, process, bench.progress)
            apply_batch(workload, data, 0, process, bench.progress)
            updated = inspect_table(workload, data, 1, process, bench.progress)
            tables.append(
                Storage(
                    name=shape.name,
                    rows=rows,
                    updates=workload.events[0],
                    plain_bytes=data.plain_bytes,
                    copied=copied.figures(),
                    updated=updated.figures(),
                )
            )
    return Storages(tables=tuple(tables))
