"""icemirror: the job's pipeline, from a changelog in a SQL catalog to its mirror."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.disk import folder_bytes
from benchmarks.fingerprint import fingerprint
from benchmarks.messages import Inspection, Load, Start, Timed
from benchmarks.systems.changelog import append_flushes, copy_base
from benchmarks.systems.iceberg_scan import read_batches, time_scans
from icemirror.config_file.load import load_settings
from icemirror.result import SliceResult
from icemirror.settings import Settings
from icemirror.settings.tables import TableSettings
from icemirror.step_results import Merged
from spark_job.worker.wiring import build_pipeline

_CONFIG = """
iceberg:
  catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}
telemetry: {{prometheus: null}}
job:
  spark: {{spark.master: "local[{cores}]", spark.driver.memory: {memory}, spark.local.dir: "{folder}/spark"}}
tables:
  - {{namespace: bench, changelog_table: {table}_changelog, mirror_table: {table}, partition_by: {partition_by}{more}}}
"""


class IcemirrorJob:
    """Runs the pipeline of a worker, with a configuration per table."""

    def __init__(self, start: Start) -> None:
        self._start = start
        (start.workspace / "warehouse").mkdir()
        self._tables: dict[str, TableSettings] = {}
        no_table = Load(table="none", files=())
        self._pipeline = build_pipeline(self._configure(no_table), run_id="benchmark")
        self._catalog = self._pipeline.catalogs.get(None)
        self._catalog.create_namespace("bench")

    @property
    def versions(self) -> dict[str, str]:
        """Return the default format version of mirrors."""
        return {"mirror format": f"v{self._pipeline.settings.tables[0].format_version}"}

    def load(self, request: Load) -> Timed:
        """Commit the initial copy, then merge up to the head; only the merge is timed."""
        table = request.table
        self._tables[table] = self._configure(request).tables[0]
        copy_base(self._catalog, ("bench", f"{table}_changelog"), request.files)
        return self._merge_to_head(table)

    def apply(self, table: str, batch: Path) -> Timed:
        """Commit the batch, then merge up to the head; only the merge is timed."""
        append_flushes(self._catalog, ("bench", f"{table}_changelog"), batch)
        return self._merge_to_head(table)

    def inspect(self, table: str) -> Inspection:
        """Inspect a table; DuckDB reads and scans the rows. The bytes of the changelog do not count."""
        settings = self._tables[table]
        mirror = self._catalog.load_table(settings.mirror_id.parts)
        location = mirror.metadata_location
        columns = mirror.schema().as_arrow()
        scans = time_scans(location, columns)
        files = mirror.inspect.files().select(["content", "file_size_in_bytes"]).to_pylist()
        sizes = [(file["content"], file["file_size_in_bytes"]) for file in files]
        position = self._pipeline.advance(settings).mirror_status
        uuid = str(mirror.metadata.table_uuid)
        folders = [Path(mirror.location().removeprefix("file://")), *self._start.workspace.rglob(uuid)]
        return Inspection(
            fingerprint=fingerprint(read_batches(location, columns), columns),
            data_bytes=sum(size for content, size in sizes if content == 0),
            delete_bytes=sum(size for content, size in sizes if content != 0),
            index_bytes=position.index_bytes if position else 0,
            disk_bytes=sum(map(folder_bytes, folders)),
            scanned_by="DuckDB",
            scans=scans,
            metadata=location,
        )

    def close(self) -> None:
        """Stop Spark."""
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()

    def _configure(self, request: Load) -> Settings:
        config = self._start.workspace / f"{request.table}.yaml"
        config.write_text(
            _CONFIG.format(
                folder=self._start.workspace,
                cores=self._start.cores,
                memory=self._start.driver_memory,
                table=request.table,
                partition_by=[request.partition] if request.partition else [],
                more=f", format_version: {request.format_version}" if request.format_version else "",
            ),
            encoding="utf-8",
        )
        return load_settings(config, os.environ)

    def _merge_to_head(self, table: str) -> Timed:
        """Merge slice by slice up to the head; the empty plan is timed separately."""
        settings, clock = self._tables[table], self._pipeline.clock_seconds
        began = ended = clock()
        slices: list[SliceResult] = []
        while isinstance(step := self._pipeline.advance(settings), Merged):
            ended = clock()
            slices.append(step.slice)
        empty_plan_seconds = clock() - ended
        return Timed(
            seconds=ended - began, steps={**_steps(slices, ended - began), "empty plan": empty_plan_seconds}
        )


def _steps(slices: Sequence[SliceResult], seconds: float) -> dict[str, float]:
    """Return the seconds by step over all slices; time outside of the steps is `spark`: scheduling and transfer."""
    steps: dict[str, float] = {"slices": float(len(slices))}
    for slice_result in slices:
        for step, spent in slice_result.seconds_by_step.items():
            steps[step] = steps.get(step, 0.0) + spent
    in_steps = sum(spent for slice_result in slices for spent in slice_result.seconds_by_step.values())
    return {**steps, "spark": seconds - in_steps}
