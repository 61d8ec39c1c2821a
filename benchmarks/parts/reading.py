"""The cost of many small merges for readers: scans of the mirror and of a rewritten copy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

from benchmarks.bench import Bench
from benchmarks.dataset import make_dataset
from benchmarks.messages import Scan
from benchmarks.parts.merges import apply_batch, inspect_table, load_table
from benchmarks.parts.scale import Scale
from benchmarks.process import SystemFailed
from benchmarks.result import Reader, Reading
from benchmarks.systems.catalogue import OURS, PEER, SYSTEMS
from benchmarks.systems.iceberg_scan import read_batches, time_scans
from benchmarks.workloads.narrow_rows import NARROW
from benchmarks.workloads.small_batches import SmallBatches
from tests.provision.cache import Unavailable

_FORMATS = (2, 3)


def measure_reading(scale: Scale, bench: Bench) -> Reading:
    """Measure scans by DuckDB, and by Spark SQL if Iceberg's jar is available, for both format versions."""
    events = (scale.small_events,) * scale.reading_merges
    readers: list[Reader] = []
    left_out: dict[str, str] = {}
    for version in _FORMATS:
        workload = SmallBatches(f"reading-v{version}", NARROW, scale.tables[0], events)
        bench.progress.step(f"data: {workload.title}")
        data = make_dataset(workload)
        with bench.open(OURS) as process, bench.folder() as folder:
            load_table(workload, data, process, bench.progress, version)
            for number in range(len(events)):
                apply_batch(workload, data, number, process, bench.progress)
            inspection = inspect_table(workload, data, len(events), process, bench.progress)
            if inspection.metadata is None:
                raise AssertionError("a mirror is an Iceberg table")
            copy, columns = _copy(inspection.metadata, folder)
            compacted = time_scans(copy, columns)
            readers.append(
                Reader(name=f"DuckDB, format v{version}", merged=inspection.scans, compacted=compacted)
            )
            name = f"Spark SQL, format v{version}"
            try:
                readers.append(_scan_with_spark(name, inspection.metadata, copy, bench))
            except (Unavailable, SystemFailed) as error:
                left_out[name] = str(error).splitlines()[0][:200]
    return Reading(title=workload.title, merges=len(events), readers=tuple(readers), left_out=left_out)


def _copy(metadata: str, folder: Path) -> tuple[str, pa.Schema]:
    """Copy the rows to a new table with files of the default size; return its metadata file and its columns."""
    catalog = load_catalog(
        "copy", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace("bench")
    columns = StaticTable.from_metadata(metadata).schema().as_arrow()
    table = catalog.create_table(("bench", "copy"), columns)
    table.append(pa.Table.from_batches(read_batches(metadata, columns)).cast(columns))
    return table.metadata_location, columns


def _scan_with_spark(name: str, metadata: str, copy: str, bench: Bench) -> Reader:
    SYSTEMS[PEER].prepare()
    with bench.open(PEER) as process:
        bench.progress.step("Spark SQL: scan the mirror and its copy")
        merged, compacted = (process.scan(Scan(metadata=location)) for location in (metadata, copy))
    if merged.rows != compacted.rows:
        raise SystemFailed(f"Spark SQL reads {merged.rows} rows of the mirror, {compacted.rows} of its copy")
    return Reader(name=name, merged=merged.seconds, compacted=compacted.seconds)
