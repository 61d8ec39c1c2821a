"""Runs the work of a job in a separate process, which a named crash point may kill.

It has the structure of the job, but without Spark: crash points are in the driver and in the tasks. Processes are
forked from one that has imported the engine, which is faster than a new Python.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyiceberg.table import Table

from icemirror.config_file.load import load_settings
from icemirror.processes import crash_points as crash
from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.settings import TableSettings
from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.maintenance import expire as expire_module
from spark_job.maintenance import orphans
from spark_job.pipeline import Pipeline
from spark_job.rebuild.replay import replay_step

_TIMEOUT_SECONDS = 120

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__])

Work = Callable[[Pipeline, TableSettings], bool]


def merge(pipeline: Pipeline, table: TableSettings) -> bool:
    """Merge up to the changelog's head."""
    return merge_table(pipeline, table).outcome != "failed"


def rebuild(pipeline: Pipeline, table: TableSettings) -> bool:
    """Rebuild the mirror; a file stores the progress in place of the state store."""
    progress_file = pipeline.settings.source_path.with_name("mark")
    while True:
        progress = ReplayProgress(mark=progress_file.read_text()) if progress_file.exists() else None
        step = replay_step(pipeline, table, Replay("full", 0.0, full=True, progress=progress))
        if step.done:
            progress_file.unlink(missing_ok=True)
            return True
        progress_file.write_text(step.progress.mark or "")


def _mirror(pipeline: Pipeline, table: TableSettings) -> Table:
    mirror = pipeline.catalogs.load_mirror(table)
    assert mirror is not None
    return mirror


def expire(pipeline: Pipeline, table: TableSettings) -> bool:
    """Expire old snapshots of the mirror."""
    expire_module.expire(_mirror(pipeline, table), table.name)
    return True


def clean_orphans(pipeline: Pipeline, table: TableSettings) -> bool:
    """Delete all unreferenced files of any age."""
    orphans.clean_orphans(lambda: _mirror(pipeline, table), table.name, older_than_seconds=-60)
    return True


def adopt(pipeline: Pipeline, table: TableSettings) -> bool:
    """Adopt the table as a mirror at the changelog's head."""
    adopt_table(pipeline, table, "head", dry_run=False)
    return True


def run_forked(work: Work, config: Path, shards: int, crash_at: str | None = None) -> int:
    """Return the exit code: 0 if the work succeeded, 1 if it failed, negative if it was killed."""
    process = _forks.Process(target=_run, args=(work, config, shards, crash_at))
    process.start()
    process.join(_TIMEOUT_SECONDS)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{work.__name__} has not ended after {_TIMEOUT_SECONDS} s")
    return process.exitcode


def _run(work: Work, config: Path, shards: int, crash_at: str | None) -> None:
    if crash_at is not None:
        os.environ[crash.CRASH_VARIABLE] = crash_at
        importlib.reload(crash)
    settings = load_settings(config, os.environ)
    engine = LazyEngine(lambda: InProcessEngine(shards))
    pipeline = Pipeline(settings, Catalogs(settings), engine, "killed", key_check_rows=None)
    sys.exit(not work(pipeline, settings.tables[0]))
